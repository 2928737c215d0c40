"""The top of the report: the verdict in words, warnings, and the table."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedplus.experiments.constant_answer import warn_below_constant_answer
from fedplus.report.formatting import Score, count_of
from fedplus.report.groups import Group
from fedplus.report.headline import headline
from fedplus.report.run_data import mean_or_nan
from fedplus.report.table_formats import footnote, marked_label, p_value
from fedplus.report.tables import compare_groups

MOST = 5
"""Failed runs of a report whose reason is shown."""
STATES = (
    ("running", "is still going on", "are still going on"),
    ("stopped", "was stopped before its end", "were stopped before their end"),
    ("failed", "failed", "failed"),
)


def table(groups: Sequence[Group]) -> dict[str, Any]:
    """A row a label, and rows for what parties reach without a federation."""
    made = compare_groups(groups)
    with_p = any(row.p is not None for row in made.rows)
    noted = any(row.note for row in made.rows)
    rows = [
        [
            marked_label(row) if with_p else row.label,
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
        "note": footnote(made)
        + (" Bold: the best." if any(row.is_best for row in made.rows) else ""),
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
        told.append(headline(judged, score, f"On {data}, " if len(sets) > 1 else ""))
    told += [text for group in groups if (text := _diverged(group))]
    runs = [run for group in groups for run in group.runs]
    for state, one, many in STATES:
        some = sum(run.status.get("state") == state for run in runs)
        if some:
            told.append(f"{some:,} of {count_of(len(runs), 'run')} {one if some == 1 else many}.")
    return " ".join(told)


def warnings(groups: Sequence[Group], score: Score) -> list[str]:
    """Return a line for each run that failed, with its reason, and each method that learned nothing."""
    failed = [
        f"{group.label}, seed {run.status.get('seed')}, failed: "
        f"{run.status.get('message') or 'no reason was recorded.'}"
        for group in groups
        for run in group.runs
        if run.status.get("state") == "failed"
    ]
    if len(failed) > MOST:
        failed = [*failed[:MOST], f"… and {len(failed) - MOST} more failed."]
    return [*failed, *(text for group in groups if (text := _learned_nothing(group, score)))]


def _learned_nothing(group: Group, score: Score) -> str:
    """Warn of a method whose finished runs end below the constant answer."""
    done = [run for run in group.good if run.status.get("state") == "finished"]
    if not done:
        return ""
    mean = mean_or_nan([mean_or_nan(run.personal[-1]) for run in done])
    constant = mean_or_nan([mean_or_nan(run.majority) for run in done])
    told = warn_below_constant_answer(
        score.name, score.better, mean, constant, done[0].is_standardised
    )
    return f"{group.label} {told}" if told else ""


def stand_ins(groups: Sequence[Group]) -> str:
    """What the data stands in for, if anything."""
    found = {g.data: run.stand_in_for for g in groups for run in g.runs if run.stand_in_for}
    return " ".join(
        f"The data {data} is a stand-in for {real}, made up for want of the real files: "
        "its scores say nothing about those of the real data."
        for data, real in found.items()
    )


def _diverged(group: Group) -> str:
    lost = sum(int((~np.isfinite(run.personal[-1])).sum()) for run in group.judged)
    what = f"{count_of(lost, 'score')} at the last evaluation {'is' if lost == 1 else 'are'}"
    return f"Under {group.label} {what} not a finite number." if lost else ""
