"""Bad input, said in one line: what it is, what is allowed, what was got, what to do."""

import difflib
import sys
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from fedplus._types import Array

T = TypeVar("T")


LONGEST = 400
"""Characters of a value that a message shows."""


class SettingError(ValueError):
    """A setting or an input that cannot be used, and what to do about it."""


def require(ok: bool, name: str, got: object, allowed: str, advice: str = "") -> None:
    """Raise ``SettingError`` unless ``ok``.

    >>> require(2 <= 1, "LocalSolve.lam", 2, "in [0, 1]", "Fed+ takes 0, FedAvg 1.")
    Traceback (most recent call last):
    fedplus.check.SettingError: LocalSolve.lam must be in [0, 1], got 2. Fed+ takes 0, FedAvg 1.
    """
    if not ok:
        shown = " ".join(str(got).split())  # One line, whatever NumPy makes of an array.
        shown = shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}…"
        raise SettingError(f"{name} must be {allowed}, got {shown}. {advice}".rstrip())


def lookup(name: str, among: Mapping[str, T], what: str) -> T:
    """What has that name; a wrong one gets a suggestion."""
    if name in among:
        return among[name]
    hint = suggestion(str(name), among) or f"Known: {', '.join(among)}."
    raise SettingError(f"{what} must be one that fedplus knows, got {name!r}. {hint}")


def suggestion(name: str, among: Iterable[str]) -> str:
    """A suggestion for a name that is not there; nothing where none is near."""
    near = difflib.get_close_matches(name, list(among), n=1)
    return f"Did you mean {near[0]}?" if near else ""


def require_integer(name: str, value: Any, least: int = 1, kinds: Any = (int, np.integer)) -> None:
    """Require a whole number of these kinds."""
    ok = isinstance(value, kinds) and not isinstance(value, bool) and value >= least
    require(bool(ok), name, repr(value), f"a whole number ≥ {least}")


NEVER_TRACED = frozenset({type(None), bool, int, float, str, np.ndarray})


def is_concrete(*values: object) -> bool:
    """Whether all values are known now, rather than traced by ``jit``, ``vmap`` or ``grad``."""
    jax = sys.modules.get("jax")  # Without it nothing can be traced.
    unsure = [value for value in values if type(value) not in NEVER_TRACED]
    if jax is None or not unsure:
        return True
    tracer = jax.core.Tracer
    return not any(isinstance(leaf, tracer) for leaf in jax.tree.leaves(unsure))


def require_number(
    value: Any, name: str, *, above: float | None = None, least: float | None = None,
    most: float | None = None, advice: str = "",
) -> None:  # fmt: skip
    """Require a finite real number within bounds; a traced one passes (it cannot be looked at)."""
    if not is_concrete(value):
        return
    bounds = [f"> {above:g}"] if above is not None else []
    if least is not None and most is not None:
        bounds = [f"in [{least:g}, {most:g}]"]
    elif least is not None:
        bounds = [f"≥ {least:g}"]
    allowed = " ".join(["a finite number", *bounds])
    number = np.asarray(value)
    is_number = np.issubdtype(number.dtype, np.number) and not np.iscomplexobj(number)
    require(is_number, name, repr(value), allowed, advice)
    ok = (
        bool(np.all(np.isfinite(number)))
        and (above is None or bool(np.all(number > above)))
        and (least is None or bool(np.all(number >= least)))
        and (most is None or bool(np.all(number <= most)))
    )
    require(ok, name, value, allowed, advice)


def require_models(w_local: Array, name: str = "w_local") -> None:
    """Require a non-empty matrix of models, a row a party."""
    require(
        w_local.ndim == 2 and w_local.shape[0] > 0 and w_local.shape[1] > 0,
        name,
        f"shape {w_local.shape}",
        "a non-empty (N, d) matrix, one raveled model a row",
        "Stack the parties' models, e.g. np.stack([ravel(p) for p in models]).",
    )


def require_shape(array: Array, name: str, shape: tuple[int, ...], advice: str = "") -> None:
    """Require an exact shape."""
    require(array.shape == shape, name, f"shape {array.shape}", f"of shape {shape}", advice)


def require_distinct(indices: np.ndarray, name: str, count: int) -> None:
    """Require indices of so many things, each at most once."""
    all_of_them = indices.tolist()
    ok = len(set(all_of_them)) == len(all_of_them) and all(0 <= i < count for i in all_of_them)
    require(ok, name, indices, f"distinct, from 0 to {count - 1}")


def require_finite(w_local: np.ndarray, name: str = "w_local") -> None:
    """Require finite entries, and name the first parties that break it."""
    finite = np.isfinite(w_local)
    if not finite.all():
        rows = np.flatnonzero(~finite.all(axis=-1))
        which = ", ".join(map(str, rows[:5])) + (", …" if rows.size > 5 else "")
        raise SettingError(
            f"{name} must be finite, got NaN or Inf in {rows.size} of {w_local.shape[0]} rows "
            f"({which}). Drop those parties, or give them weight 0."
        )
