"""Groups runs that differ only in their seed, and averages over them."""

import json
import tomllib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedplus._types import NumpyArray
from fedplus.check import SettingError
from fedplus.methods import METHODS
from fedplus.report.formatting import Score
from fedplus.report.run_data import RunData, finite_mean


class Group(NamedTuple):
    """The runs of one label: one method with one set of settings, and several seeds."""

    label: str
    colour: str
    """The method whose colour is used, or "" if another group uses that colour already."""
    runs: list[RunData]

    @property
    def method(self) -> str:
        """Return the name of the method."""
        return str(self.runs[0].status.get("method", ""))

    @property
    def data(self) -> str:
        """Return the name of the data set."""
        return str(self.runs[0].status.get("data", ""))

    @property
    def evaluated_runs(self) -> list[RunData]:
        """Return the runs with an evaluated round; failed ones only if all of them failed."""
        evaluated = [run for run in self.runs if run.rounds.size]
        return [run for run in evaluated if run.status.get("state") != "failed"] or evaluated

    @property
    def successful_runs(self) -> list[RunData]:
        """Return the evaluated runs that did not fail; these are compared with other methods."""
        return [run for run in self.evaluated_runs if run.status.get("state") != "failed"]

    @property
    def runs_with_same_parties(self) -> list[RunData]:
        """Return the evaluated runs with the parties of the first one, for charts of parties."""
        first = self.evaluated_runs[:1]
        return [run for run in self.evaluated_runs if _parties(run) == _parties(first[0])]

    def final(self, key: str) -> NumpyArray:
        """Return a summary value at the last evaluation of each successful run."""
        return np.array([run.summaries[key][-1] for run in self.successful_runs])


def group_runs(runs: Sequence[RunData]) -> list[Group]:
    """Group runs by label, data set and settings, in the order in which methods are listed.

    Raises:
        SettingError: The runs have different scores.
    """
    scores = sorted({str(run.status.get("score_name")) for run in runs})
    if len(scores) > 1:
        raise SettingError(
            f"The runs of a report must have one score, got {', '.join(scores)}. "
            "Make a report for each."
        )
    several_sets = len({run.status.get("data") for run in runs}) > 1
    by_name: dict[str, dict[str, dict[int, RunData]]] = {}  # name -> settings -> seed -> run
    for run in sorted(runs, key=_sort_key):
        label = str(run.status.get("label") or run.status.get("method"))
        name = f"{label}, {run.status.get('data')}" if several_sets else label
        by_seed = by_name.setdefault(name, {}).setdefault(_settings_without_seed(run), {})
        by_seed.setdefault(int(run.status.get("seed") or 0), run)  # The same run twice counts once.
    members: dict[str, list[RunData]] = {}
    for name, by_settings in by_name.items():
        for number, by_seed in enumerate(by_settings.values(), 1):
            group = list(by_seed.values())
            label = f"{name} ({group[0].study})" if len(by_settings) > 1 else name
            members[label if label not in members else f"{label} {number}"] = group
    groups: list[Group] = []
    for label, group in members.items():
        method = str(group[0].status.get("method", ""))
        is_taken = any(other.colour == method for other in groups)
        groups.append(Group(label, "" if is_taken else method, group))
    return groups


def score_of(groups: Sequence[Group]) -> Score:
    """Return the score that all runs have in common."""
    status = groups[0].runs[0].status
    return Score(str(status.get("score_name") or "score"), str(status.get("better") or "higher"))


class Curve(NamedTuple):
    """A value over rounds: mean and standard deviation over the runs that have the round."""

    x: NumpyArray
    y: NumpyArray
    std: NumpyArray
    """NaN at rounds that only one run has."""


def average_curves(series: Sequence[tuple[NumpyArray, NumpyArray]]) -> Curve:
    """Average the (rounds, values) of several seeds; leave out rounds with a non-finite value."""
    x = np.unique(np.concatenate([np.zeros(0), *(rounds for rounds, _ in series)]))
    table = np.zeros((len(series), x.size))
    is_known = np.zeros(table.shape, bool)
    for table_row, known_row, (rounds, values) in zip(table, is_known, series, strict=True):
        columns = np.searchsorted(x, rounds)
        table_row[columns], known_row[columns] = values, True
    count = np.maximum(is_known.sum(0), 1)
    y = table.sum(0) / count
    squares = np.where(is_known, np.square(table - y), 0).sum(0)
    std = np.where(count > 1, np.sqrt(squares / np.maximum(count - 1, 1)), np.nan)
    finite = np.isfinite(y)
    return Curve(x[finite], y[finite], std[finite])


def mean_over_seeds(values: Sequence[NumpyArray]) -> NumpyArray:
    """Return the mean over seeds for each party; ``values`` has one array per seed."""
    return np.asarray(finite_mean(np.stack(values), 0))


def _sort_key(run: RunData) -> tuple[int, int]:
    method = run.status.get("method")
    methods = list(METHODS)
    seed = run.status.get("seed") or 0
    return methods.index(method) if method in methods else len(methods), int(seed)


def _settings_without_seed(run: RunData) -> str:
    """Return the specification without its seeds; runs that share it repeat one experiment."""
    try:
        spec = tomllib.loads(run.spec)
    except (tomllib.TOMLDecodeError, RecursionError):
        return run.spec
    spec.pop("seeds", None)
    if isinstance(spec.get("data"), dict):
        spec["data"].pop("seed", None)
    return json.dumps(spec, sort_keys=True, default=str)


def _parties(run: RunData) -> tuple[object, ...]:
    return run.names, run.sizes, run.outliers
