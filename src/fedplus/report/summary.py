"""Who is best: the table at the top, and the verdict in words."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedplus.report.groups import Group
from fedplus.report.read import Host, Run, mean, worst
from fedplus.report.tables import LOCAL, MAJORITY
from fedplus.report.words import Score, count, listed, sentence

MANY = 5
"""Beyond this outliers are counted rather than named."""
Column = tuple[str, Callable[[Run, Host], float]]


def table(groups: Sequence[Group], score: Score) -> dict[str, Any]:
    """A row a label, and rows for what parties reach without a federation."""
    runs = [run for group in groups for run in group.runs]
    columns = _columns(score, any(run.is_outlier.any() for run in runs))
    rows: list[list[str]] = []
    for group in groups:
        scores = [(run, run.personal[-1]) for run in group.judged]
        rows.append(_row(group.label, scores, columns, score))
    for data in dict.fromkeys(group.data for group in groups):
        of_data = [group for group in groups if group.data == data]
        several = f", {data}" if len(of_data) < len(groups) else ""
        if not any(group.method == "local" for group in of_data):
            rows += _reference(f"{LOCAL}{several}", "local", of_data, columns, score)
        guess = "mean label" if score.better == "lower" else MAJORITY
        rows += _reference(f"{guess}{several}", "majority", of_data, columns, score)
    head = ["", *(name for name, _ in columns), "seeds"]
    sets = [[group for group in groups if group.data == data] for data in {g.data for g in groups}]
    winners = {winner.label for of_data in sets if (winner := best_of(of_data, score))}
    return {
        "head": head, "rows": rows,
        "best": [i for i, row in enumerate(rows[: len(groups)]) if row[0] in winners],
        "references": list(range(len(groups), len(rows))),
    }  # fmt: skip


def verdict(groups: Sequence[Group], score: Score) -> str:
    """A sentence or two a data set."""
    told = []
    sets = dict.fromkeys(group.data for group in groups)
    for data in sets:
        judged = [group for group in groups if group.data == data and group.judged]
        if not judged:
            told.append(f"No run on {data} has been evaluated yet.")
            continue
        told.append(_verdict(judged, score, f"On {data}, " if len(sets) > 1 else ""))
    going_on = [
        run for group in groups for run in group.runs if run.status.get("state") == "running"
    ]
    if going_on:
        told.append(
            f"{len(going_on):,} of {sum(len(group.runs) for group in groups):,} runs "
            f"{'is' if len(going_on) == 1 else 'are'} still going on."
        )
    return " ".join(told)


def stand_ins(groups: Sequence[Group]) -> str:
    """What the data stands in for, if anything."""
    found = {g.data: run.stand_in_for for g in groups for run in g.runs if run.stand_in_for}
    return " ".join(
        f"The data {data} is a stand-in for {real}, made up for want of the real files: "
        "its scores say nothing about those of the real data."
        for data, real in found.items()
    )


def best_of(groups: Sequence[Group], score: Score) -> Group | None:
    """The label with the best mean."""
    judged = [group for group in groups if group.judged]
    return max(
        judged, key=lambda g: score.sign * _nan_last(mean(g.last("mean")), score), default=None
    )


def _verdict(judged: Sequence[Group], score: Score, where: str) -> str:
    best = best_of(judged, score)
    assert best is not None
    seeds = f" over {count(len(best.judged), 'seed')}" if len(best.judged) > 1 else ""
    told = (
        f"{where}{best.label} {'has the best' if len(judged) > 1 else 'has a'} mean {score.name}, "
        f"{score.text(mean(best.last('mean')))}{seeds}; "
        f"its worst party has {score.text(mean(best.last('worst')))}"
    )
    others = [g for g in judged if g is not best and np.isfinite(mean(g.last("worst")))]
    if others:
        low = min(others, key=lambda g: score.sign * float(mean(g.last("worst"))))
        other = next((g for g in others if g.method == "fedavg"), low)
        told += f", under {other.label} the worst has {score.text(mean(other.last('worst')))}"
    outliers = list(dict.fromkeys(n for run in best.judged for n in run.names if n in run.outliers))
    if outliers:
        apart = [mean(run.personal[-1][run.is_outlier]) for run in best.judged]
        one = len(outliers) == 1
        who = (
            f"Party {outliers[0]} is an outlier"
            if one
            else f"Parties {listed(outliers)} are outliers"
        )
        who = f"{len(outliers):,} parties are outliers" if len(outliers) > MANY else who
        told += f". {who}: {best.label} gives {'it' if one else 'them'} {score.text(mean(apart))}"
    return sentence(told) + "."


def _columns(score: Score, outliers: bool) -> list[Column]:
    columns: list[Column] = [
        ("mean", lambda run, s: float(mean(s))), ("worst party", lambda run, s: worst(s, score.better)),
    ]  # fmt: skip
    if outliers:
        columns += [("the others", lambda run, s: float(mean(s[~run.is_outlier]))),
                    ("outliers", lambda run, s: float(mean(s[run.is_outlier])))]  # fmt: skip
    return columns


def _row(
    label: str, scores: Sequence[tuple[Run, Host]], columns: Sequence[Column], score: Score
) -> list[str]:
    cells = [score.spread([of(run, s) for run, s in scores]) for _, of in columns]
    return [label, *cells, str(len(scores))]


def _reference(
    label: str, field: str, groups: Sequence[Group], columns: Sequence[Column], score: Score
) -> list[list[str]]:
    """A row, from one run a seed; none where no run has it."""
    by_seed = {run.status.get("seed"): run for group in groups for run in group.runs}
    scores = [(run, getattr(run, field)) for run in by_seed.values()]
    scores = [(run, values) for run, values in scores if np.isfinite(values).any()]
    return [_row(label, scores, columns, score)] if scores else []


def _nan_last(value: float, score: Score) -> float:
    return float(value) if np.isfinite(value) else -np.inf * score.sign
