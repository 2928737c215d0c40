"""A run folder as arrays: what the report needs of it, read a line at a time."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, final

import numpy as np

from fedplus._check import SettingError
from fedplus.experiments.folder import ENV, PARTIES, ROUNDS, SPEC, RunFolder, parsed

Host = np.ndarray
FIGURES = (
    "round", "change_std", "change_most", "iterations", "residual", "converged", "dropped", "cohort",
)  # fmt: skip


@final
@dataclasses.dataclass(frozen=True)
class Run:
    """One run; T evaluated rounds, N parties, NaN for what is not known."""

    study: str
    """The name of the folder of the run, or of the study that it is in."""
    status: dict[str, Any]
    env: dict[str, Any]
    spec: str
    names: tuple[str, ...]
    sizes: tuple[Any, ...]
    """Training and test samples: together with the names and outliers they tell parties apart."""
    outliers: frozenset[str]
    stand_in_for: str
    local: Host
    """(N,): what each party reaches on its own."""
    majority: Host
    rounds: Host
    """(T,): rounds done at each evaluation."""
    personal: Host
    """(T, N): scores."""
    shared: Host
    """(T, N): scores of the global model."""
    v_norm: Host
    few: dict[str, Host]
    """(T,) each: mean and worst of the personal scores, mean of the global ones, losses, F_σ."""
    figures: dict[str, Host]
    """Of each round."""
    path: tuple[list[float], Host] | None
    """λ, and the mean score over the parties at the last evaluation that has it."""

    @property
    def is_standardised(self) -> bool:
        """Whether the specification says so."""
        return "standardise = true" in self.spec

    @property
    def is_outlier(self) -> Host:
        """(N,)."""
        return np.array([name in self.outliers for name in self.names], bool)


def mean(values: Any, axis: int | None = None) -> Any:
    """The mean of what is known; NaN, without a warning, where nothing is."""
    values = np.asarray(values, float)
    known = np.isfinite(values)
    count = known.sum(axis)
    total = np.where(known, values, 0).sum(axis)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)[()]


def average(values: Any) -> float:
    """The mean of all; NaN where one is not known: a model that diverged is not to be hidden."""
    values = np.asarray(values, float)
    return float(values.mean()) if values.size else float("nan")


def worst(values: Any, better: str) -> float:
    """The worst of all; NaN where one is not known."""
    values = np.asarray(values, float)
    if not values.size:
        return float("nan")
    return float(values.min() if better == "higher" else values.max())


def read(folder: RunFolder) -> Run:
    """Everything; what a run that has just begun has not written yet is empty."""
    status = folder.status
    there = {name: (folder.path / name).exists() for name in (ENV, PARTIES, SPEC)}
    begun = folder.path / ROUNDS
    parties = folder.parties if there[PARTIES] or (begun.exists() and begun.stat().st_size) else {}
    names = tuple(map(str, parties.get("names") or ()))
    kept = [_Kept(line, len(names), status) for line in _lines(folder)]
    above = folder.path.resolve().parent
    return Run(
        study=above.name if (above / SPEC).exists() else folder.path.resolve().name,
        status=status,
        env=folder.env if there[ENV] else {},
        spec=(folder.path / SPEC).read_text(encoding="utf-8") if there[SPEC] else "",
        names=names,
        sizes=(*(parties.get("train") or ()), *(parties.get("test") or ())),
        outliers=frozenset(map(str, parties.get("outliers") or ())),
        stand_in_for=str(parties.get("stand_in_for") or ""),
        local=_over_parties(parties.get("local"), len(names)),
        majority=_over_parties(parties.get("majority"), len(names)),
        rounds=np.array([k.round for k in kept], int),
        personal=_stacked([k.personal for k in kept], len(names)),
        shared=_stacked([k.shared for k in kept], len(names)),
        v_norm=_stacked([k.v_norm for k in kept], len(names)),
        few={key: np.array([k.few[key] for k in kept], float) for key in _Kept.FEW},
        figures={
            key: np.concatenate([np.zeros(0), *(k.figures[key] for k in kept)]) for key in FIGURES
        },
        path=next((k.path for k in reversed(kept) if k.path), None),
    )


class _Kept:
    """What is kept of a line."""

    FEW = ("mean", "worst", "global", "loss", "objective")

    def __init__(self, line: dict[str, Any], n: int, status: dict[str, Any]) -> None:
        better = status.get("better", "higher")
        self.round = line["round"]
        self.personal = _over_parties(line.get("personal_score"), n)
        self.shared = _over_parties(line.get("global_score"), n)
        self.v_norm = _over_parties(line.get("v_norm"), n)
        self.few = {
            "mean": _number((line.get("personal") or {}).get("mean"), average(self.personal)),
            "worst": _number(
                (line.get("personal") or {}).get("worst"), worst(self.personal, better)
            ),
            "global": _number((line.get("global") or {}).get("mean"), average(self.shared)),
            "loss": average(_over_parties(line.get("personal_loss"), n)),
            "objective": _number(line.get("objective"), np.nan),
        }
        figures = line.get("figures") or {}
        length = len(figures.get("round") or ())
        self.figures = {key: _over_parties(figures.get(key), length) for key in FIGURES}
        path = line.get("path")
        self.path = (
            (path["lambda"], np.array([average(_floats(s)) for s in path["score"]]))
            if path
            else None
        )


def _lines(folder: RunFolder) -> Iterator[dict[str, Any]]:
    path = folder.path / ROUNDS
    if not path.exists():
        return
    with path.open("rb") as file:  # Line by line: with 100,000 parties a line is 10 MB.
        for raw in file:
            yield from parsed(raw, path)[0]


def _floats(values: Sequence[Any]) -> Host:
    return np.array(values, float)  # None becomes NaN.


def _over_parties(values: Any, n: int) -> Host:
    if values is None:
        return np.full(n, np.nan)
    if len(values) > n:
        raise SettingError(f"A list of a run must have {n} entries, got {len(values)}.")
    return _floats([*values, *[np.nan] * (n - len(values))])  # Parties may have joined since.


def _stacked(rows: list[Host], n: int) -> Host:
    return np.stack(rows) if rows else np.zeros((0, n))


def _number(value: Any, otherwise: float) -> float:
    return float(otherwise if value is None else value)
