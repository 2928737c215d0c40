"""Methods side by side: mean ± s.d. over seeds, the worst party, and what is significant."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fedplus.experiments.constant_answer import NAMES
from fedplus.experiments.run_folder import RunFolder
from fedplus.report.formatting import Score
from fedplus.report.groups import Group, group_runs, score_of
from fedplus.report.run_data import Host, RunData, mean_or_nan, read_run_data, worst_or_nan

LOCAL, COMMON = "local only", "its global model"
LEVEL = 0.05
"""A difference with a smaller p is called significant."""
LEAST_SEEDS = 3
"""With fewer seeds there is no test."""


class Row(NamedTuple):
    """A method, or a reference."""

    label: str
    method: str | None
    """None for a reference."""
    seeds: tuple[int, ...]
    columns: dict[str, Host]
    """A number a seed, by heading: mean, worst party; where there are outliers, the others and them."""
    p: float | None = None
    """The p-value of the difference to the leading row, if there is a test."""
    leads: bool = False
    """Whether its mean is the best."""
    is_best: bool = False
    """Whether it leads, and the difference to every other method is significant."""
    note: str = ""

    def of(self, seeds: Sequence[int]) -> Host:
        """Return the means of these seeds."""
        return np.asarray(self.columns["mean"][[self.seeds.index(seed) for seed in seeds]])


class Table(NamedTuple):
    """Rows, and how to read them."""

    data: str
    score: Score
    rows: tuple[Row, ...]

    @property
    def headings(self) -> tuple[str, ...]:
        """Of the columns."""
        return tuple(dict.fromkeys(heading for row in self.rows for heading in row.columns))


def comparison_table(folders: Sequence[RunFolder]) -> Table:
    """All runs, those of one label together."""
    return compare_groups(group_runs([read_run_data(folder) for folder in folders]))


def compare_groups(groups: Sequence[Group]) -> Table:
    """A row a label, then what parties reach without the federation; one data set after the other."""
    score = score_of(groups)
    sets = list(dict.fromkeys(group.data for group in groups))
    rows: list[Row] = []
    for data in sets:
        mine = [group for group in groups if group.data == data]
        of = f", {data}" if len(sets) > 1 else ""
        rows += _tested([method_row(group, score) for group in mine], score)
        if len(mine) == 1 and mine[0].method != "local":
            rows += reference_row(COMMON, mine, score, lambda run: run.shared[-1])
        if not any(group.method == "local" for group in mine):
            rows += reference_row(f"{LOCAL}{of}", mine, score, lambda run: run.local)
        guess = NAMES.get(score.name, "the same answer")
        rows += reference_row(f"{guess}{of}", mine, score, lambda run: run.majority)
    return Table(" and ".join(sets), score, tuple(rows))


def method_row(group: Group, score: Score) -> Row:
    """Return the row of a method; runs that failed or are not done are noted."""
    failed = sum(run.status.get("state") == "failed" for run in group.runs)
    short = (
        sum((run.status.get("round") or 0) < (run.status.get("rounds") or 0) for run in group.runs)
        - failed
    )
    notes = [f"failed {failed} of {len(group.runs)}"] * (failed > 0)
    notes += [f"{short} not done"] * (short > 0)
    columns = _columns([(run, run.personal[-1]) for run in group.good], score)
    return Row(group.label, group.method, _seeds(group.good), columns, note=", ".join(notes))


def reference_row(
    label: str, groups: Sequence[Group], score: Score, of: Callable[[RunData], Host]
) -> list[Row]:
    """A row, from one run a seed; none where no run has it."""
    by_seed = {run.status.get("seed"): run for group in groups for run in group.judged}
    known = [run for run in by_seed.values() if np.isfinite(of(run)).any()]
    if not known:
        return []
    return [Row(label, None, _seeds(known), _columns([(run, of(run)) for run in known], score))]


def _seeds(runs: Sequence[RunData]) -> tuple[int, ...]:
    return tuple(int(run.status.get("seed") or 0) for run in runs)


def _columns(scores: Sequence[tuple[RunData, Host]], score: Score) -> dict[str, Host]:
    if not scores:
        return {}
    columns = {
        "mean": [mean_or_nan(s) for _, s in scores],
        "worst party": [worst_or_nan(s, score.better) for _, s in scores],
    }
    if any(run.is_outlier.any() for run, _ in scores):
        columns["the others"] = [mean_or_nan(s[~run.is_outlier]) for run, s in scores]
        columns["outliers"] = [mean_or_nan(s[run.is_outlier]) for run, s in scores]
    return {heading: np.array(values) for heading, values in columns.items()}


def _tested(rows: list[Row], score: Score) -> list[Row]:
    """Mark the row that leads, and test the others against it: paired t-tests, Holm's correction."""
    means = {i: row.columns["mean"].mean() for i, row in enumerate(rows) if row.columns}
    known = {i: score.sign * mean for i, mean in means.items() if np.isfinite(mean)}
    if len(rows) < 2 or not known:
        return rows
    first = max(known, key=lambda i: known[i])
    others = [i for i in known if i != first]
    found = holm_correction(
        {i: p for i in others if (p := paired_t_test(rows[i], rows[first])) is not None}
    )
    clear = bool(others) and all(found.get(i, 1.0) < LEVEL for i in others)
    return [
        row._replace(p=found.get(i), leads=i == first, is_best=clear and i == first)
        for i, row in enumerate(rows)
    ]


def holm_correction(found: Mapping[int, float]) -> dict[int, float]:
    """Correct p-values for their number, after Holm."""
    corrected, so_far = {}, 0.0
    for rank, (p, i) in enumerate(sorted((p, i) for i, p in found.items())):
        so_far = max(so_far, min(1.0, p * (len(found) - rank)))
        corrected[i] = so_far
    return corrected


def paired_t_test(row: Row, other: Row) -> float | None:
    """Test two rows' means over the seeds that both have; None with fewer than three."""
    from scipy.stats import ttest_rel

    both = [seed for seed in row.seeds if seed in other.seeds]
    if len(both) < LEAST_SEEDS:
        return None
    a, b = row.of(both), other.of(both)
    if np.ptp(a - b) == 0:
        return 1.0 if a[0] == b[0] else 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # Differences that are all but equal.
        return float(ttest_rel(a, b).pvalue)
