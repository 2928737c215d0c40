"""Parties whose data is bad, or just unlike the rest: each way is one small function.

>>> import numpy as np
>>> from fedplus.data import Federation
>>> x, y = np.ones((10, 2)), np.arange(10) % 2
>>> federation = Federation.from_arrays([(x, y), (x, y)])
>>> corrupt(federation, [1], negate).train.party(1)[0].max()
np.float32(-1.0)

They stack: ``corrupt(federation, [1], negate, noise(0.5))`` does one after the other.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import numpy as np

from fedplus._types import Host
from fedplus.check import require, require_number
from fedplus.data.federation import Federation

Corruption = Callable[[Host, Host, np.random.Generator], tuple[Host, Host]]
"""(x, y, random numbers) ↦ (x, y)."""
SPLITS = ("train", "validation", "test")
CORRUPTION = 4
"""What its random numbers are for: see ``holdout``."""


def negate(x: Host, y: Host, rng: np.random.Generator) -> tuple[Host, Host]:
    """−x: the negatives of standardised images."""
    _require_real(x, "negate")
    return -x, y


def noise(
    scale: float = 1.0, law: Literal["normal", "laplace"] = "normal", classes: int | None = None
) -> Corruption:
    """Noise on the inputs.

    Args:
        scale: Of the normal law its standard deviation, of Laplace's its scale b.
        law: "normal" or "laplace".
        classes: On so many of the party's classes, drawn at random, alone; None: on all samples.
    """
    require_number(scale, "noise's scale", least=0)
    require(law in ("normal", "laplace"), "noise's law", repr(law), "normal or laplace")
    ok = classes is None or (isinstance(classes, int) and classes >= 1)
    require(ok, "noise's classes", repr(classes), "a whole number ≥ 1, or None for all samples")

    def corruption(x: Host, y: Host, rng: np.random.Generator) -> tuple[Host, Host]:
        _require_real(x, "noise")
        hit = np.ones(len(x), dtype=bool)
        if classes is not None:
            known = np.unique(y)
            hit = np.isin(y, rng.choice(known, size=min(classes, len(known)), replace=False))
        noisy = x.copy()
        noisy[hit] += (scale * _draws(law, x[hit].shape, rng)).astype(x.dtype)
        return noisy, y

    return corruption


def flip(classes: int) -> Corruption:
    """Label c becomes ``classes`` − 1 − c."""

    def corruption(x: Host, y: Host, rng: np.random.Generator) -> tuple[Host, Host]:
        _require_labels(y, classes, "flip")
        return x, (classes - 1 - y).astype(y.dtype)

    return corruption


def relabel(classes: int) -> Corruption:
    """The classes change names: label c becomes π(c), with one random π a party."""

    def corruption(x: Host, y: Host, rng: np.random.Generator) -> tuple[Host, Host]:
        _require_labels(y, classes, "relabel")
        return x, rng.permutation(classes).astype(y.dtype)[y]

    return corruption


def shuffle(x: Host, y: Host, rng: np.random.Generator) -> tuple[Host, Host]:
    """Labels in a random order: nothing can be learned from them."""
    return x, rng.permutation(y)


def corrupt(
    federation: Federation, parties: Iterable[int | str], *how: Corruption,
    splits: Sequence[str] = ("train", "validation"), seed: int = 0,
) -> Federation:  # fmt: skip
    """The federation with these parties' samples made bad.

    Args:
        federation: As it was; it stays so.
        parties: By number or by name.
        *how: What is done to their samples, one after the other.
        splits: Which samples. With "test" among them such a party is an outlier, to be served as it
            is (negative images, say), rather than one with an error in its training data. What is
            drawn at random for a party (which classes, say) is the same in all its splits.
        seed: Of the random numbers; those of a party do not depend on which others are corrupted.
    """
    for split in splits:
        require(split in SPLITS, "splits", repr(split), f"among {', '.join(SPLITS)}")
    who = sorted({_number(federation, party) for party in parties})
    named = {name: getattr(federation, name) for name in SPLITS if name in splits}
    present = {name: split for name, split in named.items() if split is not None}
    changed = {
        name: split._replace(x=split.x.copy(), y=split.y.copy()) for name, split in present.items()
    }
    for k in who:
        mine = [split.party(k) for split in changed.values()]
        x, y = (np.concatenate(arrays) for arrays in zip(*mine, strict=True))
        rng = np.random.default_rng((seed, CORRUPTION, k + 1))
        for corruption in how:
            x, y = corruption(x, y, rng)
        cuts = np.cumsum([len(labels) for _, labels in mine])[:-1]
        pieces = zip(np.split(x, cuts), np.split(y, cuts), strict=True)
        for (inputs, labels), (new_inputs, new_labels) in zip(mine, pieces, strict=True):
            inputs[...], labels[...] = new_inputs, new_labels
    replaced: dict[str, Any] = dict(changed)
    return federation._replace(**replaced)


def _number(federation: Federation, party: int | str) -> int:
    if isinstance(party, str):
        known = party in federation.names
        require(known, "party", repr(party), "the name of one of the federation's parties")
        return federation.names.index(party)
    last = federation.parties - 1
    require(0 <= party <= last, "party", party, f"a name, or a number from 0 to {last}")
    return int(party)


def _require_real(x: Host, name: str) -> None:
    require(
        x.dtype.kind == "f", f"inputs to {name}", f"whole numbers ({x.dtype})", "real numbers",
        "E.g. federation.map_inputs(lambda x: x.astype('float32')) first.",
    )  # fmt: skip


def _require_labels(y: Host, classes: int, name: str) -> None:
    ok = y.dtype.kind in "iu" and bool(y.min() >= 0 and y.max() < classes)
    require(ok, f"labels to {name}", f"others ({y.dtype})", f"whole numbers below {classes}")


def _draws(law: str, shape: tuple[int, ...], rng: np.random.Generator) -> Host:
    return rng.standard_normal(shape) if law == "normal" else rng.laplace(size=shape)
