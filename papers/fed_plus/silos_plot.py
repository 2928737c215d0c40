"""The study of real silos as a figure: sorted gains above, gains by size below."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from papers.fed_plus.plot import colour, marker, pyplot
from papers.fed_plus.results import read_csv
from papers.fed_plus.silos_text import TITLES

from fedplus.experiments.defaults import LABELS

BY_SIZE = ("fedavg", "fedgeomed+")
LINEAR, WIDE = 10.0, 50.0
"""Where some gain is wider than the second, those beyond the first are on a logarithmic scale."""
FURTHEST = 1e4
"""The axis ends there: further out are parties whose steps diverged."""


def draw(results: Path) -> Mapping[str, Any]:
    """None where there are no results."""
    if not (results / "silos.csv").exists():
        return {}
    records = [_drawable(one) for one in read_csv(results / "silos.csv")]
    plt = pyplot()
    sets = list(dict.fromkeys(one["data"] for one in records))
    figure, axes = plt.subplots(
        2, len(sets), figsize=(3.1 * len(sets), 5.8), sharey="col", squeeze=False,
        layout="constrained",
    )  # fmt: skip
    for (above, below), data in zip(axes.T, sets, strict=True):
        mine = [one for one in records if one["data"] == data]
        _sorted(above, mine)
        _sizes(below, mine)
        above.set_title(TITLES[data])
        error = mine[0]["better"] == "lower"
        for axis in (above, below):
            axis.axhline(0, color="black", linewidth=0.8)
            if max(abs(one["gain"]) for one in mine) > WIDE:
                axis.set_yscale("symlog", linthresh=LINEAR)
                axis.yaxis.set_major_formatter("{x:g}")
                low, high = axis.get_ylim()
                axis.set_ylim(max(low, -FURTHEST), min(high, FURTHEST))
            axis.set_ylabel("gain, % of the error alone" if error else "gain, points of accuracy")
    handles: dict[str, Any] = {}
    for axis in axes[0]:
        handles |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=len(handles))
    plt.close(figure)
    return {"silos": figure}


def _drawable(record: dict[str, Any]) -> dict[str, Any]:
    """A party whose steps diverged is drawn where the picture ends."""
    far = {"gain": -10 * FURTHEST, "half_width": 0.0}
    return record if record["gain"] > far["gain"] else record | far


def _sorted(axis: Any, records: list[dict[str, Any]]) -> None:
    for method in dict.fromkeys(one["method"] for one in records):
        gains = sorted(one["gain"] for one in records if one["method"] == method)
        few = marker(method) if len(gains) < 10 else None
        at = [100 * (i + 0.5) / len(gains) for i in range(len(gains))]
        axis.plot(at, gains, color=colour(method), label=LABELS[method], marker=few, linewidth=1.3)
    axis.set_xlabel("share of the parties, %")


def _sizes(axis: Any, records: list[dict[str, Any]]) -> None:
    for method in BY_SIZE:
        mine = [one for one in records if one["method"] == method]
        axis.errorbar(
            [one["samples"] for one in mine], [one["gain"] for one in mine],
            [one["half_width"] or 0 for one in mine], fmt=marker(method), color=colour(method),
            elinewidth=0.4, markersize=3, alpha=0.8,
        )  # fmt: skip
    axis.set_xlabel("training samples of the party")
