"""The interface of aggregators, and the input checks that all of them share."""

from abc import ABC, abstractmethod
from functools import partial
from typing import Any, ClassVar, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from fedplus._types import Array, Matrix, Vector
from fedplus.aggregation import kernels
from fedplus.check import is_concrete, require, require_finite, require_models, require_shape


class Aggregate(NamedTuple):
    """A global model w̃ and its certificate: values that tell how exactly w̃ was computed.

    The certificate is ``iterations``, ``residual`` and ``converged``.
    """

    w: Vector
    """(d,): w̃."""
    iterations: Array
    """The number of iterations, 1 for a direct method."""
    residual: Array
    """The length ‖·‖₂ of the step that the defining iteration would take at w, in parameter units."""
    converged: Array
    """True if w is a minimiser of the aggregator's objective, up to a tolerance.

    What True proves depends on the aggregator:

    - Means and coordinatewise medians: w is exact up to rounding.
    - Geometric medians: for every finite W it is proven that w is near a minimiser, or that the
      objective at w, divided by the sum of the weights, is near its minimum. Near means at most 1e-5
      of the spread of the models, or the rounding of w if that is larger.
    - Any other ψ: nothing is proven, but the last step of the iteration was as short as rounding
      allows (or, in ``Recursion``, as its tolerance).
    - Aggregators that do not minimise, such as clipping and Krum: it is always True.
    """


class ChangedRows(NamedTuple):
    """The rows of W that changed since the last round."""

    rows: Any
    """(K,): the distinct indices of these rows."""
    before: Any
    """(K, d): their entries in the last round."""
    counted: Any = None
    """(K,): True for rows that counted in the last round. None: all did."""


def direct_aggregate(w: Any) -> Aggregate:
    """Return w with the certificate of a direct method: one iteration, residual 0, converged.

    Args:
        w: (d,), the aggregate, whose dtype is that of the residual.

    >>> float(direct_aggregate(np.ones(2)).residual)
    0.0
    """
    certificate: Any = (np.int32(1), np.zeros((), w.dtype)[()], np.bool_(True))
    return Aggregate(w, *certificate)


