"""Figures: matplotlib where it is installed, one colour a method, the same in every figure."""

import io
import json
from importlib import resources
from pathlib import Path
from typing import Any

from fedplus._check import SettingError
from fedplus._write import write_atomically
from fedplus.paper.study import Study

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
            write_atomically(place / f"{name}.svg", image(figure, "svg"))
            write_atomically(there, png)


def _colours() -> dict[str, Any]:
    file = resources.files("fedplus.report") / "web" / "colours.json"
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found
