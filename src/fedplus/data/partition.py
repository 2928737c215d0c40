"""Partitioners: functions that divide one data set among parties.

>>> import numpy as np
>>> labels = np.repeat(np.arange(10), 100)
>>> rows = shards(5, classes=2)(labels, np.random.default_rng(0))
>>> {name: np.unique(labels[part]).tolist() for name, part in rows.items()}
{'0': [0, 1], '1': [2, 3], '2': [4, 5], '3': [6, 7], '4': [8, 9]}
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fedplus._types import NumpyArray
from fedplus.check import SettingError, require, require_number

Partitioner = Callable[[NumpyArray, np.random.Generator], dict[str, NumpyArray]]
"""(labels, random generator) ↦ each party's row numbers, by its name."""
MAX_DRAWS = 1000


def iid(parties: int) -> Partitioner:
    """Return a partitioner into random parts whose sizes differ by at most one sample."""

    def rows(y: NumpyArray, rng: np.random.Generator) -> dict[str, NumpyArray]:
        require_enough_samples(parties, len(y))
        return _by_index(np.array_split(rng.permutation(len(y)), parties))

    return rows


def dirichlet(parties: int, alpha: float, least: int = 10) -> Partitioner:
    """Return a partitioner with label skew: each class is divided by a draw from Dirichlet(α, ..., α).

    Args:
        parties: Number N of parties.
        alpha: α > 0. With a small α a party has few classes; with a large α all parties are alike.
        least: Smallest number of samples of a party; the draw is repeated until all parties have them.
    """
    require_number(alpha, "alpha", above=0)

    def rows(y: NumpyArray, rng: np.random.Generator) -> dict[str, NumpyArray]:
        require_enough_samples(parties, len(y), least)
        classes, counts = np.unique(y, return_counts=True)
        for _ in range(MAX_DRAWS):
            shares = rng.dirichlet(np.full(parties, alpha), size=len(classes))
            sizes = np.stack([_apportion(n, s) for n, s in zip(counts, shares, strict=True)], 1)
            if sizes.sum(1).min() >= least:
                return draw_rows(y, sizes, rng)
        raise SettingError(
            f"dirichlet found no division with at least {least} samples per party in {MAX_DRAWS} draws "
            f"(alpha = {alpha:g}, {parties} parties). Raise alpha, or lower least."
        )

    return rows


def shards(parties: int, classes: int = 2, *, uneven: float = 0.0, least: int = 1) -> Partitioner:
    """Return a partitioner that gives each party a few classes.

    All samples of a class are used if at least one party has that class.

    Args:
        parties: Number N of parties.
        classes: Number of classes of a party, assigned cyclically: party 0 has the first ones, party 1
            the next ones, and so on.
        uneven: Standard deviation of the logarithm of a party's share of a class; 0 gives equal shares,
            2 the power law of FedProx's MNIST.
        least: Smallest number of samples that a party has of each of its classes.
    """
    require_number(uneven, "uneven", least=0, most=20)

    def rows(y: NumpyArray, rng: np.random.Generator) -> dict[str, NumpyArray]:
        known, counts = np.unique(y, return_counts=True)
        require(1 <= classes <= len(known), "classes", classes, f"from 1 to {len(known)}")
        require_enough_samples(parties, len(y), least * classes)
        has_class = assign_classes(parties, classes, len(known))
        weights = np.exp(uneven * rng.standard_normal(has_class.shape)) * has_class
        sizes = np.zeros(has_class.shape, dtype=np.int64)
        for c, n in enumerate(counts):
            holders = int(has_class[:, c].sum())
            require(
                holders * least <= n, "least", least,
                f"at most {n // max(holders, 1)}, as {holders} parties share {n} samples of a class",
            )  # fmt: skip
            if holders:
                rest = _apportion(n - holders * least, weights[:, c])
                sizes[:, c] = least * has_class[:, c] + rest
        return draw_rows(y, sizes, rng)

    return rows


