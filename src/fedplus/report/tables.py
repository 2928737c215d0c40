"""Methods side by side: mean ± s.d. over seeds, the worst party, and what is significant."""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fedplus._check import require
from fedplus.data.split import Host
from fedplus.experiments.folder import RunFolder

LOCAL, MAJORITY, COMMON = "local only", "majority class", "its global model"
LEVEL = 0.05

_Told = tuple[RunFolder, dict[str, Any]]
"""A run and its status."""


class Column(NamedTuple):
    """A figure of each seed."""

    values: Host

    @property
    def mean(self) -> float:
        """Over the seeds."""
        return float(self.values.mean())

    @property
    def std(self) -> float:
        """Over the seeds, of the sample; NaN with one seed."""
        return float(self.values.std(ddof=1)) if len(self.values) > 1 else float("nan")


class Row(NamedTuple):
    """A method, or a reference."""

    label: str
    method: str | None
    """None for a reference."""
    seeds: tuple[int, ...]
    columns: dict[str, Column]
    """By heading: mean, worst party; where the federation has outliers, the others and them."""
    p: float | None = None
    """Of the difference to the best, where it can be told."""
    is_best: bool = False
    note: str = ""


class Table(NamedTuple):
    """Rows, and how to read them."""

    data: str
    score_name: str
    better: str
    rows: tuple[Row, ...]

    @property
    def headings(self) -> tuple[str, ...]:
        """Of the columns."""
        return tuple(dict.fromkeys(h for row in self.rows for h in row.columns))

    def shown(self, column: Column | None) -> str:
        """A figure as people read it: accuracy in %."""
        if column is None:
            return "–"
        mean, std = number(column.mean, self.score_name), number(column.std, self.score_name)
        return mean if np.isnan(column.std) else f"{mean} ± {std}"


def number(value: float, score_name: str) -> str:
    """Accuracy in %, other scores with four digits."""
    if np.isnan(value):
        return "–"
    return f"{100 * value:.1f}" if score_name == "accuracy" else f"{value:.4g}"


def table_of(runs: Sequence[RunFolder]) -> Table:
    """All runs, those of one label together; runs that have not been evaluated yet only counted."""
    told = [(run, run.status) for run in runs]
    names = sorted({status["score_name"] for _, status in told})
    require(
        len(names) == 1, "runs", f"runs scored by {' and '.join(names)}",
        "scored alike to be in one table",
    )  # fmt: skip
    better = told[0][1]["better"]
    labels: dict[str, list[_Told]] = {}
    for run, status in told:
        labels.setdefault(status["label"], []).append((run, status))
    rows = [_row(label, mine, better) for label, mine in labels.items()]
    first = next(iter(labels.values()))
    rows = _references(rows, first, better) + _compared(rows, better)
    if len(labels) == 1 and first[0][1]["method"] != "local":
        rows.append(_common(first, better))
    data = " and ".join(dict.fromkeys(str(status["data"]) for _, status in told))
    return Table(data, names[0], better, tuple(rows))


def columns_of(
    scores: Sequence[Any], parties: Sequence[dict[str, Any]], better: str
) -> dict[str, Column]:
    """From the parties' scores of each seed."""
    found: dict[str, list[float]] = {}
    for given, who in zip(scores, parties, strict=True):
        score = np.array([np.nan if s is None else s for s in given], float)
        out = np.isin(who["names"], who["outliers"])
        found.setdefault("mean", []).append(score.mean())
        found.setdefault("worst party", []).append(
            score.min() if better == "higher" else score.max()
        )
        if out.any() and not out.all():
            found.setdefault("the others", []).append(score[~out].mean())
            found.setdefault("outliers", []).append(score[out].mean())
    return {name: Column(np.array(values)) for name, values in found.items()}


def _row(label: str, mine: list[_Told], better: str) -> Row:
    mine = sorted(mine, key=lambda one: one[1]["seed"])
    ended = [(run, status, lines[-1]) for run, status in mine if (lines := run.lines)]
    failed = sum(status["state"] == "failed" for _, status in mine)
    short = sum(status["round"] < status["rounds"] for _, status in mine) - failed
    notes = [f"failed {failed} of {len(mine)}"] * (failed > 0) + [f"{short} not done"] * (short > 0)
    ended = [one for one in ended if one[1]["state"] != "failed"]
    columns = columns_of(
        [line["personal_score"] for _, _, line in ended],
        [run.parties for run, _, _ in ended], better,
    )  # fmt: skip
    seeds = tuple(status["seed"] for _, status, _ in ended)
    return Row(label, mine[0][1]["method"], seeds, columns, note=", ".join(notes))


def _references(rows: list[Row], runs: list[_Told], better: str) -> list[Row]:
    """Each party on its own, and always the same answer; of the runs of one label."""
    found = []
    parties = [run.parties for run, _ in runs]
    seeds = tuple(status["seed"] for _, status in runs)
    alone = any(row.method == "local" for row in rows)
    for label, key in ((MAJORITY, "majority"), (LOCAL, "local")):
        scores = [who[key] for who in parties]
        if all(score is not None for score in scores) and not (key == "local" and alone):
            shown = "mean label" if key == "majority" and better == "lower" else label
            found.append(Row(shown, None, seeds, columns_of(scores, parties, better)))
    return found


def _common(runs: list[_Told], better: str) -> Row:
    ended = [(run, status, lines[-1]) for run, status in runs if (lines := run.lines)]
    columns = columns_of(
        [line["global_score"] for _, _, line in ended], [run.parties for run, _, _ in ended], better
    )
    return Row(COMMON, None, tuple(status["seed"] for _, status, _ in ended), columns)


def _compared(rows: list[Row], better: str) -> list[Row]:
    """Mark the best row; p-values of the others: paired t-tests over seeds, Holm's correction."""
    known = [i for i, row in enumerate(rows) if row.columns]
    if len(known) < 2:
        return rows
    sign = 1.0 if better == "higher" else -1.0
    best = max(known, key=lambda i: sign * rows[i].columns["mean"].mean)
    raw = {i: _paired(rows[i], rows[best]) for i in known if i != best}
    tested = sorted((p, i) for i, p in raw.items() if p is not None)
    corrected, so_far = {}, 0.0
    for rank, (p, i) in enumerate(tested):
        so_far = max(so_far, min(1.0, p * (len(tested) - rank)))
        corrected[i] = so_far
    return [
        row._replace(p=corrected.get(i), is_best=i == best) for i, row in enumerate(rows)
    ]  # fmt: skip


def _paired(row: Row, best: Row) -> float | None:
    """Of the two rows' means over the seeds that both have; None with fewer than three."""
    from scipy.stats import ttest_rel

    both = [seed for seed in row.seeds if seed in best.seeds]
    if len(both) < 3:
        return None
    a, b = (
        one.columns["mean"].values[[one.seeds.index(seed) for seed in both]] for one in (row, best)
    )
    if np.ptp(a - b) == 0:
        return 1.0 if a[0] == b[0] else 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # Differences that are all but equal.
        return float(ttest_rel(a, b).pvalue)
