"""The interface of aggregators, and the checks of a call on the models of all parties."""

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
    """A global model w̃ and the certificate of how it was found."""

    w: Vector
    iterations: Array
    residual: Array
    """‖·‖₂ of how far the defining iteration would still move w, in parameter units."""
    converged: Array
    """Whether w is a minimiser to 1e-5 of the spread of the models or to the rounding of w.

    Means and coordinatewise medians are exact to rounding. For geometric medians it is proven, for
    every finite W, that w is that near the minimiser, or the objective divided by the sum of the
    weights that near its minimum. For any other ψ the last step was as short as rounding allows.
    Aggregators that do not minimise, such as clipping and Krum, are always done.
    """


class ChangedRows(NamedTuple):
    """Rows of W that differ from the last round."""

    rows: Any
    """(K,): which rows, each at most once."""
    before: Any
    """(K, d): what they were."""


def exact_aggregate(w: Any) -> Aggregate:
    """Return an aggregate that is right as it is, found in one iteration."""
    numbers: Any = (np.int32(1), np.zeros((), w.dtype)[()], np.bool_(True))
    return Aggregate(w, *numbers)


class AbstractAggregator(ABC):
    """𝒜: from the models of N parties, one per row, to the global model.

    Subclasses implement ``solve``. Where few models change from round to round, ``init`` and
    ``solve_incremental`` can save time: ``update`` is ``solve`` with a memory of the last round, as in
    Optax.

    >>> from fedplus.aggregation import CoordinateMedian
    >>> CoordinateMedian()([[1.0, 0.0], [2.0, 0.0], [900.0, 1.0]]).w.tolist()
    [2.0, 0.0]
    """

    propagates_nan: ClassVar[bool] = False
    """Whether a non-finite entry of W always makes w̃ non-finite, so that W need not be checked."""

    @abstractmethod
    def solve(self, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
        """Aggregate checked input; pure, for ``jit`` and ``vmap``.

        Args:
            w_local: (N, d), as ``kernels.as_input`` returns it.
            weights: (N,), positive; None: all equal.
            start: (d,), a point near the result, or None.
        """

    def init(self, w: Vector, parties: int, changed: int) -> Any:
        """Initial memory for ``update``, if all of N parties have the model w.

        Args:
            w: The model.
            parties: N.
            changed: How many models change in a round.

        Returns:
            A pytree of arrays, or ``()`` if a memory does not help.
        """
        return ()

    def solve_incremental(
        self, w_local: Matrix, start: Vector, memory: Any, changed: ChangedRows
    ) -> tuple[Aggregate, Any]:
        """Do what ``update`` says, with a memory that ``init`` made and without weights. Pure."""
        raise NotImplementedError

    @final
    def update(
        self,
        w_local: Matrix,
        weights: Vector | None,
        start: Vector,
        memory: Any,
        changed: ChangedRows,
    ) -> tuple[Aggregate, Any]:
        """Aggregate a W of which only some rows changed since the last ``update`` or ``init``.

        Args:
            w_local: (N, d).
            weights: (N,), positive; None: all equal. With weights the memory is not used and begins
                anew.
            start: (d,), the last result.
            memory: What ``init`` or the last ``update`` returned.
            changed: The rows that changed, and what they were.

        Returns:
            The aggregate, and the memory for the next call.
        """
        if memory == ():
            return self.solve(w_local, weights, start), memory
        if weights is not None:
            fresh = self.init(start, len(w_local), len(changed.rows))
            return self.solve(w_local, weights, start), fresh
        return self.solve_incremental(w_local, start, memory, changed)

    @final
    def __call__(
        self,
        w_local: npt.ArrayLike,
        weights: npt.ArrayLike | None = None,
        start: npt.ArrayLike | None = None,
    ) -> Aggregate:
        """Aggregate.

        Args:
            w_local: (N, d), one model per row.
            weights: (N,), not negative. A party of weight 0 is left out, whatever its row contains.
            start: (d,), a point near the result, such as the last round's w̃. It saves passes over W and
                does not change the result, except for clipping, which clips distances from it, and for
                ``Recursion`` where several points minimise.

        Returns:
            The aggregate; ``w`` is a JAX array if ``w_local`` is one, else a NumPy array.

        Raises:
            SettingError: Shapes do not fit, there are no parties, or entries are not finite. Under
                ``jit`` entries cannot be checked: give such a party weight 0.
        """
        known = is_concrete(weights, start)
        models = kernels.as_input(w_local if known else jnp.asarray(w_local))
        require_models(models)
        n, d = models.shape
        each = None if weights is None else _as(models, weights)
        if each is not None:
            require_shape(each, "weights", (n,), "Give one weight per party.")
            if is_concrete(each):
                given = np.asarray(each)
                ok = np.isfinite(given).all() and given.min() >= 0 and given.max() > 0
                require(bool(ok), "weights", given, "finite, not negative and not all 0")
        begin = None if start is None else _as(models, start)
        if begin is not None:
            require_shape(begin, "start", (d,), "It is a model, such as the last round's w̃.")
            if is_concrete(begin):
                require(bool(np.isfinite(begin).all()), "start", "NaN or Inf", "finite")
        if not is_concrete(self, models, each, begin):
            return _solve(self, models, each, begin)[0]
        if isinstance(models, np.ndarray):
            found, finite = _solve_numpy(self, models, each, begin)
        else:
            found, finite = _compiled(self, models, each, begin, kernels.available())
        if isinstance(found.w, jax.core.Tracer):
            return found
        if not bool(finite):
            counts = slice(None) if each is None else np.asarray(each) > 0
            require_finite(np.asarray(models)[counts])
        copies: Any = (np.array(x)[()] for x in found)  # The caller may write to them.
        return found if isinstance(w_local, jax.Array) else Aggregate(*copies)


def _as(models: Any, given: Any) -> Any:
    """Return an array of the kind and type of the models."""
    if isinstance(models, np.ndarray):
        with np.errstate(over="ignore"):  # What is too large is not finite.
            return np.asarray(given).astype(models.dtype)
    return jnp.asarray(given, models.dtype)


def _solve_numpy(
    aggregator: AbstractAggregator, w_local: Any, weights: Any, start: Any
) -> tuple[Aggregate, Any]:
    if weights is not None and not weights.all():
        w_local, weights = w_local[weights > 0], weights[weights > 0]
    with np.errstate(all="ignore"):  # Non-finite results are reported by the caller.
        found = aggregator.solve(w_local, weights, start)
    shown = found.w if aggregator.propagates_nan else w_local
    return found, np.isfinite(shown).all()


def _solve(
    aggregator: AbstractAggregator, w_local: Matrix, weights: Vector | None, start: Vector | None
) -> tuple[Aggregate, Array]:
    """Return the aggregate, and whether all models that count are finite."""
    if weights is not None:
        # The heaviest party stands in for those that do not count, so that no pass need ask.
        w_local = jnp.where(weights[:, None] > 0, w_local, w_local[jnp.argmax(weights)])
    result = aggregator.solve(jnp.asarray(w_local), weights, start)
    if aggregator.propagates_nan:
        return result, jnp.isfinite(result.w).all()
    seen = kernels.weighted_sum(w_local, jnp.zeros_like(w_local[:, 0]))
    return result, jnp.isfinite(seen).all()


@partial(jax.jit, static_argnums=4)
def _compiled(
    aggregator: AbstractAggregator, w_local: Any, weights: Any, start: Any, with_kernels: bool
) -> tuple[Aggregate, Array]:
    """Compile ``_solve``; there is one program with kernels and one without."""
    return _solve(aggregator, w_local, weights, start)
