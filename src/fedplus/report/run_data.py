"""Reads a run folder into arrays for the report, and checks that its files are not damaged."""

import dataclasses
import itertools
import os
from collections.abc import Iterator
from typing import Any, NamedTuple, final

import numpy as np

from fedplus._types import NumpyArray
from fedplus.check import SettingError
from fedplus.experiments.run_folder import (
    ENV,
    MAX_BYTES,
    METRICS,
    NEW_PARTIES,
    PARTIES,
    ROUNDS,
    SPEC,
    STATUS,
    RunFolder,
    is_round_number,
    parse_lines,
    require_regular_file,
)

MAX_ABS = 1e100
"""Larger numbers are treated like NaN, because their squares would overflow."""
TEXTS = ("state", "label", "method", "data", "model", "score_name", "better", "message")
COUNTS = ("seed", "parties", "round", "rounds")
FIGURES = (
    "round", "change_std", "change_most", "iterations", "residual", "converged", "dropped", "cohort",
)  # fmt: skip


class MetricValues(NamedTuple):
    """A metric of each party's final model on its test samples, from ``metrics.json``."""

    name: str
    better: str
    personal: NumpyArray
    """(N,) of the personal models."""
    low: NumpyArray
    """(N,) lower ends of the bootstrap intervals; NaN without intervals."""
    high: NumpyArray
    """(N,) upper ends."""
    common: NumpyArray
    """(N,) of the global model."""


class NewParties(NamedTuple):
    """The parties that joined after the training, from ``new_parties.json``."""

    names: tuple[str, ...]
    can_join: bool
    """False if the method cannot train a party without the models of the others."""
    scores: NumpyArray
    """(M,) scores of their models."""
    local_scores: NumpyArray
    """(M,) scores of local training."""
    given_up: NumpyArray
    """(M,) rounds in which their local steps diverged even with the smallest step sizes."""
    steps: int
    rounds: int


@final
@dataclasses.dataclass(frozen=True)
class RunData:
    """The data of one run with T evaluated rounds and N parties; unknown numbers are NaN."""

    study: str
    """Name of the study folder that contains the run, or of the run folder itself."""
    status: dict[str, Any]
    env: dict[str, Any]
    spec: str
    names: tuple[str, ...]
    sizes: tuple[Any, ...]
    """Training and test samples; with the names and outliers they identify the parties."""
    outliers: frozenset[str]
    stand_in_for: str
    inputs: str
    """One line that says how the columns of a table became inputs, or ""."""
    is_standardised: bool
    """Whether the inputs are standardised."""
    notes: tuple[str, ...]
    """Notes on the data, which the report shows."""
    local_scores: NumpyArray
    """(N,) scores of local training."""
    constant_scores: NumpyArray
    """(N,) scores of a constant answer, such as the majority class."""
    rounds: NumpyArray
    """(T,) rounds done at each evaluation."""
    personal_scores: NumpyArray
    """(T, N) scores of the personal models."""
    global_scores: NumpyArray
    """(T, N) scores of the global model."""
    v_norm: NumpyArray
    """(T, N) norms ‖v_k‖ of the personal parts."""
    summaries: dict[str, NumpyArray]
    """(T,) mean and worst personal score, mean global score, mean loss, F_σ, and 1 where Theorem 1
    applies to the rounds that follow, by name."""
    figures: dict[str, NumpyArray]
    """Values of each round, by name (``FIGURES``)."""
    repeated: NumpyArray
    """(N,) rounds in which a party's local steps diverged and were repeated."""
    given_up: NumpyArray
    """(N,) rounds in which they were given up after that."""
    path: tuple[list[float], NumpyArray] | None
    """λ, and the mean score over the parties at the last evaluation with a λ-path."""
    metrics: tuple[MetricValues, ...]
    """Empty if the run is not finished, or its task has no metrics."""
    new_parties: NewParties | None
    """None if no party was held out, or if the run is not finished."""

    @property
    def is_outlier(self) -> NumpyArray:
        """Return an (N,) boolean array that marks the outliers."""
        return np.array([name in self.outliers for name in self.names], bool)


def finite_mean(values: Any, axis: int | None = None) -> Any:
    """Return the mean of the finite values; NaN, without a warning, if there are none."""
    values = np.asarray(values, float)
    is_finite = np.isfinite(values)
    count = is_finite.sum(axis)
    total = np.where(is_finite, values, 0).sum(axis)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)[()]


def mean_or_nan(values: Any) -> float:
    """Return the mean; NaN if any value is NaN, so that a diverged model is visible."""
    values = np.asarray(values, float)
    return float(values.mean()) if values.size else float("nan")


def worst_or_nan(values: Any, better: str) -> float:
    """Return the worst score; NaN if any score is NaN."""
    values = np.asarray(values, float)
    if not values.size:
        return float("nan")
    return float(values.min() if better == "higher" else values.max())


