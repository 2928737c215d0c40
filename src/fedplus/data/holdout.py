"""Which of a party's samples are set aside to judge by, and what becomes of tiny parties."""

import zlib
from collections.abc import Mapping
from typing import Literal, TypedDict

import numpy as np

from fedplus._types import Host
from fedplus.check import require, require_integer, require_number


class Splitting(TypedDict, total=False):
    """How samples are set aside, wherever a federation is made.

    The test samples depend on the seed and the party alone, not on ``validation_share``: settings
    chosen on validation samples have never seen a test sample.
    """

    test_share: float
    """Of each party's samples, to be judged on; at least one. Stratified by class. 0.2."""
    validation_share: float
    """Of what then remains for training, to choose settings on; 0 sets none aside. 0."""
    small: Literal["refuse", "merge", "drop"]
    """What becomes of a party with fewer than ``least`` samples. "refuse"."""
    least: int
    """3 by default: a sample each to train, to validate and to test with."""
    seed: int
    name: str
    """Of the federation, for reports."""


Divided = tuple[dict[str, Host], dict[str, Host], dict[str, Host] | None]
"""Each party's rows to train with, to test with and, if asked for, to validate with."""
WAYS = ("refuse", "merge", "drop")
LEAST = 3
PARTITION, TEST, VALIDATION = 1, 2, 3
"""What random numbers are for: each use has a stream of its own."""


def require_splitting(how: Splitting) -> None:
    """Require settings that there are, within their bounds."""
    known = tuple(Splitting.__annotations__)
    for name in how:
        require(name in known, "setting", name, f"one of: {', '.join(known)}")
    for name, least in (("test_share", None), ("validation_share", 0)):
        if name in how:
            value = how.get(name)
            require_number(value, name, above=0 if least is None else None, least=least)
            require(float(str(value)) < 1, name, value, "below 1", "Or give the samples yourself.")
    require_integer("seed", how.get("seed", 0), 0)
    require_integer("least", how.get("least", LEAST), 0)
    small = how.get("small", "refuse")
    require(small in WAYS, "small", repr(small), f"one of {', '.join(WAYS)}")


def split_rows(y: Host, rows: Mapping[str, Host], how: Splitting) -> Divided:
    """Each party's rows for training, testing and (if asked for) validation."""
    share, held = how.get("test_share", 0.2), how.get("validation_share", 0.0)
    rows = _large_enough(rows, max(how.get("least", LEAST), LEAST), how.get("small", "refuse"))
    seed = how.get("seed", 0)
    train, test = hold_out_rows(y, rows, share, (seed, TEST), leave=2)
    if not held:
        return train, test, None
    train, validation = hold_out_rows(y, train, held, (seed, VALIDATION), leave=1)
    return train, test, validation


def hold_out_rows(
    y: Host, rows: Mapping[str, Host], share: float, seed: tuple[int, int], leave: int
) -> tuple[dict[str, Host], dict[str, Host]]:
    """Each party's rows that are kept, and those set aside: by its name, whoever else there is."""
    kept, aside = {}, {}
    for who, mine in rows.items():
        rng = np.random.default_rng((*seed, zlib.crc32(who.encode())))
        kept[who], aside[who] = stratified_sample(mine, y, share, rng, leave)
    return kept, aside


def stratified_sample(
    rows: Host, y: Host, share: float, rng: np.random.Generator, leave: int = 1
) -> tuple[Host, Host]:
    """(kept, set aside): a random share, of every class its part to within one sample.

    At least one is set aside and ``leave`` are kept. Both keep the order that the rows came in.
    """
    n = len(rows)
    cut = min(max(1, round(share * n)), n - leave)
    order = rng.permutation(n)
    if y.ndim == 1 and y.dtype.kind in "biu":
        order = order[np.argsort(y[rows[order]], kind="stable")]
    every = np.floor((np.arange(cut) + rng.random()) * n / cut).astype(np.intp)
    aside = np.zeros(n, dtype=bool)
    aside[order[every]] = True
    return rows[~aside], rows[aside]


def _large_enough(rows: Mapping[str, Host], least: int, small: str) -> Mapping[str, Host]:
    few = [who for who, mine in rows.items() if len(mine) < least]
    if not few:
        return rows
    shown = ", ".join(repr(who) for who in few[:3]) + (", ..." if len(few) > 3 else "")
    require(
        small in ("merge", "drop"), f"party {shown}", f"{len(rows[few[0]])} samples",
        f"of at least {least} samples to set some aside",
        'Set small="merge" to join such parties, small="drop" to leave them out, or give their '
        "test samples yourself.",
    )  # fmt: skip
    large = {who: mine for who, mine in rows.items() if len(mine) >= least}
    if small == "merge":
        large = _merged(large, {who: rows[who] for who in few}, least)
    require(bool(large), "the federation", "no party", f"at least one party of {least} samples")
    return large


def _merged(large: dict[str, Host], few: dict[str, Host], least: int) -> dict[str, Host]:
    """Small parties joined until they are large enough; what is left over joins the smallest."""
    waiting: list[str] = []
    for who in few:
        waiting.append(who)
        together = np.concatenate([few[w] for w in waiting])
        if len(together) >= least:
            _require_free("+".join(waiting), large, few)
            large["+".join(waiting)] = together
            waiting = []
    if waiting and large:
        host = min(large, key=lambda who: len(large[who]))
        together = np.concatenate([large.pop(host), *(few[w] for w in waiting)])
        _require_free("+".join([host, *waiting]), large, few)
        large["+".join([host, *waiting])] = together
    return large


def _require_free(name: str, large: Mapping[str, Host], few: Mapping[str, Host]) -> None:
    taken = name in large or ("+" in name and name in few)
    require(not taken, "party", repr(name), "another name: small parties joined would have it, too")