class AbstractAggregator(ABC):
    """An aggregator 𝒜, which maps the models of N parties, one per row, to the global model.

    Subclasses implement ``solve``. They may also implement ``init`` and ``solve_incremental`` to save
    time where few models change from round to round: ``update`` is ``solve`` with a memory of the last
    round. The memory is explicit state, as in Optax.

    >>> from fedplus.aggregation import CoordinateMedian
    >>> CoordinateMedian()([[1.0, 0.0], [2.0, 0.0], [900.0, 1.0]]).w.tolist()
    [2.0, 0.0]
    """

    propagates_nan: ClassVar[bool] = False
    """True if a non-finite entry of W always makes w̃ non-finite, so that checking w̃ is enough."""

    @abstractmethod
    def solve(self, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
        """Return the aggregate of checked input. A pure function, for ``jit`` and ``vmap``.

        Args:
            w_local: (N, d), as ``kernels.as_input`` returns it.
            weights: (N,), ≥ 0; a row of weight 0 holds a copy of another model. None: all are equal.
            start: (d,), a point near the result, or None.
        """

    def init(self, w: Vector, parties: int, changed: int) -> Any:
        """Return the initial memory for ``update``, where all N parties have the model w.

        Args:
            w: (d,), the model.
            parties: N.
            changed: The number of models that change in a round.

        Returns:
            A pytree of arrays, or ``()`` if a memory does not save time.
        """
        return ()

    def solve_incremental(
        self,
        w_local: Matrix,
        counted: Array | None,
        start: Vector,
        memory: Any,
        changed: ChangedRows,
    ) -> tuple[Aggregate, Any]:
        """Return the results of ``update`` for equal weights and a memory other than ``()``. Pure."""
        raise NotImplementedError

    @final
    def update(
        self,
        w_local: Matrix,
        weights: Vector | None,
        start: Vector,
        memory: Any,
        changed: ChangedRows,
        counted: Array | None = None,
    ) -> tuple[Aggregate, Any]:
        """Return the aggregate of a W in which only some rows changed since the last call.

        Args:
            w_local: (N, d).
            weights: (N,), ≥ 0. None: all are equal. With weights, the memory is not used and is
                initialised again.
            start: (d,), the last result.
            memory: The memory that ``init`` or the last ``update`` returned.
            changed: The rows that changed, and their last entries.
            counted: (N,), True for rows that count; a row that counts once counts from then on. It
                needs a memory and equal weights. None: all rows count.

        Returns:
            The aggregate, and the memory for the next call.
        """
        if memory == ():
            return self.solve(w_local, weights, start), memory
        if weights is not None:
            fresh = self.init(start, len(w_local), len(changed.rows))
            return self.solve(w_local, weights, start), fresh
        return self.solve_incremental(w_local, counted, start, memory, changed)

    @final
    def __call__(
        self,
        w_local: npt.ArrayLike,
        weights: npt.ArrayLike | None = None,
        start: npt.ArrayLike | None = None,
    ) -> Aggregate:
        """Return the aggregate of the models, after checking the input.

        Args:
            w_local: (N, d), one model per row.
            weights: (N,), not negative. None: all are equal. A party of weight 0 is left out, even if
                its row is not finite.
            start: (d,), a point near the result, such as the last round's w̃. It saves passes over W and
                does not change the result, except for clipping, which clips distances from it, and for
                ``Recursion`` where several points minimise.

        Returns:
            The aggregate; ``w`` is a JAX array if ``w_local`` is one, else a NumPy array.

        Raises:
            SettingError: Shapes do not match, there are no parties, or entries are not finite. Under
                ``jit`` entries cannot be checked: give such a party weight 0.
        """
        is_known = is_concrete(weights, start)
        models = kernels.as_input(w_local if is_known else jnp.asarray(w_local))
        require_models(models)
        n, d = models.shape
        a = None if weights is None else _convert(weights, models)
        if a is not None:
            require_shape(a, "weights", (n,), "Give one weight per party.")
            if is_concrete(a):
                values = np.asarray(a)
                ok = np.isfinite(values).all() and values.min() >= 0 and values.max() > 0
                require(bool(ok), "weights", values, "finite, not negative and not all 0")
        first = None if start is None else _convert(start, models)
        if first is not None:
            require_shape(first, "start", (d,), "It is a model, such as the last round's w̃.")
            if is_concrete(first):
                require(bool(np.isfinite(first).all()), "start", "NaN or Inf", "finite")
        if not is_concrete(self, models, a, first):
            return _solve(self, models, a, first)[0]
        if isinstance(models, np.ndarray):
            result, is_finite = _solve_numpy(self, models, a, first)
        else:
            result, is_finite = _solve_compiled(self, models, a, first, kernels.available())
        if isinstance(result.w, jax.core.Tracer):
            return result
        if not bool(is_finite):
            counted = slice(None) if a is None else np.asarray(a) > 0
            require_finite(np.asarray(models)[counted])
        copies: Any = (np.array(x)[()] for x in result)  # The caller may write to them.
        return result if isinstance(w_local, jax.Array) else Aggregate(*copies)


def _convert(values: Any, models: Any) -> Any:
    """Return the values as an array of the same library and dtype as the models."""
    if isinstance(models, np.ndarray):
        with np.errstate(over="ignore"):  # Values that overflow are rejected as not finite.
            return np.asarray(values).astype(models.dtype)
    return jnp.asarray(values, models.dtype)


def _solve_numpy(
    aggregator: AbstractAggregator, w_local: Any, weights: Any, start: Any
) -> tuple[Aggregate, Any]:
    """Return the aggregate, and whether all models of positive weight are finite."""
    if weights is not None and not weights.all():
        w_local, weights = w_local[weights > 0], weights[weights > 0]
    with np.errstate(all="ignore"):  # The caller reports results that are not finite.
        result = aggregator.solve(w_local, weights, start)
    checked = result.w if aggregator.propagates_nan else w_local
    return result, np.isfinite(checked).all()


def _solve(
    aggregator: AbstractAggregator, w_local: Matrix, weights: Vector | None, start: Vector | None
) -> tuple[Aggregate, Array]:
    """Return the aggregate, and whether all models of positive weight are finite."""
    if weights is not None:
        # Models of weight 0 may not be finite. A copy of the heaviest model replaces them.
        w_local = jnp.where(weights[:, None] > 0, w_local, w_local[jnp.argmax(weights)])
    result = aggregator.solve(jnp.asarray(w_local), weights, start)
    if aggregator.propagates_nan:
        return result, jnp.isfinite(result.w).all()
    zero_or_nan = kernels.weighted_sum(w_local, jnp.zeros_like(w_local[:, 0]))
    return result, jnp.isfinite(zero_or_nan).all()


@partial(jax.jit, static_argnums=4)
def _solve_compiled(
    aggregator: AbstractAggregator, w_local: Any, weights: Any, start: Any, with_kernels: bool
) -> tuple[Aggregate, Array]:
    """Compile ``_solve``, once with compiled kernels and once without."""
    return _solve(aggregator, w_local, weights, start)