def read_run_data(folder: RunFolder) -> RunData:
    """Read a run folder. A run that has just started may lack some files; they count as empty.

    Raises:
        SettingError: A file is damaged. The message names the file.
    """
    status = _read_status(folder)
    exists = {name: os.path.lexists(folder.path / name) for name in (ENV, PARTIES, SPEC)}
    rounds = folder.path / ROUNDS
    has_rounds = rounds.exists() and rounds.stat().st_size > 0
    parties = folder.parties if exists[PARTIES] or has_rounds else {}
    where = str(folder.path / PARTIES)
    names = tuple(_text(name, where) for name in _list(parties, "names", where))
    lines: list[_Line] = []
    for number, line in _iter_lines(folder):
        where_line = f"{folder.path / ROUNDS}, line {number},"
        lines.append(_Line(line, len(names), status, where_line))
        if len(lines) > 1 and lines[-2].round >= lines[-1].round:
            raise _damage_error(where_line, "its round is not above the one before")
    parent = folder.path.resolve().parent
    return RunData(
        study=parent.name if (parent / SPEC).exists() else folder.path.resolve().name,
        status=status,
        env=folder.env if exists[ENV] else {},
        spec=folder.text(SPEC) if exists[SPEC] else "",
        names=names,
        sizes=(*_list(parties, "train", where), *_list(parties, "test", where)),
        outliers=frozenset(_text(name, where) for name in _list(parties, "outliers", where)),
        stand_in_for=_text(parties.get("stand_in_for"), where),
        inputs=_text(parties.get("inputs"), where),
        is_standardised=parties.get("standardised") is True,
        notes=tuple(_text(note, where) for note in _list(parties, "notes", where)),
        local_scores=_array(parties.get("local"), len(names), where),
        constant_scores=_array(parties.get("majority"), len(names), where),
        rounds=np.array([line.round for line in lines], int),
        personal_scores=_stack([line.personal_scores for line in lines], len(names)),
        global_scores=_stack([line.global_scores for line in lines], len(names)),
        v_norm=_stack([line.v_norm for line in lines], len(names)),
        summaries={
            key: np.array([line.summaries[key] for line in lines], float) for key in _Line.SUMMARIES
        },
        figures={
            key: np.concatenate([np.zeros(0), *(line.figures[key] for line in lines)])
            for key in FIGURES
        },
        repeated=np.nansum(_stack([line.repeated for line in lines], len(names)), axis=0),
        given_up=np.nansum(_stack([line.given_up for line in lines], len(names)), axis=0),
        path=next((line.path for line in reversed(lines) if line.path), None),
        metrics=_read_metrics(folder, len(names)),
        new_parties=_read_new_parties(folder),
    )


def _read_metrics(folder: RunFolder, n: int) -> tuple[MetricValues, ...]:
    path = folder.path / METRICS
    if not os.path.lexists(path):
        return ()
    where = str(path)
    metrics = _table(folder.metrics, "metrics", where)
    values = []
    for name in metrics:
        metric = _table(metrics, name, where)
        if metric.get("better") not in ("higher", "lower"):
            raise _damage_error(where, f"{name[:40]!r} must have a better of higher or lower")
        columns = [_array(metric.get(k), n, where) for k in ("personal", "low", "high", "global")]
        values.append(MetricValues(_text(name, where), metric["better"], *columns))
    return tuple(values)


def _read_new_parties(folder: RunFolder) -> NewParties | None:
    path = folder.path / NEW_PARTIES
    if not os.path.lexists(path):
        return None
    content, where = folder.new_parties, str(path)
    names = tuple(_text(name, where) for name in _list(content, "names", where))
    if not names:
        raise _damage_error(where, "it names no parties")
    for key in ("steps", "rounds"):
        if not is_round_number(content.get(key)):
            raise _damage_error(
                where, f"{key} must be a whole number, got {str(content.get(key))[:40]!r}"
            )
    scores, local_scores, given_up = (
        _array(content.get(key), len(names), where) for key in ("scores", "local", "given_up")
    )
    can_join = content.get("scores") is not None
    steps, rounds = content["steps"], content["rounds"]
    return NewParties(names, can_join, scores, local_scores, given_up, steps, rounds)


