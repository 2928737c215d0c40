"""Runs that differ by their seed alone are one line of a chart."""

import json
import tomllib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedplus.check import SettingError
from fedplus.methods import METHODS
from fedplus.report.formatting import Score
from fedplus.report.run_data import Host, RunData, mean_of_known


class Group(NamedTuple):
    """The runs of one label."""

    label: str
    colour: str
    """The method whose colour it has; empty where another label has that colour already."""
    runs: list[RunData]

    @property
    def method(self) -> str:
        """By name."""
        return str(self.runs[0].status.get("method", ""))

    @property
    def data(self) -> str:
        """By name."""
        return str(self.runs[0].status.get("data", ""))

    @property
    def judged(self) -> list[RunData]:
        """Those with an evaluated round; a failed one only where all failed."""
        there = [run for run in self.runs if run.rounds.size]
        return [run for run in there if run.status.get("state") != "failed"] or there

    @property
    def good(self) -> list[RunData]:
        """Judged runs that did not fail: those that are compared."""
        return [run for run in self.judged if run.status.get("state") != "failed"]

    @property
    def alike(self) -> list[RunData]:
        """Judged runs over the same parties, for everything that is told party by party."""
        first = self.judged[:1]
        return [run for run in self.judged if _parties(run) == _parties(first[0])]

    def last(self, key: str) -> Host:
        """A figure at the last evaluated round of the good runs, a number a seed."""
        return np.array([run.few[key][-1] for run in self.good])


def group_runs(runs: Sequence[RunData]) -> list[Group]:
    """By label, and by data set where there are several; in the order that methods are listed in."""
    scores = sorted({str(run.status.get("score_name")) for run in runs})
    if len(scores) > 1:
        raise SettingError(
            f"The runs of a report must have one score, got {', '.join(scores)}. "
            "Make a report for each."
        )
    several = len({run.status.get("data") for run in runs}) > 1
    labels: dict[str, dict[str, dict[int, RunData]]] = {}
    for run in sorted(runs, key=_place):
        label = str(run.status.get("label") or run.status.get("method"))
        name = f"{label}, {run.status.get('data')}" if several else label
        alike = labels.setdefault(name, {}).setdefault(_but_for_the_seed(run), {})
        alike.setdefault(int(run.status.get("seed") or 0), run)  # The same run twice counts once.
    found: dict[str, list[RunData]] = {}
    for name, settings in labels.items():
        for number, alike in enumerate(settings.values(), 1):
            members = list(alike.values())
            place = f"{name} ({members[0].study})" if len(settings) > 1 else name
            found[place if place not in found else f"{place} {number}"] = members
    groups: list[Group] = []
    for label, members in found.items():
        method = str(members[0].status.get("method", ""))
        taken = any(group.colour == method for group in groups)
        groups.append(Group(label, "" if taken else method, members))
    return groups


def score_of(groups: Sequence[Group]) -> Score:
    """The one score of all runs."""
    status = groups[0].runs[0].status
    return Score(str(status.get("score_name") or "score"), str(status.get("better") or "higher"))


class Curve(NamedTuple):
    """A number over rounds: mean and s.d. over the runs that have that round."""

    x: Host
    y: Host
    spread: Host
    """NaN where there is one run alone."""


def curve(series: Sequence[tuple[Host, Host]]) -> Curve:
    """Of pairs of rounds and values, one a seed; a round where one is not finite is left out."""
    x = np.unique(np.concatenate([np.zeros(0), *(rounds for rounds, _ in series)]))
    table = np.zeros((len(series), x.size))
    there = np.zeros(table.shape, bool)
    for row, has, (rounds, values) in zip(table, there, series, strict=True):
        at = np.searchsorted(x, rounds)
        row[at], has[at] = values, True
    count = np.maximum(there.sum(0), 1)
    y = table.sum(0) / count
    squares = np.where(there, np.square(table - y), 0).sum(0)
    spread = np.where(count > 1, np.sqrt(squares / np.maximum(count - 1, 1)), np.nan)
    known = np.isfinite(y)
    return Curve(x[known], y[known], spread[known])


def mean_over_seeds(values: Sequence[Host]) -> Host:
    """Party by party, the mean over the seeds."""
    return np.asarray(mean_of_known(np.stack(values), 0))


def _place(run: RunData) -> tuple[int, int]:
    method = run.status.get("method")
    listed = list(METHODS)
    seed = run.status.get("seed") or 0
    return listed.index(method) if method in listed else len(listed), int(seed)


def _but_for_the_seed(run: RunData) -> str:
    """The specification without its seeds: runs that share it are repetitions of one experiment."""
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
