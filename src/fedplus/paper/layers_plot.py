"""The study of layers as a figure: a map of ψ by ψ and a row of test accuracies a federation."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedplus.paper.layers_text import NAMES, PSIS, TITLES, best_by
from fedplus.paper.plot import colour, marker, pyplot
from fedplus.paper.results import read_csv


def draw(results: Path) -> Mapping[str, Any]:
    """None where there are no results."""
    if not all((results / name).exists() for name in ("layers.csv", "layers-trials.csv")):
        return {}
    records, trials = read_csv(results / "layers.csv"), read_csv(results / "layers-trials.csv")
    plt = pyplot()
    sets = list(dict.fromkeys(one["data"] for one in trials))
    figure, axes = plt.subplots(
        2, len(sets), figsize=(4.6 * len(sets), 6.6), squeeze=False, layout="constrained",
        height_ratios=(1.5, 1),
    )  # fmt: skip
    for (above, below), data in zip(axes.T, sets, strict=True):
        _map(above, [one for one in trials if one["data"] == data])
        _methods(below, [one for one in records if one["data"] == data])
        above.set_title(TITLES[data])
    plt.close(figure)
    return {"layers": figure}


def _map(axis: Any, trials: list[dict[str, Any]]) -> None:
    """The best validation accuracy with each pair of ψ, and the two δ that gave it."""
    found = [[best_by(trials, rest=rest, head=head) for head in PSIS] for rest in PSIS]
    values = [[100 * one["validation"] if one else np.nan for one in row] for row in found]
    known = np.array(values)
    axis.imshow(known, cmap="cividis", aspect="auto")
    middle = np.nanmean([np.nanmin(known), np.nanmax(known)])
    for i, row in enumerate(found):
        for j, one in enumerate(row):
            if one is not None:
                ink = "black" if values[i][j] > middle else "white"
                deltas = (one["rest_delta"], one["head_delta"])
                told = ", ".join("–" if delta is None else f"{delta:g}" for delta in deltas)
                text = f"{values[i][j]:.1f}\nδ {told}"
                axis.text(j, i, text, ha="center", va="center", color=ink, fontsize=8)
    ticks = [NAMES[psi].replace(" (", "\n(") for psi in PSIS]
    axis.set_xticks(range(len(PSIS)), ticks, fontsize=8)
    axis.set_yticks(range(len(PSIS)), ticks, fontsize=8)
    axis.set_xlabel("ψ of the head")
    axis.set_ylabel("ψ of the layers before\n(best validation accuracy, %)")
    axis.grid(False)


def _methods(axis: Any, records: list[dict[str, Any]]) -> None:
    shown = [one for one in records if one["method"] != "majority" and one["mean"] is not None]
    for i, one in enumerate(shown):
        method = one["method"]
        spread = 100 * (one["mean_std"] or 0)
        style = {"color": colour(method), "marker": marker(method), "markersize": 6}
        axis.errorbar(100 * one["mean"], i, xerr=spread, capsize=3, **style)
    axis.set_yticks(range(len(shown)), [one["label"] for one in shown])
    axis.set_ylim(len(shown) - 0.5, -0.5)
    axis.set_xlabel("test accuracy, %")
