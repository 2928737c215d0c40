"""Corruptions: functions that make the data of some parties wrong or different from the others'.

>>> import numpy as np
>>> from fedplus.data import Federation
>>> x, y = np.ones((10, 2)), np.arange(10) % 2
>>> federation = Federation.from_arrays([(x, y), (x, y)])
>>> corrupt(federation, [1], negate).train.party(1)[0].max()
np.float32(-1.0)

``corrupt(federation, [1], negate, noise(0.5))`` applies one after the other.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import numpy as np

from fedplus._types import NumpyArray
from fedplus.check import require, require_number
from fedplus.data.federation import Federation

Corruption = Callable[[NumpyArray, NumpyArray, np.random.Generator], tuple[NumpyArray, NumpyArray]]
"""(x, y, random generator) ↦ (x, y)."""
SPLITS = ("train", "validation", "test")
CORRUPTION = 4
"""Identifier of the random stream, next to those of ``holdout``."""


def negate(x: NumpyArray, y: NumpyArray, rng: np.random.Generator) -> tuple[NumpyArray, NumpyArray]:
    """Replace the inputs with −x, the negatives of standardised images."""
    _require_real(x, "negate")
    return -x, y


def noise(
    scale: float = 1.0, law: Literal["normal", "laplace"] = "normal", classes: int | None = None
) -> Corruption:
    """Return a corruption that adds noise to the inputs.

    Args:
        scale: Standard deviation of the normal law, or scale b of the Laplace law.
        law: "normal" or "laplace".
        classes: Number of the party's classes, drawn at random, that get noise; None: all samples.
    """
    require_number(scale, "noise's scale", least=0)
    require(law in ("normal", "laplace"), "noise's law", repr(law), "normal or laplace")
    is_valid = classes is None or (isinstance(classes, int) and classes >= 1)
    require(
        is_valid, "noise's classes", repr(classes), "a whole number ≥ 1, or None for all samples"
    )

    def corruption(
        x: NumpyArray, y: NumpyArray, rng: np.random.Generator
    ) -> tuple[NumpyArray, NumpyArray]:
        _require_real(x, "noise")
        is_noisy = np.ones(len(x), dtype=bool)
        if classes is not None:
            labels = np.unique(y)
            chosen = rng.choice(labels, size=min(classes, len(labels)), replace=False)
            is_noisy = np.isin(y, chosen)
        noisy = x.copy()
        noisy[is_noisy] += (scale * _draw_noise(law, x[is_noisy].shape, rng)).astype(x.dtype)
        return noisy, y

    return corruption


def flip(classes: int) -> Corruption:
    """Return a corruption that replaces label c by ``classes`` − 1 − c."""

    def corruption(
        x: NumpyArray, y: NumpyArray, rng: np.random.Generator
    ) -> tuple[NumpyArray, NumpyArray]:
        _require_labels(y, classes, "flip")
        return x, (classes - 1 - y).astype(y.dtype)

    return corruption


def relabel(classes: int) -> Corruption:
    """Return a corruption that replaces label c by π(c), with a random permutation π for each party."""

    def corruption(
        x: NumpyArray, y: NumpyArray, rng: np.random.Generator
    ) -> tuple[NumpyArray, NumpyArray]:
        _require_labels(y, classes, "relabel")
        return x, rng.permutation(classes).astype(y.dtype)[y]

    return corruption


def shuffle(
    x: NumpyArray, y: NumpyArray, rng: np.random.Generator
) -> tuple[NumpyArray, NumpyArray]:
    """Permute the labels at random, so that nothing can be learned from them."""
    return x, rng.permutation(y)


def corrupt(
    federation: Federation, parties: Iterable[int | str], *corruptions: Corruption,
    splits: Sequence[str] = ("train", "validation"), seed: int = 0,
) -> Federation:  # fmt: skip
    """Return the federation with corrupted samples of these parties.

    Args:
        federation: The federation, which is not changed.
        parties: The parties, by number or by name.
        *corruptions: The corruptions, applied one after the other.
        splits: Which samples to corrupt. Without "test", a party has errors in its training data; with
            "test", the party really is different (e.g. has negative images) and is evaluated as such.
            Random choices for a party, such as classes, are the same in all its splits.
        seed: Seed of the random numbers; a party's do not depend on which others are corrupted.
    """
    for split in splits:
        require(split in SPLITS, "splits", repr(split), f"among {', '.join(SPLITS)}")
    indices = sorted({_party_index(federation, party) for party in parties})
    selected = {name: getattr(federation, name) for name in SPLITS if name in splits}
    present = {name: split for name, split in selected.items() if split is not None}
    changed = {
        name: split._replace(x=split.x.copy(), y=split.y.copy()) for name, split in present.items()
    }
    for k in indices:
        pairs = [split.party(k) for split in changed.values()]
        x, y = (np.concatenate(arrays) for arrays in zip(*pairs, strict=True))
        rng = np.random.default_rng((seed, CORRUPTION, k + 1))
        for corruption in corruptions:
            x, y = corruption(x, y, rng)
        ends = np.cumsum([len(labels) for _, labels in pairs])[:-1]
        new_pairs = zip(np.split(x, ends), np.split(y, ends), strict=True)
        for (inputs, labels), (new_inputs, new_labels) in zip(pairs, new_pairs, strict=True):
            inputs[...], labels[...] = new_inputs, new_labels
    replaced: dict[str, Any] = dict(changed)
    return federation._replace(**replaced)


def _party_index(federation: Federation, party: int | str) -> int:
    if isinstance(party, str):
        is_known = party in federation.names
        require(is_known, "party", repr(party), "the name of one of the federation's parties")
        return federation.names.index(party)
    last = federation.parties - 1
    require(0 <= party <= last, "party", party, f"a name, or a number from 0 to {last}")
    return int(party)


def _require_real(x: NumpyArray, name: str) -> None:
    require(
        x.dtype.kind == "f", f"inputs to {name}", f"whole numbers ({x.dtype})", "real numbers",
        "E.g. federation.map_inputs(lambda x: x.astype('float32')) first.",
    )  # fmt: skip


def _require_labels(y: NumpyArray, classes: int, name: str) -> None:
    is_valid = y.dtype.kind in "iu" and bool(y.min() >= 0 and y.max() < classes)
    require(
        is_valid,
        f"labels to {name}",
        f"{y.dtype} labels or other numbers",
        f"whole numbers below {classes}",
    )


def _draw_noise(law: str, shape: tuple[int, ...], rng: np.random.Generator) -> NumpyArray:
    return rng.standard_normal(shape) if law == "normal" else rng.laplace(size=shape)
