"""Ways to deal one data set out to parties: each is one small function.

>>> import numpy as np
>>> labels = np.repeat(np.arange(10), 100)
>>> rows = shards(5, classes=2)(labels, np.random.default_rng(0))
>>> {name: np.unique(labels[mine]).tolist() for name, mine in rows.items()}
{'0': [0, 1], '1': [2, 3], '2': [4, 5], '3': [6, 7], '4': [8, 9]}
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fedplus._types import Host
from fedplus.check import require, require_number

Partitioner = Callable[[Host, np.random.Generator], dict[str, Host]]
"""(labels, random numbers) ↦ each party's rows, by its name."""
TRIES = 1000


def iid(parties: int) -> Partitioner:
    """Equal parts at random; sizes differ by one sample at most."""

    def rows(y: Host, rng: np.random.Generator) -> dict[str, Host]:
        require_parties(parties, len(y))
        return _named(np.array_split(rng.permutation(len(y)), parties))

    return rows


def dirichlet(parties: int, alpha: float, least: int = 10) -> Partitioner:
    """Label skew: each class is shared out by a draw from Dirichlet(α, ..., α).

    Args:
        parties: N.
        alpha: Small: a party has few classes; large: equal parts.
        least: Draws with a party of fewer samples are drawn again.
    """
    require_number(alpha, "alpha", above=0)

    def rows(y: Host, rng: np.random.Generator) -> dict[str, Host]:
        require_parties(parties, len(y), least)
        classes, counts = np.unique(y, return_counts=True)
        for _ in range(TRIES):
            shares = rng.dirichlet(np.full(parties, alpha), size=len(classes))
            wanted = np.stack([_whole(n, s) for n, s in zip(counts, shares, strict=True)], 1)
            if wanted.sum(1).min() >= least:
                return draw_rows(y, wanted, rng)
        require(
            False, "dirichlet", f"alpha = {alpha:g} for {parties} parties of {least} samples",
            f"settings under which one of {TRIES} draws gives every party that many",
            "Raise alpha, or lower least.",
        )  # fmt: skip
        raise AssertionError

    return rows


def shards(parties: int, classes: int = 2, *, uneven: float = 0.0, least: int = 1) -> Partitioner:
    """A few classes a party; of a class that some party holds, all samples are dealt out.

    Args:
        parties: N.
        classes: Each party's. They go round: party 0 takes the first, party 1 the next, ...
        uneven: Standard deviation of the logarithm of a party's share of a class; 0: equal shares.
            2 is the power law of FedProx's MNIST.
        least: Samples of each of its classes that a party has at least.
    """
    require_number(uneven, "uneven", least=0, most=20)

    def rows(y: Host, rng: np.random.Generator) -> dict[str, Host]:
        known, counts = np.unique(y, return_counts=True)
        require(1 <= classes <= len(known), "classes", classes, f"from 1 to {len(known)}")
        require_parties(parties, len(y), least * classes)
        holds = class_holders(parties, classes, len(known))
        weights = np.exp(uneven * rng.standard_normal(holds.shape)) * holds
        wanted = np.zeros(holds.shape, dtype=np.int64)
        for c, n in enumerate(counts):
            takers = int(holds[:, c].sum())
            require(
                takers * least <= n, "least", least,
                f"at most {n // max(takers, 1)}, for {takers} parties share {n} samples of a class",
            )  # fmt: skip
            if takers:
                wanted[:, c] = least * holds[:, c] + _whole(n - takers * least, weights[:, c])
        return draw_rows(y, wanted, rng)

    return rows


def power_law(parties: int, *, uneven: float = 2.0, least: int = 10) -> Partitioner:
    """Sizes of a log-normal law, classes at random.

    Args:
        parties: N.
        uneven: Standard deviation of the logarithm of a party's size.
        least: Samples that a party has at least.
    """
    require_number(uneven, "uneven", least=0, most=20)

    def rows(y: Host, rng: np.random.Generator) -> dict[str, Host]:
        require_parties(parties, len(y), least)
        weights = np.exp(uneven * rng.standard_normal(parties))
        sizes = least + _whole(len(y) - parties * least, weights)
        return _named(np.split(rng.permutation(len(y)), np.cumsum(sizes)[:-1]))

    return rows


def by_column(values: npt.ArrayLike) -> Partitioner:
    """A party for each value of a column, named after it: writers, hospitals, accounts."""
    column = np.asarray(values)
    if column.dtype.kind == "O":
        column = np.array([None if v is None or v != v else str(v) for v in column.tolist()])

    def rows(y: Host, rng: np.random.Generator) -> dict[str, Host]:
        ok = column.ndim == 1 and len(column) == len(y)
        require(ok, "column", f"shape {column.shape}", f"of {len(y)} values, one a sample")
        gaps = sum(value is None or value != value for value in column.tolist())
        require(gaps == 0, "column", f"{gaps} samples of nobody", "a party for every sample")
        names, which = np.unique(column, return_inverse=True)
        order = np.argsort(which, kind="stable")
        parts = np.split(order, np.cumsum(np.bincount(which, minlength=len(names)))[:-1])
        return dict(zip(map(str, names), parts, strict=True))

    return rows


def class_holders(parties: int, classes: int, known: int) -> Host:
    """(N, C): which party holds which class, ``classes`` each, going round; all, if they can."""
    few = parties * classes < known
    step = classes if few else max(known / parties, 1)
    first = np.floor(np.arange(parties) * step).astype(int)[:, None]
    held = np.zeros((parties, known), dtype=bool)
    np.put_along_axis(held, (first + np.arange(classes)) % known, True, axis=1)
    return held


def draw_rows(y: Host, wanted: Host, rng: np.random.Generator) -> dict[str, Host]:
    """Disjoint random rows: ``wanted[k, c]`` of the c-th class for party k."""
    parts: list[list[Host]] = [[] for _ in wanted]
    for c, label in enumerate(np.unique(y)):
        pool = rng.permutation(np.flatnonzero(y == label))
        for mine, rows in zip(parts, np.split(pool, np.cumsum(wanted[:, c])), strict=False):
            mine.append(rows)
    return _named([rng.permutation(np.concatenate(mine)) for mine in parts])


def require_parties(parties: int, samples: int, least: int = 1) -> None:
    """Require that there is enough to go round."""
    whole = isinstance(parties, (int, np.integer)) and not isinstance(parties, bool)
    ok = bool(whole and parties >= 1 and parties * least <= samples)
    most = samples // max(least, 1)
    require(ok, "parties", parties, f"a whole number from 1 to {most}", "There is no more data.")


def _whole(total: int, weights: Host) -> Host:
    """Whole numbers in proportion to the weights that add up to ``total``."""
    ends = np.rint(np.cumsum(weights) / weights.sum() * total).astype(np.int64)
    return np.diff(ends, prepend=0)


def _named(parts: list[Host]) -> dict[str, Host]:
    return {str(k): rows for k, rows in enumerate(parts)}
