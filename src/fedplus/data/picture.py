"""A federation in one picture: sizes a party, classes a party, a few samples."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedplus._types import Host
from fedplus.check import SettingError, require
from fedplus.data.card import class_counts
from fedplus.data.federation import Federation
from fedplus.files import SHARED, write_atomically

INK, BLUE, RED = "#24292f", "#2f6fb5", "#c8553d"


def draw_federation(federation: Federation, path: Path) -> Path:
    """Save the picture; its kind (PNG, SVG, PDF) is that of the name.

    Args:
        federation: Any.
        path: Written whole or not at all.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise SettingError("A picture needs matplotlib. pip install fedplus[plot].") from error
    kinds = ("png", "svg", "pdf")
    require(path.suffix[1:] in kinds, "picture", str(path), f"a {', '.join(kinds)} file")
    require(path.parent.is_dir(), "picture", str(path), "in a folder that is there")
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    sizes, classes, samples = figure.subplots(1, 3, width_ratios=(1, 1, 1.1))
    _sizes(sizes, federation)
    _classes(classes, federation)
    _samples(samples, federation)
    stand_in = federation.info.stand_in_for
    title = federation.name + (f" (a stand-in for {stand_in})" if stand_in else "")
    figure.suptitle(title, fontweight="bold", color=INK)
    for panel in (sizes, classes):
        panel.spines[["top", "right"]].set_visible(False)
    kind, drawn = path.suffix[1:], io.BytesIO()
    metadata = {"Software": None} if kind == "png" else {}
    figure.savefig(drawn, format=kind, dpi=110, metadata=metadata)
    write_atomically(path, drawn.getvalue(), SHARED)
    return path


def _sizes(panel: Any, federation: Federation) -> None:
    """A bar a party, largest first; outliers in another colour."""
    size = federation.train.size + federation.test.size
    if federation.validation is not None:
        size = size + federation.validation.size
    order = np.argsort(-size, kind="stable")
    unlike = np.isin(np.array(federation.names)[order], federation.info.outliers)
    for which, colour, label in ((~unlike, BLUE, None), (unlike, RED, "outliers")):
        if which.any():
            bars = np.flatnonzero(which)
            panel.bar(bars, size[order][which], width=1.0 if len(size) > 60 else 0.8, color=colour,
                      label=label)  # fmt: skip
    if size.max() > 20 * max(np.median(size), 1):
        panel.set_yscale("log")
    if unlike.any():
        panel.set_ylim(top=1.2 * size.max())
        panel.legend(frameon=False, loc="upper right")
    panel.set(title="samples a party", xlabel=f"{len(size):,} parties, largest first")
    _name_parties(panel, [federation.names[k] for k in order])


def _classes(panel: Any, federation: Federation) -> None:
    """Share of each class at each party; for numbers to predict, their range at each party."""
    held = class_counts(federation)
    if held is None:
        return _ranges(panel, federation)
    if len(held) > 60:
        held = held[np.linspace(0, len(held) - 1, 60).astype(int)]
        panel.set_xlabel("60 of the parties")
    else:
        panel.set_xlabel("party")
    share = held / held.sum(1, keepdims=True)
    panel.imshow(share.T, aspect="auto", cmap="Blues", vmin=0, interpolation="nearest")
    names = federation.info.classes or tuple(map(str, range(held.shape[1])))
    panel.set_yticks(range(len(names)), names)
    panel.set_title(f"share of each class (darkest: {share.max():.0%})")
    _name_parties(panel, federation.names)
    return None


def _ranges(panel: Any, federation: Federation) -> None:
    labels = [federation.train.party(k)[1].ravel() for k in range(federation.parties)]
    low, middle, high = (np.array([np.quantile(y, q) for y in labels]) for q in (0.1, 0.5, 0.9))
    unlike = np.isin(np.array(federation.names), federation.info.outliers)
    colours = np.where(unlike, RED, BLUE)
    panel.vlines(
        np.arange(len(labels)), low, high, color=colours, linewidth=min(2, 120 / len(labels))
    )
    panel.scatter(
        np.arange(len(labels)), middle, color=colours, s=min(10, 600 / len(labels)), zorder=3
    )
    panel.set(title="what is predicted: 10%, 50%, 90%", xlabel="party")
    _name_parties(panel, federation.names)


def _name_parties(panel: Any, names: Sequence[str]) -> None:
    """By name where there is room, and where the names say something."""
    if len(names) <= 12:
        long = max(map(len, names)) > 2
        panel.set_xticks(range(len(names)), names, rotation=30 if long else 0,
                         ha="right" if long else "center", fontsize=8)  # fmt: skip
        if long:
            panel.set_xlabel("")


def _samples(panel: Any, federation: Federation) -> None:
    info, x = federation.info, federation.train.x
    panel.set_axis_off()
    panel.set_title("a few samples")
    if info.image:
        panel.imshow(_grid(federation), cmap="gray", interpolation="nearest")
        panel.set_title("samples of four parties, a row each")
    elif info.words:
        rng = np.random.default_rng(0)
        for i, row in enumerate(rng.choice(len(x), size=6, replace=False)):
            words = " ".join(info.words[t] for t in x[row] if t)
            label = info.classes[int(federation.train.y[row])]
            panel.text(
                0, 0.95 - 0.16 * i, f"{label}: {words[:46]}", va="top", fontsize=8, color=INK
            )
    elif x.ndim == 4:
        panel.set_axis_on()
        for prices in x[len(x) // 2]:
            panel.plot(prices[:, 0], linewidth=1)
        panel.set(title="one sample: closes over the last close", xlabel="day")
        panel.spines[["top", "right"]].set_visible(False)
    else:
        few = x[:: max(1, len(x) // 24)][:24].reshape(min(24, len(x)), -1)[:, :60]
        panel.imshow(few, aspect="auto", cmap="RdBu", vmin=-3, vmax=3, interpolation="nearest")
        panel.set_title("inputs of 24 samples (red −, blue +)")


def _grid(federation: Federation) -> Host:
    """Eight images each of three parties and, last, of an outlier if there is one."""
    names, outliers = federation.names, federation.info.outliers
    chosen = [names[0], names[len(names) // 3], names[len(names) // 2]]
    chosen.append(outliers[-1] if outliers else names[-1])
    low, high = np.quantile(federation.train.x[:2000], (0.001, 0.999))
    rows = []
    for name in chosen:
        x, _ = federation.train.party(names.index(name))
        images = [x[i % len(x)].reshape(federation.info.image) for i in range(8)]
        framed = [np.pad(image, 1, constant_values=high) for image in images]
        rows.append(np.concatenate(framed, axis=1))
    whole: Host = np.clip(np.concatenate(rows), low, high)
    return whole
