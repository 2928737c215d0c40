"""Parties whose data is bad: each way is one small function of a party's samples.

>>> import numpy as np
>>> from fedplus.data import Federation
>>> x, y = np.ones((10, 2)), np.arange(10) % 2
>>> federation = Federation.of([(x, y), (x, y)])
>>> corrupt(federation, [1], negated).train.party(1)[0].max()
np.float32(-1.0)
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from fedplus._check import require
from fedplus.data.federation import Federation, Host, Split

Corruption = Callable[[Host, Host, np.random.Generator], tuple[Host, Host]]
"""(x, y, random numbers) ↦ (x, y)."""


def negated(x: Host, y: Host, rng: np.random.Generator) -> tuple[Host, Host]:
    """−x: the negatives of standardised images."""
    return -x, y


def noisy(scale: float = 1.0) -> Corruption:
    """Gaussian noise of that standard deviation on the inputs."""

    def corruption(x: Host, y: Host, rng: np.random.Generator) -> tuple[Host, Host]:
        return (x + scale * rng.standard_normal(x.shape)).astype(x.dtype), y

    return corruption


def labels_flipped(classes: int) -> Corruption:
    """Label c becomes ``classes`` − 1 − c."""
    return lambda x, y, rng: (x, (classes - 1 - y).astype(y.dtype))


def labels_shuffled(x: Host, y: Host, rng: np.random.Generator) -> tuple[Host, Host]:
    """Labels in a random order: nothing can be learned from them."""
    return x, rng.permutation(y)


def corrupt(
    federation: Federation, parties: Iterable[int | str], how: Corruption, *,
    splits: Sequence[str] = ("train", "validation"), seed: int = 0,
) -> Federation:  # fmt: skip
    """The federation with these parties' samples made bad.

    Args:
        federation: As it was; it stays so.
        parties: By number or by name.
        how: What is done to their samples.
        splits: Which samples. With "test" among them such a party is an outlier, to be served as it
            is (negative images, say), rather than one with an error in its training data.
        seed: Of ``how``'s random numbers.
    """
    known = ("train", "validation", "test")
    for split in splits:
        require(split in known, "splits", repr(split), f"among {', '.join(known)}")
    who = [federation.names.index(k) if isinstance(k, str) else k for k in parties]
    ok = all(0 <= k < federation.parties for k in who)
    require(ok, "parties", who, f"from 0 to {federation.parties - 1}")
    rng = np.random.default_rng(seed)
    changed: dict[str, Any] = {
        name: _changed(split, who, how, rng)
        for name in splits
        if (split := getattr(federation, name)) is not None
    }
    return federation._replace(**changed)


def _changed(split: Split, who: list[int], how: Corruption, rng: np.random.Generator) -> Split:
    x, y = split.x.copy(), split.y.copy()
    for k in who:
        rows = slice(int(split.start[k]), int(split.start[k] + split.size[k]))
        x[rows], y[rows] = how(*split.party(k), rng)
    return split._replace(x=x, y=y)
