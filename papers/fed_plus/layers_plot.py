"""The study of layers as a figure: a map of ψ by ψ and a row of test accuracies a federation."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from papers.fed_plus.layers_text import NAMES, PSIS, TITLES, Record, best_by, there
from papers.fed_plus.plot import colour, marker, pyplot

LEAST_RANGE = 5.0
"""Points that the colours span at least: less would make a difference of what is none."""


def draw(results: Path) -> Mapping[str, Any]:
    """None where there are no results."""
    found, tried = there(results), there(results, "-trials")
    sets = [data for data in found if data in tried]
    if not sets:
        return {}
    plt = pyplot()
    figure, axes = plt.subplots(
        2, len(sets), figsize=(4.6 * len(sets), 6.6), squeeze=False, layout="constrained",
        height_ratios=(1.5, 1),
    )  # fmt: skip
    for (above, below), data in zip(axes.T, sets, strict=True):
        _map(above, tried[data])
        _methods(below, found[data])
        above.set_title(TITLES[data])
    plt.close(figure)
    return {"layers": figure}


def _map(axis: Any, trials: Sequence[Record]) -> None:
    """The best validation accuracy with each pair of ψ, and the two δ that gave it."""
    found = [[best_by(trials, rest=rest, head=head) for head in PSIS] for rest in PSIS]
    values = [[100 * one["validation"] if one else np.nan for one in row] for row in found]
    known = np.array(values)
    best = float(np.nanmax(known))
    least = min(float(np.nanmin(known)), best - LEAST_RANGE)
    axis.imshow(known, cmap="cividis", aspect="auto", vmin=least, vmax=best)
    middle = (least + best) / 2
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


def _methods(axis: Any, records: Sequence[Record]) -> None:
    shown = [one for one in records if one["method"] != "majority" and one["mean"] is not None]
    for i, one in enumerate(shown):
        method = one["method"]
        spread = 100 * (one["mean_std"] or 0)
        style = {"color": colour(method), "marker": marker(method), "markersize": 6}
        axis.errorbar(100 * one["mean"], i, xerr=spread, capsize=3, **style)
    axis.set_yticks(range(len(shown)), [one["label"] for one in shown])
    axis.set_ylim(len(shown) - 0.5, -0.5)
    axis.set_xlabel("test accuracy, %")
