"""Tables and figure of the study of real silos: how many parties gain or lose, and by how much."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from papers.fed_plus.formatting import format_difference, settings_table
from papers.fed_plus.plot import legend_handles, method_colour, method_marker, pyplot
from papers.fed_plus.results import Record, group_records, read_csv, read_json

from fedplus.experiments.defaults import LABELS
from fedplus.report.table_formats import markdown_table

TITLES = {
    "hospitals": "heart disease, 4 hospitals", "patients": "Parkinson's, 42 patients",
    "schools": "exam scores, 139 schools", "writers": "MNIST, 150 writers",
}  # fmt: skip
PRINT_LIMIT = 1000.0
"""Larger values are printed as "> 1000"."""
PICTURE = "![Gain of each party over training alone, sorted, and by its samples](results/silos.png)"
BY_SIZE_METHODS = ("fedavg", "fedgeomed+")
LINEAR_LIMIT, LOG_SCALE_FROM = 10.0, 50.0
"""If some gain exceeds the second value, gains beyond the first are on a logarithmic scale."""
AXIS_LIMIT = 1e4
"""The end of the axis. Beyond it are parties whose steps diverged."""


def blocks(results: Path) -> Mapping[str, str]:
    """Return the table of gains, its verdict, and the chosen settings."""
    if not (results / "silos.csv").exists():
        return {}
    records = read_csv(results / "silos.csv")
    headings = ["", "method", "alone", "in the federation", "mean gain", "median gain",
                "smaller half", "larger half", "gain for sure", "lose for sure",
                "least gain of a party"]  # fmt: skip
    rows = [
        _row(TITLES[data], of_method)
        for (data, _), of_method in group_records(records, "data", "method").items()
    ]
    return {
        "silos-verdict": verdict(records),
        "silos": f"{PICTURE}\n\n{markdown_table(headings, rows)}",
        "silos-settings": settings_table(read_json(results / "silos-tuning.json"), "silos-"),
    }


def verdict(records: Sequence[Record]) -> str:
    """Return who gains in each federation: the best method, and the best Fed+ variant if another.

    Methods are compared by the gain of the median party, which stays finite if few parties diverge.
    """
    answers = []
    for (data,), of_data in group_records(records, "data").items():
        groups = group_records(of_data, "method")
        by_method = {method: group for (method,), group in groups.items()}
        ranked = sorted(by_method, key=lambda method: -_median_gain(by_method[method]))
        variants = [method for method in ranked if method.endswith("+")]
        named = dict.fromkeys(ranked[:1] + variants[:1])
        gains = " and ".join(_describe_gain(by_method[method]) for method in named)
        answers.append(f"{data}: {gains}")
    return (
        "the median party's gain over training alone, and how many parties gain and lose for sure, "
        f"with the best method and the best Fed+ variant: {'; '.join(answers)}"
    )


def _median_gain(records: Sequence[Record]) -> float:
    return float(np.median([record["gain"] for record in records]))


def _describe_gain(records: Sequence[Record]) -> str:
    unit = " points" if records[0]["better"] == "higher" else "% of the error"
    signs = [significant_sign(record) for record in records]
    diverged = sum(record["gain"] < -PRINT_LIMIT for record in records)
    note = f"; {diverged} diverged under some seed" if diverged else ""
    return (
        f"{LABELS[records[0]['method']]} "
        f"{format_difference(_median_gain(records), unit, PRINT_LIMIT)} "
        f"({signs.count(1)} and {signs.count(-1)} of {len(signs)}{note})"
    )


def significant_sign(record: Record) -> int:
    """Return +1 for a significant gain, −1 for a significant loss, else 0."""
    if record["half_width"] is None or abs(record["gain"]) <= record["half_width"]:
        return 0
    return 1 if record["gain"] > 0 else -1


def mean_gain_of_halves(records: Sequence[Record]) -> tuple[float, float]:
    """Return the mean gain of the half with fewer training samples, and of the other half."""
    gains = [record["gain"] for record in sorted(records, key=lambda record: record["samples"])]
    middle = len(gains) // 2
    return float(np.mean(gains[:middle])), float(np.mean(gains[middle:]))


def _row(title: str, records: Sequence[Record]) -> list[str]:
    gains = np.array([record["gain"] for record in records])
    is_accuracy = records[0]["better"] == "higher"
    factor, unit = (100.0, "") if is_accuracy else (1.0, "%")
    alone, score = (
        factor * np.mean([record[column] for record in records]) for column in ("alone", "score")
    )
    signs = [significant_sign(record) for record in records]
    averages = [float(gains.mean()), float(np.median(gains)), *mean_gain_of_halves(records)]
    return [
        title, LABELS[records[0]["method"]], f"{alone:.1f}",
        f"{score:.1f}" if score < PRINT_LIMIT else f"> {PRINT_LIMIT:g}",
        *(format_difference(average, unit, PRINT_LIMIT) for average in averages),
        f"{signs.count(1)} of {len(signs)}", f"{signs.count(-1)} of {len(signs)}",
        format_difference(float(gains.min()), unit, PRINT_LIMIT),
    ]  # fmt: skip


def draw(results: Path) -> Mapping[str, Any]:
    """Return one column per federation: sorted gains above, gains by number of samples below."""
    if not (results / "silos.csv").exists():
        return {}
    records = [_clipped(record) for record in read_csv(results / "silos.csv")]
    plt = pyplot()
    by_data = group_records(records, "data")
    figure, axes = plt.subplots(
        2, len(by_data), figsize=(3.1 * len(by_data), 5.8), sharey="col", squeeze=False,
        layout="constrained",
    )  # fmt: skip
    for (above, below), ((data,), of_data) in zip(axes.T, by_data.items(), strict=True):
        _draw_sorted_gains(above, of_data)
        _draw_gains_by_size(below, of_data)
        above.set_title(TITLES[data])
        is_error = of_data[0]["better"] == "lower"
        for axis in (above, below):
            axis.axhline(0, color="black", linewidth=0.8)
            if max(abs(record["gain"]) for record in of_data) > LOG_SCALE_FROM:
                axis.set_yscale("symlog", linthresh=LINEAR_LIMIT)
                axis.yaxis.set_major_formatter("{x:g}")
                low, high = axis.get_ylim()
                axis.set_ylim(max(low, -AXIS_LIMIT), min(high, AXIS_LIMIT))
            unit = "% of the error alone" if is_error else "points of accuracy"
            axis.set_ylabel(f"gain, {unit}")
    handles = legend_handles(axes[0])
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=len(handles))
    plt.close(figure)
    return {"silos": figure}


def _clipped(record: dict[str, Any]) -> Record:
    """Return the record with a finite gain, beyond the end of the axis, for a diverged party."""
    least = -10 * AXIS_LIMIT
    return record if record["gain"] > least else record | {"gain": least, "half_width": 0.0}


def _draw_sorted_gains(axis: Any, records: Sequence[Record]) -> None:
    for (method,), of_method in group_records(records, "method").items():
        gains = sorted(record["gain"] for record in of_method)
        style = {"color": method_colour(method), "label": LABELS[method], "linewidth": 1.3}
        marker = method_marker(method) if len(gains) < 10 else None
        x = [100 * (i + 0.5) / len(gains) for i in range(len(gains))]
        axis.plot(x, gains, marker=marker, **style)
    axis.set_xlabel("share of the parties, %")


def _draw_gains_by_size(axis: Any, records: Sequence[Record]) -> None:
    for method in BY_SIZE_METHODS:
        of_method = [record for record in records if record["method"] == method]
        axis.errorbar(
            [record["samples"] for record in of_method], [record["gain"] for record in of_method],
            [record["half_width"] or 0 for record in of_method],
            fmt=method_marker(method), color=method_colour(method), elinewidth=0.4, markersize=3,
            alpha=0.8,
        )  # fmt: skip
    axis.set_xlabel("training samples of the party")
