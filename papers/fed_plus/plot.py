"""Figures: matplotlib where it is installed, one colour a method, the same in every figure."""

import io
import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from papers.fed_plus.study import Study

from fedplus.check import SettingError
from fedplus.files import SHARED, write_atomically

MARKERS = "osD^vPX*<>hpd"
"""So that methods can be told apart without colours."""


def pyplot() -> Any:
    """Matplotlib, set up; refused in one line where it is missing."""
    try:
        import matplotlib
    except ImportError as error:
        raise SettingError(
            "Figures need matplotlib, which is not installed. "
            "Install it with: pip install 'fedplus[plot]'."
        ) from error
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({
        "figure.dpi": 110, "savefig.bbox": "tight", "font.size": 9, "axes.grid": True,
        "grid.alpha": 0.3, "axes.spines.top": False, "axes.spines.right": False,
        "legend.frameon": False, "svg.hashsalt": "fedplus", "svg.fonttype": "none",
        "lines.markersize": 4,
    })  # fmt: skip
    return plt


def by_column(
    titles: Mapping[str, str], rows: Mapping[str, str], size: tuple[float, float], x: str,
    told_size: float | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """A figure and its axes, (rows, columns): a column a data set, a row for whose model is judged.

    Args:
        titles: Of the data sets.
        rows: What is judged, told at the left.
        size: Width of a column and height of the whole, in inches.
        x: What the columns have in common below.
        told_size: Of the letters at the left.
    """
    plt = pyplot()
    width, height = size
    figure, grid = plt.subplots(
        len(rows), len(titles), figsize=(max(width * len(titles), 5.2), height), squeeze=False,
        sharex="col", sharey="col", layout="constrained",
    )  # fmt: skip
    for column, title in zip(grid.T, titles.values(), strict=True):
        column[0].set_title(title, fontsize=9)
        column[-1].set_xlabel(x)
    for axes, told in zip(grid[:, 0], rows.values(), strict=True):
        axes.set_ylabel(f"pooled test accuracy, %\n{told}", fontsize=told_size)
    plt.close(figure)  # Whoever has it can still draw in it, and save it.
    return figure, grid


def colour(method: str) -> str:
    """Of a method by name: the report's."""
    return str(_colours()["methods"][method])


def marker(method: str) -> str:
    """Of a method by name."""
    listed = list(_colours()["methods"])
    return MARKERS[listed.index(method) % len(MARKERS)]


def image(figure: Any, kind: str) -> bytes:
    """A figure as SVG or PNG."""
    out = io.BytesIO()
    figure.savefig(out, format=kind, metadata={"Date": None} if kind == "svg" else None)
    return out.getvalue()


def drawn(study: Study, place: Path) -> None:
    """Write the figures of a study, beside the small files that they are made of."""
    for name, figure in study.draw(place).items():
        png, there = image(figure, "png"), place / f"{name}.png"
        if not there.exists() or there.read_bytes() != png:  # SVG names its parts anew each time.
            write_atomically(place / f"{name}.svg", image(figure, "svg"), SHARED)
            write_atomically(there, png, SHARED)


def _colours() -> dict[str, Any]:
    file = resources.files("fedplus.report") / "web" / "colours.json"
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found
