"""The headline of a comparison: which method is best, if that is shown, and what beats it.

"Best" is said only if the difference to every other method is significant. What needs no federation, or
no training, and still does better than the method is said first.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from fedplus.experiments.constant_answer import NAMES
from fedplus.report.formatting import Score, capitalised, count_of, join_names
from fedplus.report.groups import Group
from fedplus.report.run_data import mean_or_nan
from fedplus.report.table_formats import p_text
from fedplus.report.tables import (
    LEVEL,
    Row,
    compare_groups,
    holm_correction,
    method_row,
    paired_t_test,
    reference_row,
)

MANY = 5
"""Outliers beyond this number are counted instead of named."""


def headline(groups: Sequence[Group], score: Score, where: str = "") -> str:
    """Return the sentences on one data set.

    Args:
        groups: Its methods; at least one has a run that did not fail.
        score: Name and direction of the score.
        where: What the first sentence begins with, e.g. "On mnist, ".
    """
    judged = [group for group in groups if group.good]
    federated = [group for group in judged if group.method != "local"] or judged
    top = best_group(federated, score)
    assert top is not None
    if not np.isfinite(mean_or_nan(top.last("mean"))):
        return capitalised(f"{where}no method has a finite score for every party.")
    standing, details = _standing(top, judged, score), _details(top, federated, score)
    first, *rest = [*_ahead(top, judged, score), f"{standing}{details}."]
    return " ".join([where + _lowered(first) if where else first, *rest])


def best_group(groups: Sequence[Group], score: Score) -> Group | None:
    """Return the group with the best mean, whether that is significant or not."""

    def key(group: Group) -> float:
        mean = mean_or_nan(group.last("mean"))
        return score.sign * mean if np.isfinite(mean) else -np.inf

    return max((group for group in groups if group.good), key=key, default=None)


class _Rival(NamedTuple):
    """Something that needs less than the method does."""

    beats: str
    """The beginning of a sentence, with {verb} in it."""
    row: Row


def _rivals(top: Group, judged: Sequence[Group], score: Score) -> Iterator[_Rival]:
    label = top.label
    if top.method != "local":
        rows = reference_row("", [top], score, lambda run: run.shared[-1])
        text = f"the global model of {label} {{verb}} the parties' own models"
        yield from (_Rival(text, row) for row in rows)
        alone = [group for group in judged if group.method == "local"]
        rows = [method_row(group, score) for group in alone] or reference_row(
            "", judged, score, lambda run: run.local
        )
        yield from (_Rival(f"training alone {{verb}} {label}", row) for row in rows[:1])
    constant = NAMES.get(score.name, "same answer to everything")
    rows = reference_row("", judged, score, lambda run: run.majority)
    yield from (_Rival(f"the {constant} {{verb}} {label}", row) for row in rows)


def _ahead(top: Group, judged: Sequence[Group], score: Score) -> list[str]:
    """Return a sentence for each rival whose mean is better, the best first."""
    mine = method_row(top, score)
    rivals = list(_rivals(top, judged, score))
    found = holm_correction(
        {
            i: p
            for i, rival in enumerate(rivals)
            if (p := paired_t_test(rival.row, mine)) is not None
        }
    )
    told = []
    for i, rival in enumerate(rivals):
        both = [seed for seed in rival.row.seeds if seed in mine.seeds]
        if not both:
            continue
        theirs, ours = (float(np.mean(row.of(both))) for row in (rival.row, mine))
        p = found.get(i)
        clear = p is not None and p < LEVEL
        if not score.sign * (theirs - ours) > 0 or (
            not clear and score.text(theirs) == score.text(ours)
        ):
            continue
        doubt = f"{_seeds(len(both))}: no test" if p is None else p_text(p)
        doubt = doubt if clear or p is None else f"not significantly, {doubt}"
        text = rival.beats.format(verb="beats" if clear else "is ahead of")
        figures = f"mean {score.name} {score.text(theirs)} against {score.text(ours)}"
        told.append((-score.sign * theirs, f"{capitalised(text)}: {figures} ({doubt})."))
    return [text for _, text in sorted(told)]


def _standing(top: Group, judged: Sequence[Group], score: Score) -> str:
    """Say how the method compares with the other methods, without more than was shown."""
    seeds = f" over {count_of(len(top.good), 'seed')}" if len(top.good) > 1 else ""
    mean = score.text(mean_or_nan(top.last("mean")))
    if len(judged) == 1:
        return f"{top.label} has a mean {score.name} of {mean}{seeds}"
    most = "highest" if score.sign > 0 else "lowest"
    leading = f"{top.label} has the {most} mean {score.name}, {mean}{seeds}"
    rows = [row for row in compare_groups(judged).rows if row.method is not None and row.columns]
    (leader,) = [row for row in rows if row.leads]
    others = [row for row in rows if row is not leader and np.isfinite(row.columns["mean"]).all()]
    if leader.label != top.label:
        return f"Of the federated methods {leading}"
    if not others:
        return leading
    if leader.is_best:
        largest = max(row.p for row in others if row.p is not None)
        return (
            f"{top.label} is best: mean {score.name} {mean}{seeds}, and the difference to every other "
            f"method is significant ({p_text(largest, most=len(others) > 1)})"
        )
    near = [row for row in others if row.p is None or row.p >= LEVEL]
    tested = [row.p for row in near if row.p is not None]
    if len(tested) == len(near):
        why = f"the difference to {join_names((row.label for row in near), 3)} is not significant"
        why += f" ({p_text(min(tested), least=len(tested) > 1)})"
    elif all(row.p is None for row in others):
        why = f"with {_seeds(len(leader.seeds))} there is no test"
    else:
        untested = [row.label for row in near if row.p is None]
        why = (
            f"the difference to {join_names(untested, 3)} could not be tested: too few common seeds"
        )
    return f"No method is clearly better: {leading}, but {why}"


def _details(top: Group, judged: Sequence[Group], score: Score) -> str:
    """Return the rest of the sentence: worst parties and outliers."""
    told = f"; its worst party has {score.text(mean_or_nan(top.last('worst')))}"
    others = [g for g in judged if g is not top and np.isfinite(mean_or_nan(g.last("worst")))]
    if others:
        low = min(others, key=lambda g: score.sign * mean_or_nan(g.last("worst")))
        other = next((g for g in others if g.method == "fedavg"), low)
        worst = score.text(mean_or_nan(other.last("worst")))
        if worst != score.text(mean_or_nan(top.last("worst"))):
            told += f", under {other.label} the worst has {worst}"
    outliers = list(dict.fromkeys(n for run in top.good for n in run.names if n in run.outliers))
    if not outliers:
        return told
    apart = [mean_or_nan(run.personal[-1][run.is_outlier]) for run in top.good]
    one = len(outliers) == 1
    who = (
        f"Party {outliers[0]} is an outlier"
        if one
        else f"Parties {join_names(outliers)} are outliers"
    )
    who = f"{len(outliers):,} parties are outliers" if len(outliers) > MANY else who
    value = score.text(mean_or_nan(apart))
    return f"{told}. {who}: {top.label} gives {'it' if one else 'them'} {value}"


def _seeds(number: int) -> str:
    return "one seed" if number == 1 else f"{number:,} seeds"


def _lowered(text: str) -> str:
    """The first letter of a sentence of ours in lower case; a label stays as it is."""
    ours = ("The ", "Training ", "No ", "Of ")
    return text[:1].lower() + text[1:] if text.startswith(ours) else text