class _Line:
    """The checked values of one line of ``rounds.jsonl``, for N parties."""

    SUMMARIES = ("mean", "worst", "global", "loss", "objective", "theorem_1")

    def __init__(self, line: dict[str, Any], n: int, status: dict[str, Any], where: str) -> None:
        better = status.get("better") or "higher"
        personal, global_ = (_table(line, key, where) for key in ("personal", "global"))
        self.round = line["round"]
        self.personal_scores = _array(line.get("personal_score"), n, where)
        self.global_scores = _array(line.get("global_score"), n, where)
        self.v_norm = _array(line.get("v_norm"), n, where)
        worst = worst_or_nan(self.personal_scores, better)
        self.summaries = {
            "mean": _number(personal.get("mean"), mean_or_nan(self.personal_scores), where),
            "worst": _number(personal.get("worst"), worst, where),
            "global": _number(global_.get("mean"), mean_or_nan(self.global_scores), where),
            "loss": mean_or_nan(_array(line.get("personal_loss"), n, where)),
            "objective": _number(line.get("objective"), np.nan, where),
            "theorem_1": _number(line.get("theorem_1"), 1.0, where),
        }
        figures = _table(line, "figures", where)
        length = len(_list(figures, "round", where))
        self.figures = {key: _array(figures.get(key), length, where) for key in FIGURES}
        diverged = _table(line, "diverged", where)
        self.repeated = _array(diverged.get("repeated"), n, where)
        self.given_up = _array(diverged.get("given_up"), n, where)
        self.path = _parse_path(_table(line, "path", where), where)


def _parse_path(path: dict[str, Any], where: str) -> tuple[list[float], NumpyArray] | None:
    if not path:
        return None
    lambdas = _floats(_list(path, "lambda", where), where).tolist()
    scores = [mean_or_nan(_floats(values, where)) for values in _list(path, "score", where)]
    if len(lambdas) != len(scores) or not np.isfinite(lambdas).all():
        raise _damage_error(where, "path must have a score for each lambda")
    return lambdas, np.array(scores)


def _read_status(folder: RunFolder) -> dict[str, Any]:
    """Return ``status.json`` after a check of the types of its values."""
    status, path = folder.status, folder.path / STATUS
    for key in TEXTS:
        status[key] = _text(status.get(key), str(path), key)
    for key in COUNTS:
        value = status.get(key)
        if value is not None and not is_round_number(value):
            raise _damage_error(path, f"{key} must be a whole number, got {str(value)[:40]!r}")
    if status["better"] not in ("", "higher", "lower"):
        raise _damage_error(path, f"better must be higher or lower, got {status['better'][:40]!r}")
    return status


def _iter_lines(folder: RunFolder) -> Iterator[tuple[int, dict[str, Any]]]:
    path = folder.path / ROUNDS
    if not os.path.lexists(path):
        return
    try:
        require_regular_file(path)
        with path.open("rb") as file:  # Line by line: with 100,000 parties a line is 10 MB.
            for number in itertools.count(1):
                raw = file.readline(MAX_BYTES)
                if not raw:
                    return
                where = f"{path}, line {number},"
                if len(raw) == MAX_BYTES:
                    raise _damage_error(where, "it is too long")
                for line in parse_lines(raw, where)[0]:
                    yield number, line
    except OSError as error:
        raise SettingError(f"{path} cannot be read: {error.strerror or error}.") from error


def _damage_error(where: object, why: str) -> SettingError:
    return SettingError(f"{where} is damaged: {why}.")


def _text(value: Any, where: str, key: str = "a name") -> str:
    """Return a text; lone surrogates, which UTF-8 cannot encode, become question marks."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _damage_error(where, f"{key} must be a text, got {str(value)[:40]!r}")
    return value.encode("utf-8", "replace").decode("utf-8")


def _list(table: dict[str, Any], key: str, where: str) -> list[Any]:
    value = table.get(key)
    if value is not None and not isinstance(value, list):
        raise _damage_error(where, f"{key} must be a list, got {str(value)[:40]!r}")
    return value or []


def _table(line: dict[str, Any], key: str, where: str) -> dict[str, Any]:
    value = line.get(key)
    if value is not None and not isinstance(value, dict):
        raise _damage_error(where, f"{key} must be an object, got {str(value)[:40]!r}")
    return value or {}


def _floats(values: Any, where: str) -> NumpyArray:
    """Return a list of numbers as an array; null and numbers beyond ``MAX_ABS`` become NaN."""
    try:
        array = np.array(values, float)
    except (TypeError, ValueError, OverflowError):
        array = np.zeros(())
    if array.ndim != 1 or not isinstance(values, list):
        raise _damage_error(where, f"numbers must be in a list, got {str(values)[:40]!r}")
    return np.where(np.abs(array) <= MAX_ABS, array, np.nan)


def _array(values: Any, n: int, where: str) -> NumpyArray:
    """Return an (n,) array; missing entries are NaN, because parties may have joined later."""
    if values is None:
        return np.full(n, np.nan)
    known = _floats(values, where)
    if known.size > n:
        raise _damage_error(where, f"a list must have {n} entries, got {known.size}")
    return np.concatenate([known, np.full(n - known.size, np.nan)])


def _stack(rows: list[NumpyArray], n: int) -> NumpyArray:
    return np.stack(rows) if rows else np.zeros((0, n))


def _number(value: Any, default: float, where: str) -> float:
    return default if value is None else float(_floats([value], where)[0])
