"""What an aggregator is: all parties' models in, one model out, and how well it went."""

from abc import ABC, abstractmethod
from functools import cache, cached_property
from typing import Any, ClassVar, NamedTuple, cast, final

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from fedplus._check import (
    is_concrete,
    require,
    require_finite,
    require_models,
    require_shape,
)
from fedplus._types import Array, Host, Matrix, Vector
from fedplus.aggregation import native
from fedplus.aggregation.rows import weighted_mean

LEAST = 2**14
"""Entries of W from which on compiled loops are worth importing what compiles them."""


class Aggregate(NamedTuple):
    """A global model w̃ and the certificate of how it was found."""

    w: Vector
    iterations: Array
    residual: Array
    """‖·‖₂ of how far the defining iteration would still move w, in parameter units."""
    converged: Array


class Change(NamedTuple):
    """Rows of W that are others than before; JAX's arrays, or NumPy's."""

    rows: Any
    """(K,): which, each at most once."""
    before: Any
    """(K, d): what they were."""


def certified(w: Vector | Host, iterations: int, residual: float, converged: bool) -> Aggregate:
    """Of numbers that are known now."""
    numbers: Any = (np.int32(iterations), w.dtype.type(residual), np.bool_(converged))
    return Aggregate(cast(Vector, w), *numbers)


def exact(w: Vector | Host) -> Aggregate:
    """A model that is right as it is, found in one turn; NumPy's numbers, known before any model is."""
    return certified(w, 1, 0.0, True)


