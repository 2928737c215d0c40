"""The input of a round: who takes part, on which minibatches and for how many steps."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from fedplus._types import Array, Matrix, Vector
from fedplus.check import (
    is_concrete,
    require,
    require_distinct,
    require_finite,
    require_models,
    require_shape,
)
from fedplus.local import Batch, Grad

T = TypeVar("T")
Each = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Maps a function over the cohort: ``jax.vmap``, all parties at once, or ``map_sequentially``."""

__all__ = ["Each", "Grad", "Work", "map_sequentially"]


class Work(NamedTuple):
    """The input of one round."""

    cohort: Array
    """S^t: the indices of the K active parties, each at most once."""
    batches: Batch
    """Minibatches of each active party: a pytree of arrays (K, E, ...) with E ≥ every E_k, or a
    ``jax.tree_util.Partial`` over arrays (K, ...) that makes a party's batch from the step's number."""
    steps: Array | int
    """(K,): E_k, the steps that each active party really does; or one number, known beforehand."""
    weights: Vector | None = None
    """(N,), the parties' weights in the aggregate; 0 leaves one out. None: all equal."""
    present: Array | None = None
    """(K,), whose replies arrive. An absent party keeps the model it had and does not count among the
    active ones. None: all."""
    transmit: Callable[[Matrix, Array], Matrix] | None = None
    """For faults: what the server gets of the models (rows) that these parties (indices) have. None:
    what they have."""
    key: Array | None = None
    """Random numbers of this round, for methods that toss coins; without them such methods raise."""
    held: Batch | None = None
    """A minibatch (K, B, ...) of validation samples of each active party, for methods that compare
    models on them."""

    def gather(self, rows: Matrix) -> Matrix:
        """Return the active parties' rows, (K, ...), of all parties' rows, (N, ...)."""
        if self._is_everyone(len(rows)):
            return rows
        # XLA copies whole rows; the default mode, "fill", tests each entry.
        return rows.at[self.cohort].get(mode="clip")

    def scatter(self, rows: Matrix, new: Matrix) -> Matrix:
        """Return all parties' rows with new ones for the active parties; absent parties keep theirs."""
        if self.present is not None:
            present = self.present.reshape(-1, *([1] * (new.ndim - 1)))
            new = jnp.where(present, new, self.gather(rows))
        return new if self._is_everyone(len(rows)) else rows.at[self.cohort].set(new)

    def map(self, each: Each, function: Callable[..., Any], *args: Any) -> Any:
        """Return ``function(*args_k, batches_k, steps_k)`` of each active party k, stacked.

        Args:
            each: How the function is run over the cohort.
            function: What one party does.
            args: Arrays with a row for each active party.
        """
        return run_each(each, function, *args, self.batches, self.steps)

    def _is_everyone(self, parties: int) -> bool:
        """Whether the cohort is known now (a NumPy array) and consists of all parties in order."""
        known: Any = self.cohort
        return isinstance(known, np.ndarray) and np.array_equal(known, np.arange(parties))

    def checked(self, parties: int) -> "Work":
        """Return the same work as arrays, or raise a ``SettingError`` that says what does not fit."""
        work = self._replace(
            cohort=self.cohort if isinstance(self.cohort, np.ndarray) else jnp.asarray(self.cohort),
            batches=jax.tree.map(jnp.asarray, self.batches),
            steps=self.steps if isinstance(self.steps, int) else jnp.asarray(self.steps),
            weights=None if self.weights is None else jnp.asarray(self.weights),
            present=None if self.present is None else jnp.asarray(self.present),
        )
        _require_cohort(work.cohort, parties)
        (k,) = work.cohort.shape
        most = _require_batches(work.batches, k)
        if not isinstance(work.steps, int):
            require_shape(work.steps, "work.steps", (k,), "Give E_k for each active party.")
        if is_concrete(work.steps):
            given = np.asarray(work.steps)
            ok = bool(given.min() >= 0 and (most is None or given.max() <= most))
            require(ok, "work.steps", given, f"from 0 to {most}, the steps that work.batches holds")
        if work.weights is not None:
            require_shape(
                work.weights, "work.weights", (parties,), "Give one weight a party, active or not."
            )
        if work.present is not None:
            require_shape(
                work.present, "work.present", (k,), "Say of each active party if it replies."
            )
        return work


def run_each(each: Each, function: Callable[..., Any], *args: Any) -> Any:
    """``each(function)(*args)``, where a plain number among ``args`` is the same for every party."""

    def of_arrays(*arrays: Any) -> Any:
        given = iter(arrays)
        return function(*(arg if isinstance(arg, int) else next(given) for arg in args))

    return each(of_arrays)(*(arg for arg in args if not isinstance(arg, int)))


def finite_or(new: T, old: T) -> tuple[T, Array]:
    """Return ``new`` if all of it is finite, else ``old``; and whether it was not finite."""
    finite = jnp.isfinite(sum(jnp.sum(leaf) for leaf in jax.tree.leaves(new)))
    kept: T = jax.tree.map(lambda a, b: jnp.where(finite, a, b), new, old)
    return kept, ~finite


def map_sequentially(function: Callable[..., Any]) -> Callable[..., Any]:
    """Like ``jax.vmap``, one party after the other: each does only its own E_k steps."""
    return lambda *args: jax.lax.map(lambda one: function(*one), args)


def _require_cohort(cohort: Array, parties: int) -> None:
    require(
        cohort.ndim == 1 and jnp.issubdtype(cohort.dtype, jnp.integer), "work.cohort",
        f"{cohort.dtype} of shape {cohort.shape}", "a vector of indices",
    )  # fmt: skip
    (k,) = cohort.shape
    require(
        1 <= k <= parties, "work.cohort", f"{k} parties", f"1 to {parties} of the {parties} parties"
    )
    if is_concrete(cohort):
        require_distinct(np.asarray(cohort), "work.cohort", parties)


def _require_batches(batches: Batch, k: int) -> int | None:
    """Return the number of steps that there are batches for, or None if a Partial makes them."""
    shapes = [leaf.shape for leaf in jax.tree.leaves(batches)]
    if isinstance(batches, Partial):
        ok = all(len(s) >= 1 and s[0] == k for s in shapes)
        require(ok, "work.batches", f"shapes {shapes}", f"a Partial over arrays ({k}, ...)")
        return None
    ok = bool(shapes) and all(len(s) >= 2 and s[0] == k and s[1] == shapes[0][1] for s in shapes)
    require(
        ok, "work.batches", f"shapes {shapes}", f"arrays ({k}, E, ...), all with the same E",
        "First axis: active parties; second: steps.",
    )  # fmt: skip
    return int(shapes[0][1])


def require_state(w_global: Vector, w_local: Matrix) -> int:
    """Require that W and w̃ have models of the same size, and return N."""
    require_models(w_local)
    n, d = w_local.shape
    require_shape(w_global, "state.w_global", (d,))
    return n


def first_model(w_global: Any, parties: int) -> Vector:
    """Return the model that training begins with as an array, after checks."""
    first: Vector = jnp.asarray(w_global)
    require(first.ndim == 1, "w_global", f"shape {first.shape}", "a raveled model, (d,)")
    require(parties >= 1, "parties", parties, "at least 1")
    if is_concrete(first):
        require_finite(np.asarray(first)[None], "w_global")
    return first
