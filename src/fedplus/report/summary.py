"""Who is best: the table at the top, and the verdict in words."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedplus.report.groups import Group
from fedplus.report.read import Host, Run, mean, worst
from fedplus.report.words import Score, count, listed

Column = tuple[str, Callable[[Run, Host], float]]


def table(groups: Sequence[Group], score: Score) -> dict[str, Any]:
    """A row a label, and rows for what parties reach without a federation."""
    runs = [run for group in groups for run in group.runs]
    columns = _columns(score, any(run.is_outlier.any() for run in runs))
    rows: list[dict[str, Any]] = []
    for group in groups:
        scores = [(run, run.personal[-1]) for run in group.judged]
        rows.append(_row(group.label, len(group.judged), scores, columns, score))
    for data in dict.fromkeys(group.data for group in groups):
        of_data = [group for group in groups if group.data == data]
        several = f", {data}" if len(of_data) < len(groups) else ""
        if not any(group.method == "local" for group in of_data):
            rows += _reference(f"each party alone{several}", "local", of_data, columns, score)
        guess = "the most frequent label" if score.name == "accuracy" else "the mean"
        rows += _reference(f"always {guess}{several}", "majority", of_data, columns, score)
    head = ["", *(name for name, _ in columns), "seeds"]
    order = [float(row.pop("rank")) for row in rows]
    best = int(np.nanargmax(order)) if np.isfinite(order).any() else -1
    return {"head": head, "rows": [row["cells"] for row in rows], "best": best,
            "references": [i for i, row in enumerate(rows) if row["reference"]]}  # fmt: skip


def verdict(groups: Sequence[Group], score: Score) -> str:
    """A sentence or two a data set."""
    told = []
    for data in dict.fromkeys(group.data for group in groups):
        judged = [group for group in groups if group.data == data and group.judged]
        if not judged:
            told.append(f"No run on {data} has been evaluated yet.")
            continue
        told.append(_verdict(judged, score, f"On {data}, " if len(judged) < len(groups) else ""))
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
    others = [group for group in judged if group is not best]
    if others:
        other = next((g for g in others if g.method == "fedavg"), min(
            others, key=lambda g: score.sign * _nan_last(mean(g.last("worst")), score)))  # fmt: skip
        told += f", under {other.label} the worst has {score.text(mean(other.last('worst')))}"
    outliers = sorted({name for run in best.judged for name in run.outliers})
    if outliers:
        apart = [mean(run.personal[-1][run.is_outlier]) for run in best.judged]
        one = len(outliers) == 1
        who = (
            f"Party {outliers[0]} is an outlier"
            if one
            else f"Parties {listed(outliers)} are outliers"
        )
        told += f". {who}: {best.label} gives {'it' if one else 'them'} {score.text(mean(apart))}"
    return told + "."


def _columns(score: Score, outliers: bool) -> list[Column]:
    columns: list[Column] = [
        ("mean", lambda run, s: float(mean(s))), ("worst party", lambda run, s: worst(s, score.better)),
    ]  # fmt: skip
    if outliers:
        columns += [("the others", lambda run, s: float(mean(s[~run.is_outlier]))),
                    ("outliers", lambda run, s: float(mean(s[run.is_outlier])))]  # fmt: skip
    return columns


def _row(
    label: str, seeds: int, scores: Sequence[tuple[Run, Host]], columns: Sequence[Column], score: Score
) -> dict[str, Any]:  # fmt: skip
    cells = [score.spread([of(run, s) for run, s in scores]) for _, of in columns]
    return {
        "cells": [label, *cells, str(seeds)], "reference": False,
        "rank": score.sign * float(mean([columns[0][1](run, s) for run, s in scores])),
    }  # fmt: skip


def _reference(
    label: str, field: str, groups: Sequence[Group], columns: Sequence[Column], score: Score
) -> list[dict[str, Any]]:  # fmt: skip
    by_seed = {
        run.status.get("seed"): run
        for g in groups
        for run in g.runs
        if np.isfinite(getattr(run, field)).any()
    }
    if not by_seed:
        return []
    row = _row(
        label,
        len(by_seed),
        [(run, getattr(run, field)) for run in by_seed.values()],
        columns,
        score,
    )
    return [{**row, "reference": True, "rank": np.nan}]


def _nan_last(value: float, score: Score) -> float:
    return float(value) if np.isfinite(value) else -np.inf * score.sign
