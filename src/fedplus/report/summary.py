"""Who is best: the table at the top, and the verdict in words."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedplus.report.formats import footnote, p_value
from fedplus.report.groups import Group
from fedplus.report.read import average
from fedplus.report.tables import compared
from fedplus.report.words import Score, count, listed, sentence

MANY = 5
"""Beyond this outliers are counted rather than named."""
STATES = (
    ("running", "is still going on", "are still going on"),
    ("stopped", "was stopped before its end", "were stopped before their end"),
    ("failed", "failed", "failed"),
)


def table(groups: Sequence[Group]) -> dict[str, Any]:
    """A row a label, and rows for what parties reach without a federation."""
    made = compared(groups)
    with_p = any(row.p is not None for row in made.rows)
    noted = any(row.note for row in made.rows)
    rows = [
        [
            row.label,
            *(made.score.spread(row.columns.get(heading, ())) for heading in made.headings),
            *[p_value(row)] * with_p, str(len(row.seeds)), *[row.note] * noted,
        ]
        for row in made.rows
    ]  # fmt: skip
    return {
        "head": ["", *made.headings, *["p"] * with_p, "seeds", *["note"] * noted],
        "rows": rows,
        "best": [i for i, row in enumerate(made.rows) if row.is_best],
        "references": [i for i, row in enumerate(made.rows) if row.method is None],
        "note": footnote(made).replace(" (*)", " (bold)"),
    }


def verdict(groups: Sequence[Group], score: Score) -> str:
    """A sentence or two a data set."""
    told = []
    sets = dict.fromkeys(group.data for group in groups)
    for data in sets:
        mine = [group for group in groups if group.data == data]
        judged = [group for group in mine if group.good]
        if not judged:
            failed = any(group.judged for group in mine)
            told.append(f"No run on {data} has {'succeeded' if failed else 'been evaluated yet'}.")
            continue
        told.append(_verdict(judged, score, f"On {data}, " if len(sets) > 1 else ""))
    told += [text for group in groups if (text := _diverged(group))]
    runs = [run for group in groups for run in group.runs]
    for state, one, many in STATES:
        some = sum(run.status.get("state") == state for run in runs)
        if some:
            told.append(f"{some:,} of {count(len(runs), 'run')} {one if some == 1 else many}.")
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
    judged = [group for group in groups if group.good]
    return max(
        judged, key=lambda g: score.sign * _nan_last(average(g.last("mean")), score), default=None
    )


def _verdict(judged: Sequence[Group], score: Score, where: str) -> str:
    best = best_of(judged, score)
    assert best is not None
    if not np.isfinite(average(best.last("mean"))):
        return sentence(f"{where}no method has a finite score for every party.")
    seeds = f" over {count(len(best.good), 'seed')}" if len(best.good) > 1 else ""
    told = (
        f"{where}{best.label} {'has the best' if len(judged) > 1 else 'has a'} mean {score.name}"
        f"{',' if len(judged) > 1 else ' of'} {score.text(average(best.last('mean')))}{seeds}; "
        f"its worst party has {score.text(average(best.last('worst')))}"
    )
    others = [g for g in judged if g is not best and np.isfinite(average(g.last("worst")))]
    if others:
        low = min(others, key=lambda g: score.sign * average(g.last("worst")))
        other = next((g for g in others if g.method == "fedavg"), low)
        worst = score.text(average(other.last("worst")))
        if worst != score.text(average(best.last("worst"))):
            told += f", under {other.label} the worst has {worst}"
    outliers = list(dict.fromkeys(n for run in best.good for n in run.names if n in run.outliers))
    if outliers:
        apart = [average(run.personal[-1][run.is_outlier]) for run in best.good]
        one = len(outliers) == 1
        who = (
            f"Party {outliers[0]} is an outlier"
            if one
            else f"Parties {listed(outliers)} are outliers"
        )
        who = f"{len(outliers):,} parties are outliers" if len(outliers) > MANY else who
        told += (
            f". {who}: {best.label} gives {'it' if one else 'them'} {score.text(average(apart))}"
        )
    return sentence(told) + "."


def _diverged(group: Group) -> str:
    lost = sum(int((~np.isfinite(run.personal[-1])).sum()) for run in group.judged)
    what = f"{count(lost, 'score')} at the last evaluation {'is' if lost == 1 else 'are'}"
    return f"Under {group.label} {what} not a finite number." if lost else ""


def _nan_last(value: float, score: Score) -> float:
    return float(value) if np.isfinite(value) else -np.inf * score.sign
