"""Limits the number of points in a chart, so that reports of large federations stay small."""

import numpy as np

from fedplus._types import NumpyArray

MAX_LINE_POINTS = 4_000
"""The largest number of points of all lines of a chart together."""
MAX_CELLS = 60_000
"""The largest number of cells (one per party and round) of all heat maps together.

It is also the largest number of points of all parties' lines together.
"""
MAX_PARTIES = 200
"""The largest number of rows of a heat map."""
MAX_COLUMNS = 100
"""The largest number of evaluated rounds in a chart with values for each party."""


def even_indices(n: int, most: int) -> NumpyArray:
    """Return at most ``most`` evenly spaced indices of ``range(n)``, with the first and the last."""
    return (
        np.arange(n)
        if n <= most
        else np.unique(np.linspace(0, n - 1, max(2, most)).round().astype(int))
    )


def end_indices(n: int, most: int) -> NumpyArray:
    """Return at most ``most`` indices of ``range(n)``, half from the start and half from the end."""
    return np.arange(n) if n <= most else np.r_[: most // 2, n - (most - most // 2) : n]


def peak_indices(y: NumpyArray, most: int) -> NumpyArray:
    """Return at most ``most`` indices of y: the maximum of each interval, so that peaks remain."""
    if y.size <= most:
        return np.arange(y.size)
    parts = np.array_split(np.nan_to_num(y, nan=-np.inf), most)
    starts = np.cumsum([0, *(len(part) for part in parts[:-1])])
    return np.array([start + part.argmax() for start, part in zip(starts, parts, strict=True)])
