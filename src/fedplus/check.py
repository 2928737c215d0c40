"""Checks of settings and inputs, with one-line error messages.

A message names the setting, what is allowed, what was got, and what to do.
"""

import difflib
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from fedplus._types import Array

T = TypeVar("T")


MAX_SHOWN = 400
"""The largest number of characters of a value that a message shows."""


class SettingError(ValueError):
    """A setting or an input that cannot be used."""


def require(ok: bool, name: str, got: object, allowed: str, advice: str = "") -> None:
    """Raise a ``SettingError`` unless ``ok``.

    Args:
        ok: The condition.
        name: The name of the setting or input.
        got: Its value.
        allowed: The values that are allowed, as a phrase after "must be".
        advice: Whole sentences that follow the message.

    >>> require(2 <= 1, "LocalSolve.lam", 2, "in [0, 1]", "Fed+ takes 0, FedAvg 1.")
    Traceback (most recent call last):
    fedplus.check.SettingError: LocalSolve.lam must be in [0, 1], got 2. Fed+ takes 0, FedAvg 1.
    """
    if not ok:
        shown = " ".join(str(got).split())  # NumPy prints an array on several lines.
        shown = shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]}…"
        raise SettingError(f"{name} must be {allowed}, got {shown}. {advice}".rstrip())


def lookup(name: str, among: Mapping[str, T], kind: str) -> T:
    """Return ``among[name]``; the error message for an unknown name suggests a similar one.

    Args:
        name: A name, as a user typed it.
        among: The known names and what they stand for.
        kind: What the names are names of, e.g. "method".

    >>> lookup("appel", {"apple": 1, "pear": 2}, "fruit")
    Traceback (most recent call last):
    fedplus.check.SettingError: fruit must be one that fedplus knows, got 'appel'. Did you mean apple?
    """
    if name in among:
        return among[name]
    hint = suggest(str(name), among) or f"Known: {', '.join(among)}."
    raise SettingError(f"{kind} must be one that fedplus knows, got {name!r}. {hint}")


def suggest(name: str, among: Iterable[str]) -> str:
    """Return a sentence that suggests a similar name, or "" if no name is similar.

    Names are compared without case, spaces, ``-`` and ``_``, and with "plus" read as "+". The name
    itself is never suggested.
    """
    by_form = {_normal_form(other): other for other in among if other != name}
    form = _normal_form(name)
    similar = [form] if form in by_form else difflib.get_close_matches(form, by_form, n=1)
    return f"Did you mean {by_form[similar[0]]}?" if similar else ""


def _normal_form(name: str) -> str:
    return re.sub(r"[\s_-]", "", name.lower()).replace("plus", "+")


def require_integer(name: str, value: Any, least: int = 1, kinds: Any = (int, np.integer)) -> None:
    """Require an integer ``value`` ≥ ``least`` whose type is one of ``kinds``."""
    ok = isinstance(value, kinds) and not isinstance(value, bool) and value >= least
    require(bool(ok), name, repr(value), f"a whole number ≥ {least}")


def require_bool(name: str, value: Any) -> None:
    """Require True or False; a text such as "False", which Python takes for true, is rejected."""
    require(isinstance(value, bool), name, repr(value), "true or false")


NEVER_TRACED = frozenset({type(None), bool, int, float, str, np.ndarray})
"""Types whose values JAX never traces."""


def is_concrete(*values: object) -> bool:
    """Return False if ``jit``, ``vmap`` or ``grad`` traces any of the values, which may be pytrees."""
    jax = sys.modules.get("jax")  # If it is not imported, nothing is traced.
    candidates = [value for value in values if type(value) not in NEVER_TRACED]
    if jax is None or not candidates:
        return True
    tracer = jax.core.Tracer
    return not any(isinstance(leaf, tracer) for leaf in jax.tree.leaves(candidates))


def require_number(
    value: Any,
    name: str,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
    below: float | None = None,
    advice: str = "",
) -> None:
    """Require a finite real number, or an array of them, within bounds. A traced value always passes.

    Args:
        value: The value; of a schedule or a setting by layer, all values that it takes are checked.
        name: The name of the setting.
        above: A bound that the value must exceed.
        least: The smallest value allowed.
        most: The largest value allowed.
        below: A bound that the value must not reach.
        advice: Whole sentences that follow the message.
    """
    if not is_concrete(value):
        return
    for sampled in getattr(value, "sampled_values", ()):
        require_number(
            sampled, name, above=above, least=least, most=most, below=below, advice=advice
        )
    if hasattr(value, "sampled_values"):
        return
    bounds = [f"> {above:g}"] if above is not None else []
    if least is not None and most is not None:
        bounds = [f"in [{least:g}, {most:g}]"]
    elif least is not None and below is not None:
        bounds = [f"in [{least:g}, {below:g})"]
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
        and (below is None or bool(np.all(number < below)))
    )
    require(ok, name, value, allowed, advice)


def require_learning_rate(value: Any, name: str, advice: str = "It is the learning rate.") -> None:
    """Require a learning rate > 0; a schedule may reach 0, and so may the rate of single layers."""
    has_several = hasattr(value, "sampled_values")
    bounds: dict[str, float] = {"least": 0} if has_several else {"above": 0}
    require_number(value, name, **bounds, advice=advice)


def require_models(w_local: Array, name: str = "w_local") -> None:
    """Require a non-empty matrix of models, one row per party."""
    require(
        w_local.ndim == 2 and w_local.shape[0] > 0 and w_local.shape[1] > 0,
        name,
        f"shape {w_local.shape}",
        "a non-empty (N, d) matrix, one raveled model per row",
        "Stack the parties' models, e.g. np.stack([ravel(p) for p in models]).",
    )


def require_shape(array: Array, name: str, shape: tuple[int, ...], advice: str = "") -> None:
    """Require an exact shape."""
    require(array.shape == shape, name, f"shape {array.shape}", f"of shape {shape}", advice)


def require_distinct(indices: np.ndarray, name: str, count: int) -> None:
    """Require distinct indices, each from 0 to ``count`` − 1."""
    values = indices.tolist()
    ok = len(set(values)) == len(values) and all(0 <= i < count for i in values)
    require(ok, name, indices, f"distinct, from 0 to {count - 1}")


def require_finite(w_local: np.ndarray, name: str = "w_local") -> None:
    """Require finite entries; the message names the first rows with NaN or Inf."""
    finite = np.isfinite(w_local)
    if not finite.all():
        rows = np.flatnonzero(~finite.all(axis=-1))
        which = ", ".join(map(str, rows[:5])) + (", …" if rows.size > 5 else "")
        raise SettingError(
            f"{name} must be finite, got NaN or Inf in {rows.size} of {w_local.shape[0]} rows "
            f"({which}). Drop those parties, or give them weight 0."
        )
