"""The headline of a comparison: the best method, and simpler alternatives that beat it.

A method is called best only if its difference from every other method is significant. Alternatives that
need no federation or no training (the global model, local training, a constant answer) come first if
they score better.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from fedplus.experiments.constant_answer_warning import ANSWER_NAMES
from fedplus.report.formatting import Score, capitalised, count_of, join_names
from fedplus.report.groups import Group
from fedplus.report.run_data import mean_or_nan
from fedplus.report.table_formats import p_text
from fedplus.report.tables import (
    LEVEL,
    LOCAL,
    Row,
    compare_groups,
    holm_correction,
    method_row,
    paired_t_test,
    reference_row,
)

MAX_NAMED_OUTLIERS = 5
"""More outliers than this are counted instead of named."""


def headline(groups: Sequence[Group], score: Score, where: str = "") -> str:
    """Return the sentences about one data set.

    Args:
        groups: The methods on this data set; at least one has a run that did not fail.
        score: Name and direction of the score.
        where: Start of the first sentence, e.g. "On mnist, ".
    """
    successful = [group for group in groups if group.successful_runs]
    federated = [group for group in successful if group.method != "local"] or successful
    top = best_group(federated, score)
    assert top is not None
    if not np.isfinite(mean_or_nan(top.final("mean"))):
        return capitalised(f"{where}no method has a finite score for every party.")
    ranking, details = _ranking(top, successful, score), _details(top, federated, score)
    first, *rest = [*_better_alternatives(top, successful, score), f"{ranking}{details}."]
    return " ".join([where + _uncapitalised(first) if where else first, *rest])


def best_group(groups: Sequence[Group], score: Score) -> Group | None:
    """Return the group with the best mean, significant or not; None if no run succeeded."""

    def key(group: Group) -> float:
        mean = mean_or_nan(group.final("mean"))
        return score.sign * mean if np.isfinite(mean) else -np.inf

    return max((group for group in groups if group.successful_runs), key=key, default=None)


class _Alternative(NamedTuple):
    """A simpler alternative to the method."""

    sentence: str
    """Start of a sentence, with the placeholder {verb}."""
    row: Row


def _alternatives(top: Group, groups: Sequence[Group], score: Score) -> Iterator[_Alternative]:
    label = top.label
    if top.method != "local":
        rows = reference_row("", [top], score, lambda run: run.global_scores[-1])
        text = f"the global model of {label} {{verb}} the parties' own models"
        yield from (_Alternative(text, row) for row in rows)
        local = [group for group in groups if group.method == "local"]
        rows = [method_row(group, score) for group in local] or reference_row(
            "", groups, score, lambda run: run.local_scores
        )
        yield from (_Alternative(f"{LOCAL} {{verb}} {label}", row) for row in rows[:1])
    constant = ANSWER_NAMES.get(score.name, "same answer to everything")
    rows = reference_row("", groups, score, lambda run: run.constant_scores)
    yield from (_Alternative(f"the {constant} {{verb}} {label}", row) for row in rows)


def _better_alternatives(top: Group, groups: Sequence[Group], score: Score) -> list[str]:
    """Return a sentence for each alternative with a better mean, the best one first."""
    method = method_row(top, score)
    alternatives = list(_alternatives(top, groups, score))
    p_values = holm_correction(
        {
            i: p
            for i, alternative in enumerate(alternatives)
            if (p := paired_t_test(alternative.row, method)) is not None
        }
    )
    sentences = []
    for i, alternative in enumerate(alternatives):
        seeds = [seed for seed in alternative.row.seeds if seed in method.seeds]
        if not seeds:
            continue
        theirs, ours = (float(np.mean(row.means(seeds))) for row in (alternative.row, method))
        p = p_values.get(i)
        is_significant = p is not None and p < LEVEL
        if not score.sign * (theirs - ours) > 0 or (
            not is_significant and score.text(theirs) == score.text(ours)
        ):
            continue
        evidence = f"{_count_seeds(len(seeds))}: no test" if p is None else p_text(p)
        if p is not None and not is_significant:
            evidence = f"not significantly, {evidence}"
        text = alternative.sentence.format(verb="beats" if is_significant else "is ahead of")
        means = f"mean {score.name} {score.text(theirs)} against {score.text(ours)}"
        sentences.append((-score.sign * theirs, f"{capitalised(text)}: {means} ({evidence})."))
    return [text for _, text in sorted(sentences)]


def _ranking(top: Group, groups: Sequence[Group], score: Score) -> str:
    """Return how the method compares with the other methods, claiming only what is significant."""
    seeds = (
        f" over {count_of(len(top.successful_runs), 'seed')}"
        if len(top.successful_runs) > 1
        else ""
    )
    mean = score.text(mean_or_nan(top.final("mean")))
    if len(groups) == 1:
        return f"{top.label} has a mean {score.name} of {mean}{seeds}"
    most = "highest" if score.sign > 0 else "lowest"
    leading = f"{top.label} has the {most} mean {score.name}, {mean}{seeds}"
    rows = [row for row in compare_groups(groups).rows if row.method is not None and row.columns]
    (leader,) = [row for row in rows if row.leads]
    others = [row for row in rows if row is not leader and np.isfinite(row.columns["mean"]).all()]
    if leader.label != top.label:
        return f"Of the federated methods {leading}"
    if not others:
        return leading
    if leader.is_best:
        largest = max(row.p for row in others if row.p is not None)
        return (
            f"{top.label} is best: mean {score.name} {mean}{seeds}, and the difference from every "
            f"other method is significant ({p_text(largest, is_largest=len(others) > 1)})"
        )
    not_beaten = [row for row in others if row.p is None or row.p >= LEVEL]
    p_values = [row.p for row in not_beaten if row.p is not None]
    if len(p_values) == len(not_beaten):
        labels = join_names((row.label for row in not_beaten), 3)
        why = f"the difference from {labels} is not significant"
        why += f" ({p_text(min(p_values), is_smallest=len(p_values) > 1)})"
    elif all(row.p is None for row in others):
        why = f"with {_count_seeds(len(leader.seeds))} there is no test"
    else:
        untested = [row.label for row in not_beaten if row.p is None]
        why = f"the difference from {join_names(untested, 3)} could not be tested: too few common seeds"
    return f"No method is clearly better: {leading}, but {why}"


def _details(top: Group, groups: Sequence[Group], score: Score) -> str:
    """Return the end of the sentence: the worst parties and the outliers."""
    text = f"; its worst party has {score.text(mean_or_nan(top.final('worst')))}"
    others = [g for g in groups if g is not top and np.isfinite(mean_or_nan(g.final("worst")))]
    if others:
        lowest = min(others, key=lambda g: score.sign * mean_or_nan(g.final("worst")))
        other = next((g for g in others if g.method == "fedavg"), lowest)
        worst = score.text(mean_or_nan(other.final("worst")))
        if worst != score.text(mean_or_nan(top.final("worst"))):
            text += f", under {other.label} the worst has {worst}"
    outliers = list(
        dict.fromkeys(
            name for run in top.successful_runs for name in run.names if name in run.outliers
        )
    )
    if not outliers:
        return text
    scores = [
        mean_or_nan(run.personal_scores[-1][run.is_outlier])
        for run in top.successful_runs
        if run.is_outlier.any()  # A seed may hold all outliers out of the training.
    ]
    if len(outliers) == 1:
        subject, pronoun = f"Party {outliers[0]} is an outlier", "it"
    elif len(outliers) <= MAX_NAMED_OUTLIERS:
        subject, pronoun = f"Parties {join_names(outliers)} are outliers", "them"
    else:
        subject, pronoun = f"{len(outliers):,} parties are outliers", "them"
    return f"{text}. {subject}: {top.label} gives {pronoun} {score.text(mean_or_nan(scores))}"


def _count_seeds(number: int) -> str:
    return "one seed" if number == 1 else f"{number:,} seeds"


def _uncapitalised(text: str) -> str:
    """Return a sentence in lower case, unless it starts with the label of a method."""
    starts = ("The ", "Training ", "No ", "Of ")
    return text[:1].lower() + text[1:] if text.startswith(starts) else text
