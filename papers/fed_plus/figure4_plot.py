"""Figure 4 as a figure: a column a data set, a row for whose model is judged."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from papers.fed_plus.benchmarks import ON_GPU, PREFIX
from papers.fed_plus.figure4_text import TITLES, VARIANTS, heading
from papers.fed_plus.panels import Record, read
from papers.fed_plus.plot import by_column, colour, marker

ROWS = {
    "own": "what a party uses (Fed+: w_k)",
    "served": "the same, w̃ until first active",
    "common": "w̃ for everyone",
}


def draw(results: Path) -> Mapping[str, Any]:
    """``figure4``, and ``figure4-sent140`` by itself, since another machine makes it."""
    found = {data: read(results / f"{PREFIX}{data}.csv") for data in TITLES}
    there = [data for data, records in found.items() if records]
    here = [data for data in there if data != ON_GPU]
    made = {}
    if here:
        made["figure4"] = _figure(results, {data: found[data] for data in here})
    if ON_GPU in there:
        made[f"{PREFIX}{ON_GPU}"] = _figure(results, {ON_GPU: found[ON_GPU]})
    return made


def _figure(results: Path, found: Mapping[str, Sequence[Record]]) -> Any:
    titles = {data: heading(results, data).replace(", N", "\nN") for data in found}
    figure, grid = by_column(titles, ROWS, (3.1, 7.6), "round", told_size=8)
    for column, records in zip(grid.T, found.values(), strict=True):
        for axes, kind in zip(column, ROWS, strict=True):
            _panel(axes, records, kind)
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=min(len(labels), 5), fontsize=8
    )
    return figure


def _panel(axes: Any, records: Sequence[Record], kind: str) -> None:
    for method in dict.fromkeys(one["method"] for one in records):
        mine = [
            one for one in records
            if one["method"] == method and one[f"{kind}_pooled"] is not None
        ]  # fmt: skip
        if method == "majority":
            if mine:
                level = 100 * mine[0]["own_pooled"]
                axes.axhline(
                    level, color="black", linestyle=":", linewidth=1, label="majority class"
                )
            continue
        if not mine:
            continue
        x = [one["round"] for one in mine]
        y = 100 * np.array([one[f"{kind}_pooled"] for one in mine])
        spread = 100 * np.array([one[f"{kind}_pooled_std"] or 0.0 for one in mine])
        style = {"color": colour(method), "label": mine[0]["label"]}
        line: Any = "-" if method in VARIANTS else "--"
        if method == "local":  # Over the curves of Fed+, which often lie on it.
            line = (0, (2, 4))
        axes.fill_between(x, y - spread, y + spread, color=style["color"], alpha=0.12, linewidth=0)
        every = max(1, len(x) // 5)
        start = list(VARIANTS).index(method) if method in VARIANTS else 0
        axes.plot(
            x, y, linestyle=line, linewidth=1.2, zorder=4 if method == "local" else 3, **style,
            marker=marker(method), markevery=(min(start, len(x) - 1), every),
        )  # fmt: skip
