"""A run folder as arrays: what the report needs of it, read a line at a time."""

import dataclasses
import itertools
import os
from collections.abc import Iterator
from typing import Any, final

import numpy as np

from fedplus.check import SettingError
from fedplus.experiments.run_folder import (
    ENV,
    LARGEST,
    PARTIES,
    ROUNDS,
    SPEC,
    STATUS,
    RunFolder,
    is_round_number,
    parse_lines,
    require_plain,
)

Host = np.ndarray
HUGE = 1e100
"""Numbers beyond are treated like NaN: their squares would overflow."""
TEXTS = ("state", "label", "method", "data", "model", "score_name", "better", "message")
COUNTS = ("seed", "parties", "round", "rounds")
FIGURES = (
    "round", "change_std", "change_most", "iterations", "residual", "converged", "dropped", "cohort",
)  # fmt: skip


@final
@dataclasses.dataclass(frozen=True)
class RunData:
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


def mean_of_known(values: Any, axis: int | None = None) -> Any:
    """The mean of what is known; NaN, without a warning, where nothing is."""
    values = np.asarray(values, float)
    known = np.isfinite(values)
    count = known.sum(axis)
    total = np.where(known, values, 0).sum(axis)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)[()]


def mean_or_nan(values: Any) -> float:
    """The mean of all; NaN where one is not known: a model that diverged is not to be hidden."""
    values = np.asarray(values, float)
    return float(values.mean()) if values.size else float("nan")


def worst_or_nan(values: Any, better: str) -> float:
    """The worst of all; NaN where one is not known."""
    values = np.asarray(values, float)
    if not values.size:
        return float("nan")
    return float(values.min() if better == "higher" else values.max())


