"""Comparison tables: mean and worst scores of methods over seeds, with significance tests."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fedplus._types import NumpyArray
from fedplus.experiments.constant_answer_warning import ANSWER_NAMES
from fedplus.experiments.run_folder import RunFolder
from fedplus.report.formatting import Score, count_of, join_names
from fedplus.report.groups import Group, group_runs, score_of
from fedplus.report.run_data import (
    NewParties,
    RunData,
    mean_or_nan,
    read_run_data,
    worst_or_nan,
)

LOCAL, GLOBAL = "local SGD", "its global model"
NEW = "new parties"
"""Heading of the column with the mean score of the parties that joined after the training."""
LEVEL = 0.05
"""Significance level of the tests."""
MIN_SEEDS = 3
"""Smallest number of common seeds for a test."""


class Row(NamedTuple):
    """One row of a table: a method or a reference."""

    label: str
    method: str | None
    """None for a reference."""
    seeds: tuple[int, ...]
    columns: dict[str, NumpyArray]
    """One number per seed, by heading: mean, worst party; with outliers, also means of both kinds; with
    new parties, also their mean."""
    p: float | None = None
    """The p-value of the difference from the leading row, if there is a test."""
    leads: bool = False
    """Whether the mean is the best of all methods."""
    is_best: bool = False
    """Whether the row leads, and the difference from every other method is significant."""
    note: str = ""

    def means(self, seeds: Sequence[int]) -> NumpyArray:
        """Return the mean scores with these seeds."""
        return np.asarray(self.columns["mean"][[self.seeds.index(seed) for seed in seeds]])


class Table(NamedTuple):
    """A comparison table: the name of the data, the score and the rows."""

    data: str
    score: Score
    rows: tuple[Row, ...]
    note: str = ""
    """Sentences about the new parties, if there are any."""

    @property
    def headings(self) -> tuple[str, ...]:
        """Return the headings of all columns."""
        return tuple(dict.fromkeys(heading for row in self.rows for heading in row.columns))


def comparison_table(folders: Sequence[RunFolder]) -> Table:
    """Return the table of some run folders, with one row per label.

    Raises:
        SettingError: A run folder is damaged, or the runs have different scores.
    """
    return compare_groups(group_runs([read_run_data(folder) for folder in folders]))


def compare_groups(groups: Sequence[Group]) -> Table:
    """Return the table of some groups: for each data set, the methods and then the references."""
    score = score_of(groups)
    sets = list(dict.fromkeys(group.data for group in groups))
    rows: list[Row] = []
    for data in sets:
        on_set = [group for group in groups if group.data == data]
        suffix = f", {data}" if len(sets) > 1 else ""
        rows += _add_tests([method_row(group, score) for group in on_set], score)
        if len(on_set) == 1 and on_set[0].method != "local":
            rows += reference_row(GLOBAL, on_set, score, lambda run: run.global_scores[-1])
        if not any(group.method == "local" for group in on_set):
            rows += reference_row(
                f"{LOCAL}{suffix}", on_set, score, lambda run: run.local_scores,
                lambda new: new.local_scores,
            )  # fmt: skip
        name = ANSWER_NAMES.get(score.name, "the same answer")
        rows += reference_row(f"{name}{suffix}", on_set, score, lambda run: run.constant_scores)
    return Table(" and ".join(sets), score, tuple(rows), _new_parties_note(groups))


def _new_parties_note(groups: Sequence[Group]) -> str:
    """Return who the new parties are and which methods cannot train them, or "" without any."""
    known = [
        (group.label, run.new_parties)
        for group in groups
        for run in group.successful_runs
        if run.new_parties is not None
    ]
    if not known:
        return ""
    settings = {(len(new.names), new.rounds, new.steps) for _, new in known}
    text = (
        "New parties: the mean over the parties that were held out and joined after the training."
    )
    if len(settings) == 1:
        ((count, rounds, steps),) = settings
        text = (
            f"New parties: the mean over {count_of(count, 'party', 'parties')} held out of the "
            f"training, after {count_of(rounds, 'round')} of {count_of(steps, 'local step')} each."
        )
    unable = dict.fromkeys(label for label, new in known if not new.can_join)
    if unable:
        text += (
            f" {join_names(unable)}: no score, as a party needs the models of others in each step."
        )
    return text


def method_row(group: Group, score: Score) -> Row:
    """Return the row of a method, with a note on failed and unfinished runs."""
    failed = sum(run.status.get("state") == "failed" for run in group.runs)
    unfinished = (
        sum((run.status.get("round") or 0) < (run.status.get("rounds") or 0) for run in group.runs)
        - failed
    )
    notes = [f"failed {failed} of {len(group.runs)}"] * (failed > 0)
    notes += [f"{unfinished} not done"] * (unfinished > 0)
    columns = _columns(
        [(run, run.personal_scores[-1]) for run in group.successful_runs], score,
        lambda new: new.scores,
    )  # fmt: skip
    return Row(
        group.label, group.method, _seeds(group.successful_runs), columns, note=", ".join(notes)
    )


def reference_row(
    label: str, groups: Sequence[Group], score: Score, scores: Callable[[RunData], NumpyArray],
    new_scores: Callable[[NewParties], NumpyArray] | None = None,
) -> list[Row]:  # fmt: skip
    """Return the row of a reference, from one run per seed; an empty list if it is unknown.

    Args:
        label: Label of the row.
        groups: The methods whose runs have the reference.
        score: The score.
        scores: Function that returns the parties' scores of the reference in a run.
        new_scores: The same for new parties. None: the reference has none.
    """
    by_seed = {run.status.get("seed"): run for group in groups for run in group.evaluated_runs}
    runs = [run for run in by_seed.values() if np.isfinite(scores(run)).any()]
    if not runs:
        return []
    columns = _columns([(run, scores(run)) for run in runs], score, new_scores)
    return [Row(label, None, _seeds(runs), columns)]


def _seeds(runs: Sequence[RunData]) -> tuple[int, ...]:
    return tuple(int(run.status.get("seed") or 0) for run in runs)


def _columns(
    scores: Sequence[tuple[RunData, NumpyArray]], score: Score,
    new_scores: Callable[[NewParties], NumpyArray] | None,
) -> dict[str, NumpyArray]:  # fmt: skip
    if not scores:
        return {}
    columns = {
        "mean": [mean_or_nan(s) for _, s in scores],
        "worst party": [worst_or_nan(s, score.better) for _, s in scores],
    }
    if any(run.is_outlier.any() for run, _ in scores):
        columns["the others"] = [mean_or_nan(s[~run.is_outlier]) for run, s in scores]
        columns["outliers"] = [mean_or_nan(s[run.is_outlier]) for run, s in scores]
    new_parties = [run.new_parties for run, _ in scores]
    if new_scores is not None and any(new is not None for new in new_parties):
        columns[NEW] = [np.nan if n is None else mean_or_nan(new_scores(n)) for n in new_parties]
    return {heading: np.array(values) for heading, values in columns.items()}


def _add_tests(rows: list[Row], score: Score) -> list[Row]:
    """Mark the leading row, and test the others against it with Holm-corrected paired t-tests."""
    means = {i: row.columns["mean"].mean() for i, row in enumerate(rows) if row.columns}
    known = {i: score.sign * mean for i, mean in means.items() if np.isfinite(mean)}
    if len(rows) < 2 or not known:
        return rows
    leader = max(known, key=lambda i: known[i])
    others = [i for i in known if i != leader]
    p_values = holm_correction(
        {i: p for i in others if (p := paired_t_test(rows[i], rows[leader])) is not None}
    )
    beats_all = bool(others) and all(p_values.get(i, 1.0) < LEVEL for i in others)
    return [
        row._replace(p=p_values.get(i), leads=i == leader, is_best=beats_all and i == leader)
        for i, row in enumerate(rows)
    ]


def holm_correction(p_values: Mapping[int, float]) -> dict[int, float]:
    """Return the p-values with Holm's correction for multiple tests."""
    corrected, largest = {}, 0.0
    for rank, (p, i) in enumerate(sorted((p, i) for i, p in p_values.items())):
        largest = max(largest, min(1.0, p * (len(p_values) - rank)))
        corrected[i] = largest
    return corrected


def paired_t_test(row: Row, other: Row) -> float | None:
    """Return the p-value of a paired t-test over common seeds; None with fewer than ``MIN_SEEDS``."""
    from scipy.stats import ttest_rel

    common = [seed for seed in row.seeds if seed in other.seeds]
    if len(common) < MIN_SEEDS:
        return None
    a, b = row.means(common), other.means(common)
    if np.ptp(a - b) == 0:
        return 1.0 if a[0] == b[0] else 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # For differences that are nearly equal.
        return float(ttest_rel(a, b).pvalue)
