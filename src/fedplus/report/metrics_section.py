"""Section of the report with the metrics of each party's final model."""

from collections.abc import Sequence

import numpy as np

from fedplus._types import NumpyArray
from fedplus.report.downsample import even_indices
from fedplus.report.formatting import UNKNOWN, join_names
from fedplus.report.groups import Group
from fedplus.report.party_charts import Section, chart_option, chart_section
from fedplus.report.run_data import MetricValues, RunData, finite_mean

MAX_ROWS = 60
"""The largest number of parties in a table."""
TITLES = {
    "f1": "F1", "auc": "AUC", "brier": "Brier score", "mae": "MAE", "rmse": "RMSE", "r2": "R²",
}  # fmt: skip
"""The names of metrics for people, where they are not the words of their names."""
DIGITS = 3
"""Significant digits; a party's test samples rarely determine more."""


def metrics_section(groups: Sequence[Group], best: str) -> Section | None:
    """Return the section with the metrics of each party; ``best`` is the label shown first."""
    options = []
    for group in groups:
        runs = [run for run in group.runs_with_same_parties if run.metrics]
        if not runs:
            continue
        names = [metric.name for metric in runs[0].metrics]
        means = [[finite_mean(_metric(run, name).personal) for run in runs] for name in names]
        rows = [["mean over the parties", *(_over_seeds(values) for values in means)]]
        for k in even_indices(len(runs[0].names), MAX_ROWS):
            cells = [_cell([_metric(run, name) for run in runs], int(k)) for name in names]
            rows.append([runs[0].names[k], *cells])
        common = [[finite_mean(_metric(run, name).common) for run in runs] for name in names]
        rows.append(["the global model, mean", *(_over_seeds(values) for values in common)])
        titles = [metric_title(name) for name in names]
        finding = f"Means under {group.label}: " + join_names(
            [f"{title} {_over_seeds(values)}" for title, values in zip(titles, means, strict=True)],
            len(titles),
        )
        table = {"head": ["party", *titles], "rows": rows}
        options.append({**chart_option(group, f"{finding}.", []), "table": table})
    note = (
        "Each metric is computed over all test samples of a party, for its final model. – stands where "
        "it is not defined, as the AUC of samples of one class; means are over the others. With two "
        "classes, F1 and average precision are those of the second class in alphabetical order."
    )
    if any(np.isfinite(m.low).any() for g in groups for run in g.runs for m in run.metrics):
        note += (
            " With one seed, the interval in brackets is a bootstrap interval of 95 %; with several, "
            "± is the standard deviation over the seeds."
        )
    section = chart_section("metrics", "Metrics", options, best, note)
    return section and {**section, "open": True}


def metric_title(name: str) -> str:
    """Return the name of a metric for people, e.g. "balanced accuracy" or "AUC"."""
    return TITLES.get(name, name.replace("_", " "))


def _metric(run: RunData, name: str) -> MetricValues:
    unknown = np.full(len(run.names), np.nan)
    absent = MetricValues(name, "higher", unknown, unknown, unknown, unknown)
    return next((metric for metric in run.metrics if metric.name == name), absent)


def _cell(metrics: Sequence[MetricValues], party: int) -> str:
    """Return one party's metric: with its interval for one seed, with ± for several."""
    text = _over_seeds([metric.personal[party] for metric in metrics])
    low, high = metrics[0].low[party], metrics[0].high[party]
    if len(metrics) > 1 or not np.isfinite([low, high]).all():
        return text
    return f"{text} ({low:.{DIGITS}g} to {high:.{DIGITS}g})"


def _over_seeds(values: Sequence[float] | NumpyArray) -> str:
    known = np.asarray(values, float)
    known = known[np.isfinite(known)]
    if not known.size:
        return UNKNOWN
    text = f"{known.mean():.{DIGITS}g}"
    return text if known.size == 1 else f"{text} ± {known.std(ddof=1):.2g}"