def read_run_data(folder: RunFolder) -> RunData:
    """Read a run folder; files that a run which has just begun has not written yet are empty.

    Raises:
        SettingError: A file is damaged; the message names it.
    """
    status = _status(folder)
    there = {name: os.path.lexists(folder.path / name) for name in (ENV, PARTIES, SPEC)}
    begun = folder.path / ROUNDS
    parties = folder.parties if there[PARTIES] or (begun.exists() and begun.stat().st_size) else {}
    at = str(folder.path / PARTIES)
    names = tuple(_text(name, at) for name in _list(parties, "names", at))
    kept: list[_Kept] = []
    for number, line in _lines(folder):
        where = f"{folder.path / ROUNDS}, line {number},"
        kept.append(_Kept(line, len(names), status, where))
        if len(kept) > 1 and kept[-2].round >= kept[-1].round:
            raise _damaged(where, "its round is not above the one before")
    above = folder.path.resolve().parent
    return RunData(
        study=above.name if (above / SPEC).exists() else folder.path.resolve().name,
        status=status,
        env=folder.env if there[ENV] else {},
        spec=folder.text(SPEC) if there[SPEC] else "",
        names=names,
        sizes=(*_list(parties, "train", at), *_list(parties, "test", at)),
        outliers=frozenset(_text(name, at) for name in _list(parties, "outliers", at)),
        stand_in_for=_text(parties.get("stand_in_for"), at),
        local=_over_parties(parties.get("local"), len(names), at),
        majority=_over_parties(parties.get("majority"), len(names), at),
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

    def __init__(self, line: dict[str, Any], n: int, status: dict[str, Any], where: str) -> None:
        better = status.get("better") or "higher"
        personal, shared = (_table(line, key, where) for key in ("personal", "global"))
        self.round = line["round"]
        self.personal = _over_parties(line.get("personal_score"), n, where)
        self.shared = _over_parties(line.get("global_score"), n, where)
        self.v_norm = _over_parties(line.get("v_norm"), n, where)
        self.few = {
            "mean": _number(personal.get("mean"), mean_or_nan(self.personal), where),
            "worst": _number(personal.get("worst"), worst_or_nan(self.personal, better), where),
            "global": _number(shared.get("mean"), mean_or_nan(self.shared), where),
            "loss": mean_or_nan(_over_parties(line.get("personal_loss"), n, where)),
            "objective": _number(line.get("objective"), np.nan, where),
        }
        figures = _table(line, "figures", where)
        length = len(_list(figures, "round", where))
        self.figures = {key: _over_parties(figures.get(key), length, where) for key in FIGURES}
        self.path = _path(_table(line, "path", where), where)


def _path(path: dict[str, Any], where: str) -> tuple[list[float], Host] | None:
    if not path:
        return None
    mixed = _floats(_list(path, "lambda", where), where).tolist()
    scores = [mean_or_nan(_floats(one, where)) for one in _list(path, "score", where)]
    if len(mixed) != len(scores) or not np.isfinite(mixed).all():
        raise _damaged(where, "path must have a score for each lambda")
    return mixed, np.array(scores)


def _status(folder: RunFolder) -> dict[str, Any]:
    """Return ``status.json`` with texts and numbers where they belong."""
    found, path = folder.status, folder.path / STATUS
    for key in TEXTS:
        found[key] = _text(found.get(key), str(path), key)
    for key in COUNTS:
        if found.get(key) is not None and not is_round_number(found[key]):
            raise _damaged(path, f"{key} must be a whole number, got {str(found[key])[:40]!r}")
    if found["better"] not in ("", "higher", "lower"):
        raise _damaged(path, f"better must be higher or lower, got {found['better'][:40]!r}")
    return found


def _lines(folder: RunFolder) -> Iterator[tuple[int, dict[str, Any]]]:
    path = folder.path / ROUNDS
    if not os.path.lexists(path):
        return
    try:
        require_plain(path)
        with path.open("rb") as file:  # Line by line: with 100,000 parties a line is 10 MB.
            for number in itertools.count(1):
                raw = file.readline(LARGEST)
                if not raw:
                    return
                where = f"{path}, line {number},"
                if len(raw) == LARGEST:
                    raise _damaged(where, "it is too long")
                for line in parse_lines(raw, where)[0]:
                    yield number, line
    except OSError as error:
        raise SettingError(f"{path} cannot be read: {error.strerror or error}.") from error


def _damaged(where: object, why: str) -> SettingError:
    return SettingError(f"{where} is damaged: {why}.")


def _text(value: Any, where: str, key: str = "a name") -> str:
    """Return a text; half a surrogate pair, which no file can hold, becomes a question mark."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _damaged(where, f"{key} must be a text, got {str(value)[:40]!r}")
    return value.encode("utf-8", "replace").decode("utf-8")


def _list(table: dict[str, Any], key: str, where: str) -> list[Any]:
    found = table.get(key)
    if found is not None and not isinstance(found, list):
        raise _damaged(where, f"{key} must be a list, got {str(found)[:40]!r}")
    return found or []


def _table(line: dict[str, Any], key: str, where: str) -> dict[str, Any]:
    found = line.get(key)
    if found is not None and not isinstance(found, dict):
        raise _damaged(where, f"{key} must be an object, got {str(found)[:40]!r}")
    return found or {}


def _floats(values: Any, where: str) -> Host:
    """Return numbers as an array: NaN for null, and for what is too large to compute with."""
    try:
        made = np.array(values, float)
    except (TypeError, ValueError, OverflowError):
        made = np.zeros(())
    if made.ndim != 1 or not isinstance(values, list):
        raise _damaged(where, f"numbers must be in a list, got {str(values)[:40]!r}")
    return np.where(np.abs(made) <= HUGE, made, np.nan)


def _over_parties(values: Any, n: int, where: str) -> Host:
    if values is None:
        return np.full(n, np.nan)
    known = _floats(values, where)
    if known.size > n:
        raise _damaged(where, f"a list must have {n} entries, got {known.size}")
    return np.concatenate(
        [known, np.full(n - known.size, np.nan)]
    )  # Parties may have joined since.


def _stacked(rows: list[Host], n: int) -> Host:
    return np.stack(rows) if rows else np.zeros((0, n))


def _number(value: Any, otherwise: float, where: str) -> float:
    return otherwise if value is None else float(_floats([value], where)[0])