def power_law(parties: int, *, uneven: float = 2.0, least: int = 10) -> Partitioner:
    """Return a partitioner into random parts whose sizes are log-normal.

    FedProx's code draws sizes in this way and calls them a power law.

    Args:
        parties: Number N of parties.
        uneven: Standard deviation of the logarithm of a party's size.
        least: Smallest number of samples of a party.
    """
    require_number(uneven, "uneven", least=0, most=20)

    def rows(y: NumpyArray, rng: np.random.Generator) -> dict[str, NumpyArray]:
        require_enough_samples(parties, len(y), least)
        weights = np.exp(uneven * rng.standard_normal(parties))
        sizes = least + _apportion(len(y) - parties * least, weights)
        return _by_index(np.split(rng.permutation(len(y)), np.cumsum(sizes)[:-1]))

    return rows


def by_column(values: npt.ArrayLike) -> Partitioner:
    """Return a partitioner with one party, of that name, for each value of a column.

    Args:
        values: One value per sample, such as its writer, hospital or account.
    """
    column = np.asarray(values)
    if column.dtype.kind == "O":
        column = np.array([None if v is None or v != v else str(v) for v in column.tolist()])

    def rows(y: NumpyArray, rng: np.random.Generator) -> dict[str, NumpyArray]:
        is_valid = column.ndim == 1 and len(column) == len(y)
        require(is_valid, "column", f"shape {column.shape}", f"of {len(y)} values, one per sample")
        gaps = sum(value is None or value != value for value in column.tolist())
        if gaps:
            raise SettingError(
                f"column must name a party for every sample, got {gaps} missing values."
            )
        names, party = np.unique(column, return_inverse=True)
        order = np.argsort(party, kind="stable")
        parts = np.split(order, np.cumsum(np.bincount(party, minlength=len(names)))[:-1])
        return dict(zip(map(str, names), parts, strict=True))

    return rows


def assign_classes(parties: int, classes: int, total: int) -> NumpyArray:
    """Return a mask (N, C) of each party's classes, assigned cyclically.

    Args:
        parties: Number N of parties.
        classes: Number of classes of each party.
        total: Number C of all classes; each has a party if parties · classes ≥ C.
    """
    is_scarce = parties * classes < total
    step = classes if is_scarce else max(total / parties, 1)
    first = np.floor(np.arange(parties) * step).astype(int)[:, None]
    has_class = np.zeros((parties, total), dtype=bool)
    np.put_along_axis(has_class, (first + np.arange(classes)) % total, True, axis=1)
    return has_class


def draw_rows(y: NumpyArray, sizes: NumpyArray, rng: np.random.Generator) -> dict[str, NumpyArray]:
    """Draw disjoint random rows: ``sizes[k, c]`` of the c-th class for party k."""
    parts: list[list[NumpyArray]] = [[] for _ in sizes]
    for c, label in enumerate(np.unique(y)):
        pool = rng.permutation(np.flatnonzero(y == label))
        for part, rows in zip(parts, np.split(pool, np.cumsum(sizes[:, c])), strict=False):
            part.append(rows)
    return _by_index([rng.permutation(np.concatenate(part)) for part in parts])


def require_enough_samples(parties: int, samples: int, least: int = 1) -> None:
    """Raise ``SettingError`` unless ``samples`` suffice for ``least`` samples per party."""
    is_whole = isinstance(parties, (int, np.integer)) and not isinstance(parties, bool)
    is_valid = bool(is_whole and parties >= 1 and parties * least <= samples)
    allowed = f"a whole number from 1 to {samples // max(least, 1)}"
    require(is_valid, "parties", parties, allowed, "There are not enough samples for more.")


def _apportion(total: int, weights: NumpyArray) -> NumpyArray:
    """Return whole numbers in proportion to the weights that add up to ``total``."""
    ends = np.rint(np.cumsum(weights) / weights.sum() * total).astype(np.int64)
    return np.diff(ends, prepend=0)


def _by_index(parts: list[NumpyArray]) -> dict[str, NumpyArray]:
    return {str(k): rows for k, rows in enumerate(parts)}
