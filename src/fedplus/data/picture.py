"""Draws a federation: samples per party, classes per party, and a few samples."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedplus._types import NumpyArray
from fedplus.check import require
from fedplus.data.card import class_counts
from fedplus.data.federation import Federation
from fedplus.extras import import_extra
from fedplus.files import SHARED, write_atomically

INK, BLUE, RED = "#24292f", "#2f6fb5", "#c8553d"


def draw_federation(federation: Federation, path: Path) -> Path:
    """Draw a federation into a file.

    Args:
        federation: The federation.
        path: A PNG, SVG or PDF file, by its extension. It is written atomically.

    Returns:
        ``path``.

    Raises:
        SettingError: Matplotlib is not installed, or the path cannot be used.
    """
    figures = import_extra("matplotlib.figure", "plot", "a picture of a data set")
    kinds = ("png", "svg", "pdf")
    require(path.suffix[1:] in kinds, "picture", str(path), f"a {', '.join(kinds)} file")
    require(path.parent.is_dir(), "picture", str(path), "in an existing folder")
    figure = figures.Figure(figsize=(11, 3.4), layout="constrained")
    sizes, classes, samples = figure.subplots(1, 3, width_ratios=(1, 1, 1.1))
    _draw_sizes(sizes, federation)
    _draw_classes(classes, federation)
    _draw_samples(samples, federation)
    stand_in = federation.info.stand_in_for
    title = federation.name + (f" (a stand-in for {stand_in})" if stand_in else "")
    figure.suptitle(title, fontweight="bold", color=INK)
    for panel in (sizes, classes):
        panel.spines[["top", "right"]].set_visible(False)
    kind, content = path.suffix[1:], io.BytesIO()
    metadata = {"Software": None} if kind == "png" else {}
    figure.savefig(content, format=kind, dpi=110, metadata=metadata)
    write_atomically(path, content.getvalue(), SHARED)
    return path


def _draw_sizes(panel: Any, federation: Federation) -> None:
    """Draw one bar per party, largest first; outliers have another colour."""
    size = federation.train.size + federation.test.size
    if federation.validation is not None:
        size = size + federation.validation.size
    order = np.argsort(-size, kind="stable")
    is_outlier = np.isin(np.array(federation.names)[order], federation.info.outliers)
    for mask, colour, label in ((~is_outlier, BLUE, None), (is_outlier, RED, "outliers")):
        if mask.any():
            bars = np.flatnonzero(mask)
            panel.bar(bars, size[order][mask], width=1.0 if len(size) > 60 else 0.8, color=colour,
                      label=label)  # fmt: skip
    if size.max() > 20 * max(np.median(size), 1):
        panel.set_yscale("log")
    if is_outlier.any():
        panel.set_ylim(top=1.2 * size.max())
        panel.legend(frameon=False, loc="upper right")
    panel.set(title="samples per party", xlabel=f"{len(size):,} parties, largest first")
    _label_parties(panel, [federation.names[k] for k in order])


def _draw_classes(panel: Any, federation: Federation) -> None:
    """Draw each party's share of each class, or the range of its labels if they are numbers."""
    counts = class_counts(federation)
    if counts is None:
        return _draw_ranges(panel, federation)
    if len(counts) > 60:
        counts = counts[np.linspace(0, len(counts) - 1, 60).astype(int)]
        panel.set_xlabel("60 of the parties")
    else:
        panel.set_xlabel("party")
    share = counts / counts.sum(1, keepdims=True)
    panel.imshow(share.T, aspect="auto", cmap="Blues", vmin=0, interpolation="nearest")
    names = federation.info.classes or tuple(map(str, range(counts.shape[1])))
    panel.set_yticks(range(len(names)), names)
    panel.set_title(f"share of each class (darkest: {share.max():.0%})")
    _label_parties(panel, federation.names)
    return None


def _draw_ranges(panel: Any, federation: Federation) -> None:
    """Draw the 10%, 50% and 90% quantiles of each party's labels."""
    labels = [federation.train.party(k)[1].ravel() for k in range(federation.parties)]
    low, middle, high = (np.array([np.quantile(y, q) for y in labels]) for q in (0.1, 0.5, 0.9))
    is_outlier = np.isin(np.array(federation.names), federation.info.outliers)
    colours = np.where(is_outlier, RED, BLUE)
    panel.vlines(
        np.arange(len(labels)), low, high, color=colours, linewidth=min(2, 120 / len(labels))
    )
    panel.scatter(
        np.arange(len(labels)), middle, color=colours, s=min(10, 600 / len(labels)), zorder=3
    )
    panel.set(title="labels: 10%, 50%, 90% quantiles", xlabel="party")
    _label_parties(panel, federation.names)


def _label_parties(panel: Any, names: Sequence[str]) -> None:
    """Label the parties with their names if there are few."""
    if len(names) <= 12:
        is_long = max(map(len, names)) > 2
        panel.set_xticks(range(len(names)), names, rotation=30 if is_long else 0,
                         ha="right" if is_long else "center", fontsize=8)  # fmt: skip
        if is_long:
            panel.set_xlabel("")


def _draw_samples(panel: Any, federation: Federation) -> None:
    """Draw images, texts, prices or a matrix of numbers, whichever the inputs are."""
    info, x = federation.info, federation.train.x
    panel.set_axis_off()
    panel.set_title("a few samples")
    if info.image_shape:
        panel.imshow(_image_grid(federation), cmap="gray", interpolation="nearest")
        panel.set_title("samples of four parties, one row each")
    elif info.vocabulary:
        rng = np.random.default_rng(0)
        for i, row in enumerate(rng.choice(len(x), size=6, replace=False)):
            words = " ".join(info.vocabulary[t] for t in x[row] if t)
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


def _image_grid(federation: Federation) -> NumpyArray:
    """Return eight images each of four parties; the last one is an outlier if there is one."""
    names, outliers = federation.names, federation.info.outliers
    chosen = [names[0], names[len(names) // 3], names[len(names) // 2]]
    chosen.append(outliers[-1] if outliers else names[-1])
    low, high = np.quantile(federation.train.x[:2000], (0.001, 0.999))
    rows = []
    for name in chosen:
        x, _ = federation.train.party(names.index(name))
        images = [x[i % len(x)].reshape(federation.info.image_shape) for i in range(8)]
        framed = [np.pad(image, 1, constant_values=high) for image in images]
        rows.append(np.concatenate(framed, axis=1))
    grid: NumpyArray = np.clip(np.concatenate(rows), low, high)
    return grid
