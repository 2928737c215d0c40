"""Tables and figure of the sensitivity study, from its committed results."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from papers.fed_plus.formatting import format_difference
from papers.fed_plus.plot import legend_handles, method_colour, method_marker, pyplot
from papers.fed_plus.results import Record, group_records, read_csv

from fedplus.experiments.defaults import LABELS
from fedplus.report.table_formats import markdown_table

SWEEP_LABELS = {
    "delta": "δ", "sigma": "σ", "noise": "scale of the noise", "outliers": "share of outliers",
}  # fmt: skip
ROW_LABELS = {"mean": "accuracy, all parties, %", "outliers": "accuracy, outliers, %"}


def _read_records(results: Path) -> list[Record]:
    records = read_csv(results / "sensitivity.csv")
    return [record for record in records if record["method"] != "majority"]


def blocks(results: Path) -> Mapping[str, str]:
    """Return the best and worst δ and σ of each variant, and the sweeps over the data."""
    if not (results / "sensitivity.csv").exists():
        return {}
    records = _read_records(results)
    texts = {}
    rows = [row for sweep in ("delta", "sigma") for row in _best_and_worst_rows(records, sweep)]
    if rows:
        headings = ["", "variant", "best at", "accuracy there", "worst at", "accuracy there",
                    "over local at its best"]  # fmt: skip
        texts["sensitivity-settings"] = markdown_table(headings, rows)
    for sweep in ("noise", "outliers"):
        of_sweep = [record for record in records if record["sweep"] == sweep]
        if of_sweep:
            texts[f"sensitivity-{sweep}"] = _accuracy_table(of_sweep)
    return texts


def _best_and_worst_rows(records: Sequence[Record], sweep: str) -> list[list[str]]:
    of_sweep = [record for record in records if record["sweep"] == sweep]
    local = next((record["mean"] for record in of_sweep if record["method"] == "local"), None)
    rows = []
    varied = [record for record in of_sweep if record["value"] is not None]
    for (method,), of_method in group_records(varied, "method").items():
        of_method.sort(key=lambda record: record["mean"])
        worst, best = of_method[0], of_method[-1]
        gain = "–" if local is None else format_difference(100 * (best["mean"] - local))
        rows.append([
            SWEEP_LABELS[sweep], LABELS[method], f"{best['value']:g}", f"{100 * best['mean']:.1f}",
            f"{worst['value']:g}", f"{100 * worst['mean']:.1f}", gain,
        ])  # fmt: skip
    return rows


def _accuracy_table(records: Sequence[Record]) -> str:
    """Return a row per method and a column per value: all parties, and the outliers in brackets."""
    values = list(dict.fromkeys(record["value"] for record in records))
    rows = []
    for method in dict.fromkeys(record["method"] for record in records):
        cells = [LABELS[method]]
        for value in values:
            (record,) = [r for r in records if r["method"] == method and r["value"] == value]
            outliers = "" if record["outliers"] is None else f" ({100 * record['outliers']:.1f})"
            cells.append(f"{100 * record['mean']:.1f}{outliers}")
        rows.append(cells)
    return markdown_table(["", *(f"{value:g}" for value in values)], rows)


def draw(results: Path) -> Mapping[str, Any]:
    """Return one column per sweep: all parties above, the outliers below."""
    if not (results / "sensitivity.csv").exists():
        return {}
    records = _read_records(results)
    plt = pyplot()
    figure, axes = plt.subplots(
        2, len(SWEEP_LABELS), figsize=(12.5, 5.6), sharex="col", layout="constrained"
    )
    for column, (sweep, title) in enumerate(SWEEP_LABELS.items()):
        of_sweep = [record for record in records if record["sweep"] == sweep]
        for axis, key in zip(axes[:, column], ROW_LABELS, strict=True):
            _panel(axis, of_sweep, key)
            if sweep in ("delta", "sigma"):
                axis.set_xscale("log")
        axes[1, column].set_xlabel(title)
    for axis, label in zip(axes[:, 0], ROW_LABELS.values(), strict=True):
        axis.set_ylabel(label)
    handles = legend_handles(axes.flat)
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=len(handles))
    return {"sensitivity": figure}


def _panel(axis: Any, records: Sequence[Record], key: str) -> None:
    present = [record for record in records if record[key] is not None]
    for (method,), of_method in group_records(present, "method").items():
        style = {"color": method_colour(method), "label": LABELS[method]}
        y = [100 * record[key] for record in of_method]
        if of_method[0]["value"] is None:
            axis.axhline(y[0], linestyle="--", linewidth=1, **style)
            continue
        x = [record["value"] for record in of_method]
        std = [100 * (record[f"{key}_std"] or 0) for record in of_method]
        axis.errorbar(x, y, std, marker=method_marker(method), linewidth=1.2, capsize=2, **style)
