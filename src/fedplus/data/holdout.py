"""Divides each party's samples into training, test and validation samples; handles small parties."""

import zlib
from collections.abc import Mapping
from typing import Literal, TypedDict

import numpy as np

from fedplus._types import NumpyArray
from fedplus.check import require, require_integer, require_number


class Splitting(TypedDict, total=False):
    """Settings that say which samples are set aside for evaluation; every constructor takes them.

    The test samples depend only on the seed and the party, not on ``validation_share``. So settings
    that were chosen on validation samples have never seen a test sample.
    """

    test_share: float
    """Share of each party's samples for testing, at least one, stratified by class; 0.2 by default."""
    validation_share: float
    """Share of the remaining samples to choose settings on; 0 by default, which sets none aside."""
    small: Literal["refuse", "merge", "drop"]
    """What to do with parties that have fewer than ``least`` samples; "refuse" by default, an error."""
    least: int
    """Smallest number of samples of a party; 3 by default, one for each of the three splits."""
    seed: int
    """Seed of the random choice; 0 by default."""
    name: str
    """Name of the federation, for reports."""


SplitRows = tuple[dict[str, NumpyArray], dict[str, NumpyArray], dict[str, NumpyArray] | None]
"""Each party's rows for training, for testing and, if any are set aside, for validation."""
SMALL_PARTY_POLICIES = ("refuse", "merge", "drop")
MIN_SAMPLES = 3
PARTITION, TEST, VALIDATION = 1, 2, 3
"""Identifiers of random streams: each use of random numbers has its own."""


def require_splitting(split: Splitting) -> None:
    """Raise ``SettingError`` unless all settings exist and are within their bounds."""
    known = tuple(Splitting.__annotations__)
    for name in split:
        require(name in known, "setting", name, f"one of: {', '.join(known)}")
    for name, least in (("test_share", None), ("validation_share", 0)):
        if name in split:
            value = split.get(name)
            require_number(value, name, above=0 if least is None else None, least=least)
            require(
                float(str(value)) < 1, name, value, "below 1",
                "To choose these samples yourself, call Federation.from_arrays(..., "
                f"{name.removesuffix('_share')}=...).",
            )  # fmt: skip
    require_integer("seed", split.get("seed", 0), 0)
    require_integer("least", split.get("least", MIN_SAMPLES), 0)
    small, policies = split.get("small", "refuse"), SMALL_PARTY_POLICIES
    require(small in policies, "small", repr(small), f"one of {', '.join(policies)}")


def split_rows(y: NumpyArray, rows: Mapping[str, NumpyArray], split: Splitting) -> SplitRows:
    """Divide each party's rows into training, test and (if set) validation rows.

    Args:
        y: Labels of all rows, for stratification.
        rows: Each party's row numbers, by its name.
        split: The settings.
    """
    test_share, validation_share = split.get("test_share", 0.2), split.get("validation_share", 0.0)
    least = max(split.get("least", MIN_SAMPLES), MIN_SAMPLES)
    rows = _handle_small_parties(rows, least, split.get("small", "refuse"))
    seed = split.get("seed", 0)
    train, test = hold_out_rows(y, rows, test_share, (seed, TEST), leave=2)
    if not validation_share:
        return train, test, None
    train, validation = hold_out_rows(y, train, validation_share, (seed, VALIDATION), leave=1)
    return train, test, validation


def hold_out_rows(
    y: NumpyArray, rows: Mapping[str, NumpyArray], share: float, seed: tuple[int, int], leave: int
) -> tuple[dict[str, NumpyArray], dict[str, NumpyArray]]:
    """Set a share of each party's rows aside.

    The choice depends on the seed and the party's name, but not on the other parties.

    Args:
        y: Labels of all rows.
        rows: Each party's row numbers, by its name.
        share: Share to set aside.
        seed: Seed and random stream.
        leave: Smallest number of rows that a party keeps.

    Returns:
        (rows kept, rows set aside), by party.
    """
    kept, set_aside = {}, {}
    for name, party_rows in rows.items():
        rng = np.random.default_rng((*seed, zlib.crc32(name.encode())))
        kept[name], set_aside[name] = stratified_sample(party_rows, y, share, rng, leave)
    return kept, set_aside


def stratified_sample(
    rows: NumpyArray, y: NumpyArray, share: float, rng: np.random.Generator, leave: int = 1
) -> tuple[NumpyArray, NumpyArray]:
    """Set a random share of the rows aside, stratified by class to within one sample.

    At least one row is set aside and at least ``leave`` are kept. Both parts keep the rows' order.

    Returns:
        (rows kept, rows set aside).
    """
    n = len(rows)
    count = min(max(1, round(share * n)), n - leave)
    order = rng.permutation(n)
    if y.ndim == 1 and y.dtype.kind in "biu":
        order = order[np.argsort(y[rows[order]], kind="stable")]
    chosen = np.floor((np.arange(count) + rng.random()) * n / count).astype(np.intp)
    is_set_aside = np.zeros(n, dtype=bool)
    is_set_aside[order[chosen]] = True
    return rows[~is_set_aside], rows[is_set_aside]


def _handle_small_parties(
    rows: Mapping[str, NumpyArray], least: int, policy: str
) -> Mapping[str, NumpyArray]:
    small = [name for name, party_rows in rows.items() if len(party_rows) < least]
    if not small:
        return rows
    shown = ", ".join(repr(name) for name in small[:3]) + (", ..." if len(small) > 3 else "")
    require(
        policy in ("merge", "drop"), f"samples of party {shown}", len(rows[small[0]]),
        f"at least {least} so that some can be set aside",
        'Set small to "merge" (in the shell: --set small=merge) to join such parties, or to "drop" to '
        "leave them out. In Python you can also pass their test samples yourself.",
    )  # fmt: skip
    large = {name: party_rows for name, party_rows in rows.items() if len(party_rows) >= least}
    if policy == "merge":
        large = _merge_small_parties(large, {name: rows[name] for name in small}, least)
    require(bool(large), "the federation", "no party", f"at least one party of {least} samples")
    return large


def _merge_small_parties(
    large: dict[str, NumpyArray], small: dict[str, NumpyArray], least: int
) -> dict[str, NumpyArray]:
    """Join small parties until they are large enough; the last ones join the smallest party."""
    pending: list[str] = []
    for name in small:
        pending.append(name)
        joined = np.concatenate([small[p] for p in pending])
        if len(joined) >= least:
            _require_unused_name("+".join(pending), large, small)
            large["+".join(pending)] = joined
            pending = []
    if pending and large:
        smallest = min(large, key=lambda name: len(large[name]))
        joined = np.concatenate([large.pop(smallest), *(small[p] for p in pending)])
        _require_unused_name("+".join([smallest, *pending]), large, small)
        large["+".join([smallest, *pending])] = joined
    return large


def _require_unused_name(
    name: str, large: Mapping[str, NumpyArray], small: Mapping[str, NumpyArray]
) -> None:
    is_used = name in large or ("+" in name and name in small)
    require(
        not is_used, "the name of merged small parties", repr(name), "new",
        'Merging them would create a second party of that name. Rename one, or set small to "drop".',
    )  # fmt: skip
