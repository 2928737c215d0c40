"""The top of the report: the verdict, the warnings and the comparison table."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedplus._types import NumpyArray
from fedplus.experiments.constant_answer_warning import constant_answer_warning
from fedplus.report.formatting import Score, count_of, join_names
from fedplus.report.groups import Group
from fedplus.report.headline import headline
from fedplus.report.new_parties_section import new_parties_warning
from fedplus.report.run_data import RunData, mean_or_nan
from fedplus.report.table_formats import footnote, marked_label, p_value
from fedplus.report.tables import compare_groups

MAX_REASONS = 5
"""Number of failed runs whose reasons are shown, and of parties that are named."""
STATES = (
    ("running", "is still running", "are still running"),
    ("stopped", "was stopped before its end", "were stopped before their end"),
    ("failed", "failed", "failed"),
)


def summary_table(groups: Sequence[Group]) -> dict[str, Any]:
    """Return the comparison table: one row per method, then the references without a federation."""
    table = compare_groups(groups)
    has_p = any(row.p is not None for row in table.rows)
    has_notes = any(row.note for row in table.rows)
    rows = [
        [
            marked_label(row) if has_p else row.label,
            *(table.score.mean_and_std(row.columns.get(heading, ())) for heading in table.headings),
            *[p_value(row)] * has_p, str(len(row.seeds)), *[row.note] * has_notes,
        ]
        for row in table.rows
    ]  # fmt: skip
    return {
        "head": ["", *table.headings, *["p"] * has_p, "seeds", *["note"] * has_notes],
        "rows": rows,
        "best": [i for i, row in enumerate(table.rows) if row.is_best],
        "references": [i for i, row in enumerate(table.rows) if row.method is None],
        "note": footnote(table)
        + (" Bold: the best." if any(row.is_best for row in table.rows) else ""),
    }


def verdict(groups: Sequence[Group], score: Score) -> str:
    """Return the headline of each data set, and sentences about diverged and unfinished runs."""
    sentences = []
    sets = dict.fromkeys(group.data for group in groups)
    for data in sets:
        on_set = [group for group in groups if group.data == data]
        successful = [group for group in on_set if group.successful_runs]
        if not successful:
            failed = any(group.evaluated_runs for group in on_set)
            state = "succeeded" if failed else "been evaluated yet"
            sentences.append(f"No run on {data} has {state}.")
            continue
        sentences.append(headline(successful, score, f"On {data}, " if len(sets) > 1 else ""))
    sentences += [text for group in groups if (text := _describe_divergence(group))]
    runs = [run for group in groups for run in group.runs]
    for state, singular, plural in STATES:
        count = sum(run.status.get("state") == state for run in runs)
        if count:
            verb = singular if count == 1 else plural
            sentences.append(f"{count:,} of {count_of(len(runs), 'run')} {verb}.")
    return " ".join(sentences)


def warnings(groups: Sequence[Group], score: Score) -> list[str]:
    """Return the warnings about a study, one line each.

    They name failed runs with the reason, methods below a constant answer, parties whose local steps
    diverged, in the training or after they joined, and what stands out in the data.
    """
    failed = [
        f"{group.label}, seed {run.status.get('seed')}, failed: "
        f"{run.status.get('message') or 'no reason was recorded.'}"
        for group in groups
        for run in group.runs
        if run.status.get("state") == "failed"
    ]
    if len(failed) > MAX_REASONS:
        failed = [*failed[:MAX_REASONS], f"… and {len(failed) - MAX_REASONS} more failed."]
    constant = [text for group in groups if (text := _constant_warning(group, score))]
    diverged = [
        text
        for group in groups
        for text in (_divergence_warning(group), new_parties_warning(group))
        if text
    ]
    notes = dict.fromkeys(note for group in groups for run in group.runs for note in run.notes)
    return [*failed, *constant, *diverged, *notes]


def _divergence_warning(group: Group) -> str:
    """Return a warning that names the parties whose local steps diverged, or ""."""
    clauses = []
    counts: tuple[tuple[str, Callable[[RunData], NumpyArray]], ...] = (
        ("were repeated with smaller steps", lambda run: run.repeated),
        ("were given up even so", lambda run: run.given_up),
    )
    for what, of_run in counts:
        rounds: Counter[str] = Counter()
        for run in group.runs:
            for name, count in zip(run.names, of_run(run), strict=True):
                rounds[name] += int(count)
        names = [name for name, count in rounds.most_common() if count > 0]
        if names:
            shown = join_names([*names[:MAX_REASONS]])
            more = (
                f" and {len(names) - MAX_REASONS} more parties" if len(names) > MAX_REASONS else ""
            )
            total = count_of(sum(rounds.values()), "round")
            clauses.append(f"{what} in {total} of {shown}{more}")
    if not clauses:
        return ""
    return f"{group.label}: local steps diverged and {'; they '.join(clauses)}. Try a smaller eta."


def _constant_warning(group: Group, score: Score) -> str:
    """Return a warning if the finished runs of a method score below a constant answer."""
    finished = [run for run in group.successful_runs if run.status.get("state") == "finished"]
    if not finished:
        return ""
    mean = mean_or_nan([mean_or_nan(run.personal_scores[-1]) for run in finished])
    constant = mean_or_nan([mean_or_nan(run.constant_scores) for run in finished])
    warning = constant_answer_warning(
        score.name, score.better, mean, constant, finished[0].is_standardised
    )
    return f"{group.label} {warning}" if warning else ""


def stand_in_note(groups: Sequence[Group]) -> str:
    """Return a note on data sets that are synthetic stand-ins for real ones, or ""."""
    stand_ins = {g.data: run.stand_in_for for g in groups for run in g.runs if run.stand_in_for}
    return " ".join(
        f"The data {data} is a stand-in for {real}, whose files may not be available: the scores are "
        "not comparable with those on the real data."
        for data, real in stand_ins.items()
    )


def _describe_divergence(group: Group) -> str:
    count = sum(int((~np.isfinite(run.personal_scores[-1])).sum()) for run in group.evaluated_runs)
    subject = f"{count_of(count, 'score')} at the last evaluation {'is' if count == 1 else 'are'}"
    return f"Under {group.label} {subject} not a finite number." if count else ""
