"""The scaling study as a figure: a column a data set; above, all parties, below, those that train."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from papers.fed_plus.benchmarks import ON_GPU
from papers.fed_plus.figure4_text import VARIANTS
from papers.fed_plus.plot import by_column, colour, marker
from papers.fed_plus.scaling_text import Record, there, title
from papers.fed_plus.specs import published

ROWS = {"all": "all N parties judged", "own": "the n that train judged\n(Fed+: by w_k)"}


def draw(results: Path) -> Mapping[str, Any]:
    """``scaling``, and ``scaling-sent140`` by itself, since another machine makes it."""
    found = there(results)
    here = {data: of for data, of in found.items() if data != ON_GPU}
    made = {}
    if here:
        made["scaling"] = _figure(here)
    if ON_GPU in found:
        made[f"scaling-{ON_GPU}"] = _figure({ON_GPU: found[ON_GPU]})
    return made


def _figure(found: Mapping[str, Sequence[Record]]) -> Any:
    titles = {data: title(data) for data in found}
    figure, grid = by_column(titles, ROWS, (3.0, 5.4), "n, parties that train")
    for column, (data, records) in zip(grid.T, found.items(), strict=True):
        for axes, kind in zip(column, ROWS, strict=True):
            _panel(axes, records, kind, published()["scaling"]["rows"].get(data, []))
    handles: dict[str, Any] = {}
    for axes in grid.flat:
        handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, fontsize=8)
    return figure


def _panel(axes: Any, records: Sequence[Record], kind: str, paper: Sequence[Any]) -> None:
    counts = list(dict.fromkeys(one["parties"] for one in records))
    if kind == "own":
        guess = [next(r["majority_pooled"] for r in records if r["parties"] == n) for n in counts]
        y = [100 * one for one in guess]
        axes.plot(counts, y, ":", color="black", linewidth=1, label="majority class")
    for method in dict.fromkeys(one["method"] for one in records):
        mine = [r for r in records if r["method"] == method and r[f"{kind}_pooled"] is not None]
        if mine:
            axes.errorbar(
                [one["parties"] for one in mine], [100 * one[f"{kind}_pooled"] for one in mine],
                [100 * (one.get(f"{kind}_pooled_std") or 0) for one in mine],
                color=colour(method), marker=marker(method), label=mine[0]["label"], capsize=2,
                linestyle="-" if method in VARIANTS else "--", linewidth=1.2,
                zorder=4 if method == "local" else 3,  # Fed+ often lies on it.
            )  # fmt: skip
    if paper:
        x, printed = zip(*paper, strict=True)
        axes.plot(
            x, printed, "x", color="black", markersize=7, label="paper: mean of the three Fed+"
        )
