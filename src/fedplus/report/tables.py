"""Methods side by side: mean ± s.d. over seeds, the worst party, and what is significant."""

import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from fedplus.experiments.folder import RunFolder
from fedplus.report.groups import Group, grouped, score_of
from fedplus.report.read import Host, Run, average, read, worst
from fedplus.report.words import Score

LOCAL, COMMON = "local only", "its global model"
GUESSES = {
    "accuracy": "majority class",
    "mse": "mean label",
    "log return a day": "uniform portfolio",
}
LEVEL = 0.05


class Row(NamedTuple):
    """A method, or a reference."""

    label: str
    method: str | None
    """None for a reference."""
    seeds: tuple[int, ...]
    columns: dict[str, Host]
    """A number a seed, by heading: mean, worst party; where there are outliers, the others and them."""
    p: float | None = None
    """Of the difference to the best, where it can be told."""
    is_best: bool = False
    note: str = ""


class Table(NamedTuple):
    """Rows, and how to read them."""

    data: str
    score: Score
    rows: tuple[Row, ...]

    @property
    def headings(self) -> tuple[str, ...]:
        """Of the columns."""
        return tuple(dict.fromkeys(heading for row in self.rows for heading in row.columns))


def table_of(folders: Sequence[RunFolder]) -> Table:
    """All runs, those of one label together."""
    return compared(grouped([read(folder) for folder in folders]))


def compared(groups: Sequence[Group]) -> Table:
    """A row a label, then what parties reach without the federation; one data set after the other."""
    score = score_of(groups)
    sets = list(dict.fromkeys(group.data for group in groups))
    rows: list[Row] = []
    for data in sets:
        mine = [group for group in groups if group.data == data]
        of = f", {data}" if len(sets) > 1 else ""
        rows += _tested([_row(group, score) for group in mine], score)
        if len(mine) == 1 and mine[0].method != "local":
            rows += _reference(COMMON, mine, score, lambda run: run.shared[-1])
        if not any(group.method == "local" for group in mine):
            rows += _reference(f"{LOCAL}{of}", mine, score, lambda run: run.local)
        guess = GUESSES.get(score.name, "the same answer")
        rows += _reference(f"{guess}{of}", mine, score, lambda run: run.majority)
    return Table(" and ".join(sets), score, tuple(rows))


def _row(group: Group, score: Score) -> Row:
    failed = sum(run.status.get("state") == "failed" for run in group.runs)
    short = sum(run.status["round"] < run.status["rounds"] for run in group.runs) - failed
    notes = [f"failed {failed} of {len(group.runs)}"] * (failed > 0)
    notes += [f"{short} not done"] * (short > 0)
    columns = _columns([(run, run.personal[-1]) for run in group.good], score)
    return Row(group.label, group.method, _seeds(group.good), columns, note=", ".join(notes))


def _reference(
    label: str, groups: Sequence[Group], score: Score, of: Callable[[Run], Host]
) -> list[Row]:
    """A row, from one run a seed; none where no run has it."""
    by_seed = {run.status.get("seed"): run for group in groups for run in group.judged}
    known = [run for run in by_seed.values() if np.isfinite(of(run)).any()]
    if not known:
        return []
    return [Row(label, None, _seeds(known), _columns([(run, of(run)) for run in known], score))]


def _seeds(runs: Sequence[Run]) -> tuple[int, ...]:
    return tuple(int(run.status.get("seed") or 0) for run in runs)


def _columns(scores: Sequence[tuple[Run, Host]], score: Score) -> dict[str, Host]:
    if not scores:
        return {}
    columns = {
        "mean": [average(s) for _, s in scores],
        "worst party": [worst(s, score.better) for _, s in scores],
    }
    if any(run.is_outlier.any() for run, _ in scores):
        columns["the others"] = [average(s[~run.is_outlier]) for run, s in scores]
        columns["outliers"] = [average(s[run.is_outlier]) for run, s in scores]
    return {heading: np.array(values) for heading, values in columns.items()}


def _tested(rows: list[Row], score: Score) -> list[Row]:
    """Mark the best row; p-values of the others: paired t-tests over seeds, Holm's correction."""
    means = {i: row.columns["mean"].mean() for i, row in enumerate(rows) if row.columns}
    known = {i: score.sign * mean for i, mean in means.items() if np.isfinite(mean)}
    if len(rows) < 2 or not known:
        return rows
    best = max(known, key=lambda i: known[i])
    raw = {i: _paired(rows[i], rows[best]) for i in known if i != best}
    tested = sorted((p, i) for i, p in raw.items() if p is not None)
    corrected, so_far = {}, 0.0
    for rank, (p, i) in enumerate(tested):
        so_far = max(so_far, min(1.0, p * (len(tested) - rank)))
        corrected[i] = so_far
    return [row._replace(p=corrected.get(i), is_best=i == best) for i, row in enumerate(rows)]


def _paired(row: Row, best: Row) -> float | None:
    """Of the two rows' means over the seeds that both have; None with fewer than three."""
    from scipy.stats import ttest_rel

    both = [seed for seed in row.seeds if seed in best.seeds]
    if len(both) < 3:
        return None
    a, b = (one.columns["mean"][[one.seeds.index(seed) for seed in both]] for one in (row, best))
    if np.ptp(a - b) == 0:
        return 1.0 if a[0] == b[0] else 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # Differences that are all but equal.
        return float(ttest_rel(a, b).pvalue)
