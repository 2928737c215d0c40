"""Figures with matplotlib: set-up, layouts, and one colour and marker per method in all figures."""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from papers.fed_plus.results import Record
from papers.fed_plus.study import Study

from fedplus.check import SettingError
from fedplus.files import SHARED, write_atomically

MARKERS = "osD^vPX*<>hpd"
"""Markers distinguish the methods without colours."""


def pyplot() -> Any:
    """Import and configure ``matplotlib.pyplot``.

    Raises:
        SettingError: If matplotlib is not installed.
    """
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


def column_grid(
    titles: Mapping[str, str], rows: Mapping[str, str], size: tuple[float, float], xlabel: str,
    label_size: float | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Return a figure and its axes: one column per data set, one row per kind of evaluated model.

    Args:
        titles: Titles of the columns by data set.
        rows: Labels of the rows by kind.
        size: Width of a column and height of the figure, in inches.
        xlabel: Label below every column.
        label_size: Font size of the row labels.
    """
    plt = pyplot()
    width, height = size
    figure, grid = plt.subplots(
        len(rows), len(titles), figsize=(max(width * len(titles), 5.2), height), squeeze=False,
        sharex="col", sharey="col", layout="constrained",
    )  # fmt: skip
    for column, title in zip(grid.T, titles.values(), strict=True):
        column[0].set_title(title, fontsize=9)
        column[-1].set_xlabel(xlabel)
    for axes, label in zip(grid[:, 0], rows.values(), strict=True):
        axes.set_ylabel(f"pooled test accuracy, %\n{label}", fontsize=label_size)
    plt.close(figure)  # A closed figure can still be drawn into and saved.
    return figure, grid


def plot_per_method(
    records: Sequence[Record],
    panel: Callable[[Any, list[Record]], None],
    ylabel: str,
    title: str,
    xlabel: str = "round",
) -> Any:
    """Return a figure of small panels: one column per method, one row per setting.

    Args:
        records: Records with ``setting``, ``steps``, ``method`` and ``label``.
        panel: Called as ``panel(axes, records)`` with the records of one setting and method.
        ylabel: Label of the vertical axes.
        title: Title of the figure.
        xlabel: Label of the horizontal axes.
    """
    plt = pyplot()
    settings = list(dict.fromkeys(record["setting"] for record in records))
    methods = list(dict.fromkeys(record["method"] for record in records))
    figure, grid = plt.subplots(
        len(settings), len(methods), figsize=(1.7 * len(methods), 2.1 * len(settings) + 0.5),
        sharex="row", sharey="row", squeeze=False, layout="constrained",
    )  # fmt: skip
    for row, setting in zip(grid, settings, strict=True):
        of_setting = [record for record in records if record["setting"] == setting]
        for axes, method in zip(row, methods, strict=True):
            of_method = [record for record in of_setting if record["method"] == method]
            if of_method:
                panel(axes, of_method)
                axes.set_title(of_method[0]["label"], fontsize=9)
            axes.set_xlabel(xlabel)
        row[0].set_ylabel(f"{of_setting[0]['steps']:g} steps apart\n{ylabel}")
    figure.suptitle(title, fontsize=10)
    plt.close(figure)
    return figure


def legend_handles(axes: Sequence[Any]) -> dict[str, Any]:
    """Return the legend's handles by label, over all axes; the last handle of a label counts."""
    handles: dict[str, Any] = {}
    for axis in axes:
        handles |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    return handles


def method_colour(method: str) -> str:
    """Return the colour of a method, which is that of the HTML report."""
    return str(_report_colours()["methods"][method])


def method_marker(method: str) -> str:
    """Return the matplotlib marker of a method."""
    methods = list(_report_colours()["methods"])
    return MARKERS[methods.index(method) % len(MARKERS)]


def render(figure: Any, kind: str) -> bytes:
    """Return a figure as an SVG or PNG file."""
    out = io.BytesIO()
    figure.savefig(out, format=kind, metadata={"Date": None} if kind == "svg" else None)
    return out.getvalue()


def write_figures(study: Study, folder: Path) -> None:
    """Draw the figures of a study from the results in a folder, and write them there."""
    for name, figure in study.draw(folder).items():
        png, path = render(figure, "png"), folder / f"{name}.png"
        if not path.exists() or path.read_bytes() != png:  # An SVG differs each time.
            write_atomically(folder / f"{name}.svg", render(figure, "svg"), SHARED)
            write_atomically(path, png, SHARED)


def _report_colours() -> dict[str, Any]:
    file = resources.files("fedplus.report") / "web" / "colours.json"
    colours: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return colours
