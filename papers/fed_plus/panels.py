"""Small panels, a column a method and a row a setting, for Figures 1 and 3."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from papers.fed_plus.plot import pyplot
from papers.fed_plus.results import read_csv

Record = dict[str, Any]


def read(path: Path) -> list[Record]:
    """The records of a file of results; none where it is not there."""
    return read_csv(path) if path.is_file() else []


def per_method(
    records: Sequence[Record],
    panel: Callable[[Any, list[Record]], None],
    ylabel: str,
    title: str,
    xlabel: str = "round",
) -> Any:
    """A figure: ``panel(axes, records)`` draws those of one setting and method."""
    plt = pyplot()
    settings = list(dict.fromkeys(one["setting"] for one in records))
    methods = list(dict.fromkeys(one["method"] for one in records))
    figure, grid = plt.subplots(
        len(settings), len(methods), figsize=(1.7 * len(methods), 2.1 * len(settings) + 0.5),
        sharex="row", sharey="row", squeeze=False, layout="constrained",
    )  # fmt: skip
    for row, setting in zip(grid, settings, strict=True):
        for axes, method in zip(row, methods, strict=True):
            mine = [one for one in records if (one["setting"], one["method"]) == (setting, method)]
            if mine:
                panel(axes, mine)
                axes.set_title(mine[0]["label"], fontsize=9)
            axes.set_xlabel(xlabel)
        steps = next(one["steps"] for one in records if one["setting"] == setting)
        row[0].set_ylabel(f"{steps:g} steps apart\n{ylabel}")
    figure.suptitle(title, fontsize=10)
    plt.close(figure)
    return figure
