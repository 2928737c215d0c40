"""What a round brings to a method: who takes part, on what, for how long, and what arrives of it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from fedplus._check import (
    is_concrete,
    require,
    require_distinct,
    require_finite,
    require_models,
    require_shape,
)
from fedplus._types import Array, Matrix, Vector
from fedplus.local import Batch, Grad

Each = Callable[[Callable[..., Any]], Callable[..., Any]]
"""How one function is run over the cohort: ``jax.vmap``, all parties at once, or ``one_by_one``."""

__all__ = ["Each", "Grad", "Received", "Work", "one_by_one"]


class Work(NamedTuple):
    """What a round brings."""

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
    """Random numbers of this round, for methods that toss coins. None: they say that they need them."""
    held: Batch | None = None
    """A minibatch (K, B, ...) of validation samples of each active party, for methods that compare
    models on them."""

    def of(self, rows: Matrix) -> Matrix:
        """(K, ...): those of all parties' rows that are the active ones'."""
        return rows if self._is_everyone(len(rows)) else rows[self.cohort]

    def each_of(self, rows: Matrix, gather: bool) -> tuple[Array, Callable[[Array], Array]]:
        """(K, ...): something for each active party, and how its row of all parties' is had from it.

        If they are not to be gathered, it is the party's number: one by one, rows are so read where
        they are.
        """
        if gather or self._is_everyone(len(rows)):
            return self.of(rows), lambda row: row
        return self.cohort, lambda k: rows[k]

    def put(self, rows: Matrix, new: Matrix) -> Matrix:
        """All parties' rows, with new ones for the active parties."""
        return new if self._is_everyone(len(rows)) else rows.at[self.cohort].set(new)

    def _is_everyone(self, parties: int) -> bool:
        """Whether it is known now (NumPy's array) that no row need be looked up."""
        known: Any = self.cohort
        return isinstance(known, np.ndarray) and np.array_equal(known, np.arange(parties))

    def checked(self, parties: int) -> "Work":
        """Itself as arrays, or a ``SettingError`` that says what does not fit."""
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


class Received(NamedTuple):
    """What the server has to aggregate."""

    models: Matrix
    """A finite row for each of the parties asked for."""
    weights: Vector | None
    """Theirs; 0 for a model that did not arrive, or not as finite numbers."""

    @classmethod
    def of(
        cls, work: Work, models: Matrix, parties: Array, present: Array | None, w_global: Vector
    ) -> "Received":
        """What arrives of the ``models`` (rows) of these ``parties`` (indices)."""
        weights = None if work.weights is None else work.weights[parties]
        if work.transmit is None and present is None:
            return cls(models, weights)
        arrived = jnp.ones(len(models), bool) if present is None else present
        if work.transmit is not None:
            models = work.transmit(models, parties)
            arrived &= jnp.isfinite(models).all(axis=1)
            models = jnp.where(arrived[:, None], models, w_global)
        return cls(models, arrived.astype(models.dtype) * (1 if weights is None else weights))


def run_each(each: Each, function: Callable[..., Any], *args: Any) -> Any:
    """``each(function)(*args)``, where a plain number among ``args`` is the same for every party."""

    def of_arrays(*arrays: Any) -> Any:
        given = iter(arrays)
        return function(*(arg if isinstance(arg, int) else next(given) for arg in args))

    return each(of_arrays)(*(arg for arg in args if not isinstance(arg, int)))


def one_by_one(function: Callable[..., Any]) -> Callable[..., Any]:
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
    """The number of steps that there are batches for; None if a batch is made when it is asked for."""
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
    """Require W and w̃ of one size; N."""
    require_models(w_local)
    n, d = w_local.shape
    require_shape(w_global, "state.w_global", (d,))
    return n


def first_model(w_global: Any, parties: int) -> Vector:
    """The model that training begins with, checked."""
    first: Vector = jnp.asarray(w_global)
    require(first.ndim == 1, "w_global", f"shape {first.shape}", "a raveled model, (d,)")
    require(parties >= 1, "parties", parties, "at least 1")
    if is_concrete(first):
        require_finite(np.asarray(first)[None], "w_global")
    return first