class AbstractAggregator(ABC):
    """𝒜: call it on the models of N parties, a row each.

    >>> from fedplus.aggregation import CoordinateMedian
    >>> CoordinateMedian()([[1.0, 0.0], [2.0, 0.0], [900.0, 1.0]]).w.tolist()
    [2.0, 0.0]
    """

    shows_all: ClassVar[bool] = False
    """Whether w̃ is never finite if an entry of W is not: then nobody need look at W itself."""

    @abstractmethod
    def solve(self, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
        """Aggregate checked input; pure, for ``jit`` and ``vmap``. ``weights`` None: all equal."""

    def at_hand(self, w_local: Host, weights: Host | None, start: Host | None) -> Aggregate | None:
        """The same by compiled loops alone, for a W in a CPU's memory; None: not by these."""
        return None

    def memory(self, w: Vector, parties: int) -> Any:
        """What ``follow`` begins with, if all parties have the model w; (): it saves nothing."""
        return ()

    def follow(
        self, w_local: Matrix, start: Vector, memory: Any, change: Change
    ) -> tuple[Aggregate, Any]:
        """Aggregate a finite W, all weights equal, of which few rows changed since it gave ``start``.

        Pure, as ``solve`` is. Also returns what the next call wants to remember. Nobody else may have
        changed W in between. Only for those that have a ``memory``.
        """
        raise NotImplementedError(f"{type(self).__name__} remembers nothing.")

    def follow_at_hand(
        self, w_local: Host, start: Host, memory: Any, change: Change
    ) -> tuple[Aggregate, Any] | None:
        """The same by compiled loops alone, which write to a memory of NumPy's; None: not by these."""
        return None

    @cached_property
    def _is_concrete(self) -> bool:
        """Whether its numbers are known now."""
        return is_concrete(self)

    @final
    def __call__(
        self,
        w_local: npt.ArrayLike,
        weights: npt.ArrayLike | None = None,
        start: npt.ArrayLike | None = None,
    ) -> Aggregate:
        """Aggregate.

        Args:
            w_local: (N, d), a model a row. If it is JAX's so is w̃, else NumPy's.
            weights: (N,), not negative. A party of weight 0 is left out, whatever its row holds.
            start: (d,), a point near the result, such as last round's w̃: saves passes over W and
                changes nothing else, except for clipping, which clips what parties are away from it.

        Raises:
            SettingError: On shapes that do not fit, no parties, or entries that are not finite.
                Under ``jit`` entries cannot be looked at: give such a party weight 0.
        """
        in_memory = native.in_memory(w_local, LEAST)
        models: Any = _as_float(w_local) if in_memory is None else in_memory
        require_models(models)
        n, d = models.shape
        each = None if weights is None else _as(models.dtype, weights)
        if each is not None:
            require_shape(each, "weights", (n,), "Give one weight a party.")
            if is_concrete(each):
                given = np.asarray(each)
                ok = np.isfinite(given).all() and given.min() >= 0 and given.max() > 0
                require(bool(ok), "weights", given, "finite, not negative and not all 0")
        begin = None if start is None else _as(models.dtype, start)
        if begin is not None:
            require_shape(begin, "start", (d,), "It is a model, such as last round's w̃.")
        concrete = self._is_concrete and is_concrete(models, each, begin)
        if in_memory is not None:
            found = _at_hand(self, in_memory, each, begin) if concrete else None
            if found is not None:
                return of_the_kind(w_local, found)
            models = _as_float(w_local)
        if not concrete:
            return _solve(self, models, each, begin)[0]
        w, certificate, finite = _compiled(self, models, each, begin)
        found = exact(w) if certificate is None else Aggregate(w, *certificate)
        if isinstance(w, jax.core.Tracer):
            return found
        if not (_is_finite(w) if finite is None else finite):
            _refuse(models, each, begin)
        return of_the_kind(w_local, found)


def of_the_kind(w_local: Any, found: Aggregate) -> Aggregate:
    """With w̃ as an array of JAX's if W is one, else as one of NumPy's, which JAX does not share."""
    if isinstance(w_local, jax.Array):
        return found._replace(w=as_array(found.w)) if isinstance(found.w, np.ndarray) else found
    if isinstance(found.w, np.ndarray):
        return found
    w, *numbers = (np.array(each) for each in found)
    copied: Any = (w, *(number[()] for number in numbers))
    return Aggregate(*copied)


def _at_hand(
    aggregator: AbstractAggregator, w_local: Host, weights: Vector | None, start: Vector | None
) -> Aggregate | None:
    """By loops alone, if there are any for this aggregator and this W."""
    each, begin = (None if given is None else np.asarray(given) for given in (weights, start))
    if each is not None and not each.all():
        w_local, each = w_local[each > 0], each[each > 0]
    if begin is not None and not _is_finite(begin):
        return None
    with np.errstate(all="ignore"):  # Sums of numbers near the largest there are.
        return aggregator.at_hand(w_local, each, begin)


def _refuse(w_local: Matrix, weights: Vector | None, start: Vector | None) -> None:
    """Say what is not finite, if anything is that counts."""
    counts = slice(None) if weights is None else np.asarray(weights) > 0
    require_finite(np.asarray(w_local)[counts])
    ok = start is None or _is_finite(start)
    require(ok, "start", "NaN or Inf", "finite")


as_array = jax.jit(lambda w: w)
"""NumPy's array as JAX's, in half of the time that ``jnp.asarray`` takes."""


def _as_float(given: Any) -> Array:
    array = given if isinstance(given, jax.Array) else jnp.asarray(given)
    return array if _is_float(array.dtype) else array.astype(float)


def _as(dtype: Any, given: Any) -> Any:
    """JAX's stays JAX's, all else becomes NumPy's: JAX takes longer."""
    if isinstance(given, jax.Array):
        return given.astype(dtype)
    with np.errstate(over="ignore"):  # What is too large is not finite.
        return np.asarray(given).astype(dtype, copy=False)


def _is_finite(w: Vector | Host) -> bool:
    return bool(np.isfinite(np.asarray(w)).all())


@cache
def _is_float(dtype: np.dtype[Any]) -> bool:
    return bool(jnp.issubdtype(dtype, jnp.floating))


def _solve(
    aggregator: AbstractAggregator, w_local: Matrix, weights: Vector | None, start: Vector | None
) -> tuple[Aggregate, Array | None]:
    if weights is not None:
        # The heaviest party stands in for those that do not count, so that no pass need ask.
        counts = weights[:, None] > 0
        w_local = jnp.where(counts, w_local, w_local[jnp.argmax(weights)])
    result = aggregator.solve(w_local, weights, start)
    if aggregator.shows_all and start is None:
        # A CPU's w̃ is at hand, and nothing has to be computed to look at it.
        return result, None if jax.default_backend() == "cpu" else jnp.isfinite(result.w).all()
    # One product tells whether all entries are finite; only if not does anyone look closer.
    seen = jnp.sum(jnp.abs(weighted_mean(w_local, jnp.ones_like(w_local[:, 0]))))
    return result, jnp.isfinite(seen if start is None else seen + jnp.sum(jnp.abs(start)))


@jax.jit
def _compiled(
    aggregator: AbstractAggregator, w_local: Matrix, weights: Vector | None, start: Vector | None
) -> tuple[Vector, tuple[Array, ...] | None, Array | None]:
    """w̃, its certificate and whether W is finite, unless these are known from w̃: each output costs."""
    with native.using(least=LEAST, threads=None):
        (w, *certificate), finite = _solve(aggregator, w_local, weights, start)
    known = isinstance(certificate[-1], np.bool_)
    return w, None if known else tuple(certificate), finite
