"""Tables and figure of the layer study: the gain from a ψ per layer, and the best ψ of each layer."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from papers.fed_plus.formatting import format_psi, settings_table
from papers.fed_plus.plot import method_colour, method_marker, pyplot
from papers.fed_plus.results import Record, read_csv, read_json

from fedplus.report.table_formats import markdown_table

TITLES = {
    "negatives": "three of ten parties hold negatives", "noise": "two noisy classes a party",
    "sent140": "tweets, an LSTM (stand-in for Sent140)",
}  # fmt: skip
PSIS = ("zero", "quadratic", "l2", "l1")
PARTS = ("rest", "head")
"""The parts of a model from input to output."""
PSI_LABELS = {
    "zero": "zero (no pull to w̃)", "quadratic": "quadratic (FedAvg+)", "l2": "L2 (FedGeoMed+)",
    "l1": "L1 (FedCoMed+)",
}  # fmt: skip
PICTURE = (
    "![Validation accuracy by the ψ of two parts of a model, and test accuracy](results/layers.png)"
)
MIN_COLOUR_RANGE = 5.0
"""Points of accuracy that the colours span at least, so that small differences do not look large."""


def read_records(results: Path, kind: str = "") -> dict[str, list[Record]]:
    """Return the records of each federation, or with ``kind="-trials"`` the hybrid's trials."""
    paths = {data: results / f"layers-{data}{kind}.csv" for data in TITLES}
    return {data: list(read_csv(path)) for data, path in paths.items() if path.exists()}


def blocks(results: Path) -> Mapping[str, str]:
    """Return test accuracies, the validation accuracy by part and ψ, and the chosen settings."""
    records, trials = read_records(results), read_records(results, "-trials")
    if not records:
        return {}
    chosen = {data: read_json(results / f"layers-{data}-tuning.json") for data in records}
    texts = {
        "layers": f"{PICTURE}\n\n{_test_accuracy_table(records)}",
        "layers-settings": settings_table(chosen, ""),
    }
    if trials:
        texts["layers-psi"] = _psi_table(trials)
    return texts


def best_trial(trials: Sequence[Record], **psi_of_part: str) -> Record | None:
    """Return the best trial with these ψ, e.g. ``head="l1"``; None if all of them diverged."""
    matching = [
        trial
        for trial in trials
        if trial["validation"] is not None
        and all(trial[f"{part}_psi"] == psi for part, psi in psi_of_part.items())
    ]
    return max(matching, key=lambda trial: float(trial["validation"]), default=None)


def _test_accuracy_table(by_data: Mapping[str, Sequence[Record]]) -> str:
    rows = []
    for data, records in by_data.items():
        has_outliers = any(record["outliers"] is not None for record in records)
        for record in records:
            groups = [_percent(record[key]) for key in ("the_others", "outliers")]
            bold = "**" if record["best"] == "True" else ""
            std = "" if record["mean_std"] is None else f" ± {100 * record['mean_std']:.1f}"
            p = "–" if record["p"] is None else f"{record['p']:.2f}"
            rows.append([
                TITLES[data], record["label"], f"{bold}{_percent(record['mean'])}{std}{bold}",
                *(groups if has_outliers else ["–", "–"]), _percent(record["worst_party"]), p,
            ])  # fmt: skip
    headings = ["", "method", "test accuracy", "the others", "outliers", "worst party",
                "p against the best"]  # fmt: skip
    return markdown_table(headings, rows)


def _psi_table(by_data: Mapping[str, Sequence[Record]]) -> str:
    """Return the best validation accuracy of each part with each ψ, over all ψ of the other part."""
    rows = []
    for data, trials in by_data.items():
        for part in PARTS:
            name = "head" if part == "head" else "the layers before"
            cells = [_cell(best_trial(trials, **{part: psi}), part) for psi in PSIS]
            rows.append([TITLES[data], name, *cells])
    return markdown_table(["", "part", *PSI_LABELS.values()], rows)


def _cell(trial: Record | None, part: str) -> str:
    if trial is None:
        return "–"
    other = "head" if part == "rest" else "rest"
    own_delta, delta = trial[f"{part}_delta"], trial[f"{other}_delta"]
    own = "" if own_delta is None else f"δ = {own_delta:g}, "
    psi = {"psi": trial[f"{other}_psi"]}
    other_psi = format_psi(psi if delta is None else psi | {"delta": delta})
    return f"{100 * trial['validation']:.1f} ({own}other: {other_psi})"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def draw(results: Path) -> Mapping[str, Any]:
    """Return one column per federation: a map of ψ by ψ, and the test accuracies below."""
    records, trials = read_records(results), read_records(results, "-trials")
    data_sets = [data for data in records if data in trials]
    if not data_sets:
        return {}
    plt = pyplot()
    figure, axes = plt.subplots(
        2, len(data_sets), figsize=(4.6 * len(data_sets), 6.6), squeeze=False,
        layout="constrained", height_ratios=(1.5, 1),
    )  # fmt: skip
    for (above, below), data in zip(axes.T, data_sets, strict=True):
        _draw_psi_map(above, trials[data])
        _draw_methods(below, records[data])
        above.set_title(TITLES[data])
    plt.close(figure)
    return {"layers": figure}


def _draw_psi_map(axis: Any, trials: Sequence[Record]) -> None:
    """Draw the best validation accuracy with each pair of ψ, and the two δ that gave it."""
    best_of_pair = [[best_trial(trials, rest=rest, head=head) for head in PSIS] for rest in PSIS]
    values = np.array([
        [100 * trial["validation"] if trial else np.nan for trial in row] for row in best_of_pair
    ])  # fmt: skip
    best = float(np.nanmax(values))
    least = min(float(np.nanmin(values)), best - MIN_COLOUR_RANGE)
    axis.imshow(values, cmap="cividis", aspect="auto", vmin=least, vmax=best)
    middle = (least + best) / 2
    for i, row in enumerate(best_of_pair):
        for j, trial in enumerate(row):
            if trial is not None:
                ink = "black" if values[i][j] > middle else "white"
                deltas = (trial["rest_delta"], trial["head_delta"])
                listed = ", ".join("–" if delta is None else f"{delta:g}" for delta in deltas)
                text = f"{values[i][j]:.1f}\nδ {listed}"
                axis.text(j, i, text, ha="center", va="center", color=ink, fontsize=8)
    ticks = [PSI_LABELS[psi].replace(" (", "\n(") for psi in PSIS]
    axis.set_xticks(range(len(PSIS)), ticks, fontsize=8)
    axis.set_yticks(range(len(PSIS)), ticks, fontsize=8)
    axis.set_xlabel("ψ of the head")
    axis.set_ylabel("ψ of the layers before\n(best validation accuracy, %)")
    axis.grid(False)


def _draw_methods(axis: Any, records: Sequence[Record]) -> None:
    drawn = [r for r in records if r["method"] != "majority" and r["mean"] is not None]
    for i, record in enumerate(drawn):
        method = record["method"]
        std = 100 * (record["mean_std"] or 0)
        style = {"color": method_colour(method), "marker": method_marker(method), "markersize": 6}
        axis.errorbar(100 * record["mean"], i, xerr=std, capsize=3, **style)
    axis.set_yticks(range(len(drawn)), [record["label"] for record in drawn])
    axis.set_ylim(len(drawn) - 0.5, -0.5)
    axis.set_xlabel("test accuracy, %")
