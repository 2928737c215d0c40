"""The sensitivity study as a figure: four sweeps, all parties above, the outliers below."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from papers.fed_plus.plot import colour, marker, pyplot
from papers.fed_plus.results import read_csv

from fedplus.experiments.defaults import LABELS

SWEEPS = {
    "delta": "δ", "sigma": "σ", "noise": "scale of the noise", "outliers": "share of outliers",
}  # fmt: skip
ROWS = {"mean": "accuracy, all parties, %", "outliers": "accuracy, outliers, %"}


def draw(results: Path) -> Mapping[str, Any]:
    """None where there are no results."""
    if not (results / "sensitivity.csv").exists():
        return {}
    records = [r for r in read_csv(results / "sensitivity.csv") if r["method"] != "majority"]
    plt = pyplot()
    figure, axes = plt.subplots(
        2, len(SWEEPS), figsize=(12.5, 5.6), sharex="col", layout="constrained"
    )
    for column, (sweep, title) in enumerate(SWEEPS.items()):
        mine = [record for record in records if record["sweep"] == sweep]
        for axis, key in zip(axes[:, column], ROWS, strict=True):
            _panel(axis, mine, key)
            if sweep in ("delta", "sigma"):
                axis.set_xscale("log")
        axes[1, column].set_xlabel(title)
    for axis, label in zip(axes[:, 0], ROWS.values(), strict=True):
        axis.set_ylabel(label)
    handles: dict[str, Any] = {}
    for axis in axes.flat:
        handles |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=len(handles))
    return {"sensitivity": figure}


def _panel(axis: Any, records: list[dict[str, Any]], key: str) -> None:
    for method in dict.fromkeys(record["method"] for record in records):
        mine = [r for r in records if r["method"] == method and r[key] is not None]
        if not mine:
            continue
        style = {"color": colour(method), "label": LABELS[method]}
        y = [100 * record[key] for record in mine]
        if mine[0]["value"] is None:
            axis.axhline(y[0], linestyle="--", linewidth=1, **style)
            continue
        x = [record["value"] for record in mine]
        spread = [100 * (record[f"{key}_std"] or 0) for record in mine]
        axis.errorbar(x, y, spread, marker=marker(method), linewidth=1.2, capsize=2, **style)
