"""Runs that differ by their seed alone are one line of a chart."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedplus._check import SettingError
from fedplus.methods import METHODS
from fedplus.report.read import Host, Run, deviation, mean


class Group(NamedTuple):
    """The runs of one label."""

    label: str
    colour: str
    """The method whose colour it has; empty where another label has that colour already."""
    runs: list[Run]

    @property
    def method(self) -> str:
        """By name."""
        return str(self.runs[0].status.get("method", ""))

    @property
    def data(self) -> str:
        """By name."""
        return str(self.runs[0].status.get("data", ""))

    @property
    def judged(self) -> list[Run]:
        """Those with an evaluated round."""
        return [run for run in self.runs if run.rounds.size]

    @property
    def alike(self) -> list[Run]:
        """Judged runs over the same parties, for everything that is told party by party."""
        first = self.judged[:1]
        return [run for run in self.judged if _parties(run) == _parties(first[0])]

    def last(self, key: str) -> Host:
        """A figure at the last evaluated round, a number a seed."""
        return np.array([run.few[key][-1] for run in self.judged])


def grouped(runs: Sequence[Run]) -> list[Group]:
    """By label, and by data set where there are several; in the order that methods are listed in."""
    scores = sorted({str(run.status.get("score_name")) for run in runs})
    if len(scores) > 1:
        raise SettingError(
            f"The runs of a report must have one score, got {', '.join(scores)}. "
            "Make a report for each."
        )
    several = len({run.status.get("data") for run in runs}) > 1
    found: dict[str, list[Run]] = {}
    for run in sorted(runs, key=_place):
        label = str(run.status.get("label") or run.status.get("method"))
        name = f"{label}, {run.status.get('data')}" if several else label
        found.setdefault(name, []).append(run)
    groups: list[Group] = []
    for label, members in found.items():
        method = str(members[0].status.get("method", ""))
        taken = any(group.colour == method for group in groups)
        groups.append(Group(label, "" if taken else method, members))
    return groups


class Curve(NamedTuple):
    """A number over rounds: mean and s.d. over the runs that have that round."""

    x: Host
    y: Host
    spread: Host
    """NaN where there is one run alone."""


def curve(series: Sequence[tuple[Host, Host]]) -> Curve:
    """Of pairs of rounds and values, one a seed; rounds that have no value are left out."""
    x = np.unique(np.concatenate([np.zeros(0), *(rounds for rounds, _ in series)]))
    table = np.full((len(series), x.size), np.nan)
    for row, (rounds, values) in zip(table, series, strict=True):
        row[np.searchsorted(x, rounds)] = values
    y = mean(table, 0)
    known = np.isfinite(y)
    return Curve(x[known], y[known], deviation(table, 0)[known])


def over_seeds(values: Sequence[Host]) -> Host:
    """Party by party, the mean over the seeds."""
    return np.asarray(mean(np.stack(values), 0))


def _place(run: Run) -> tuple[int, int]:
    method = run.status.get("method")
    listed = list(METHODS)
    seed = run.status.get("seed") or 0
    return listed.index(method) if method in listed else len(listed), int(seed)


def _parties(run: Run) -> tuple[object, ...]:
    return run.names, run.sizes, run.outliers
