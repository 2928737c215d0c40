"""The input of a round: who takes part, on which minibatches and for how many steps."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.tree_util import Partial

from fedplus._types import Array, Matrix, Vector
from fedplus.backoff import RETRIES, RETRY_SCALE, Backoff
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

__all__ = ["RETRIES", "RETRY_SCALE", "Backoff", "Each", "Grad", "Work", "map_sequentially"]

DIVERGED, ROSE = 1, 2
"""The bits of the verdict on local steps, ``Work.judge``."""


class Work(NamedTuple):
    """The input of one round."""

    cohort: Array
    """S^t: the indices of the K active parties, each at most once."""
    batches: Batch
    """Minibatches of each active party: a pytree of arrays (K, E, ...) with E ≥ every E_k, or a
    ``jax.tree_util.Partial`` over arrays (K, ...) that returns a party's batch for a step's number."""
    steps: Array | int
    """(K,): E_k, the number of steps of each active party; or one Python number for all of them."""
    weights: Vector | None = None
    """(N,): the parties' weights in the aggregate; 0 excludes a party. None: all are equal."""
    present: Array | None = None
    """(K,): True for parties whose replies arrive. An absent party keeps its previous model and does
    not count as active. None: all arrive."""
    transmit: Callable[[Matrix, Array], Matrix] | None = None
    """For faults: maps the models (rows) of these parties (indices) to the models that the server
    receives. None: the server receives the models unchanged."""
    key: Array | None = None
    """The random key of this round. Methods that draw random numbers raise an error without it."""
    validation: Batch | None = None
    """A minibatch (K, B, ...) of validation samples of each active party, for methods that compare
    models on them."""
    judge: Callable[[Vector, Vector, Batch], Array] | None = None
    """(before, after, batches) ↦ the verdict on a party's local steps: ``ROSE`` if they raised its loss
    by more than chance, ``ROSE + DIVERGED`` if the loss is above that of an untrained model, too, and
    otherwise 0. With it, local steps that diverge are repeated with smaller step sizes. None: they are
    not repeated."""
    backoff: Backoff | None = None
    """(K,) entries: the step sizes with which the parties begin. None: as the method says."""

    def gather(self, rows: Matrix) -> Matrix:
        """Return the active parties' rows, (K, ...), of all parties' rows, (N, ...)."""
        if self.is_everyone(len(rows)):
            return rows
        # XLA copies whole rows; the default mode, "fill", tests each entry.
        return rows.at[self.cohort].get(mode="clip")

    def scatter(self, rows: Matrix, new: Matrix) -> Matrix:
        """Return all parties' rows with new ones for the active parties; absent parties keep theirs."""
        if self.present is not None:
            present = self.present.reshape(-1, *([1] * (new.ndim - 1)))
            new = jnp.where(present, new, self.gather(rows))
        return new if self.is_everyone(len(rows)) else rows.at[self.cohort].set(new)

    def map(self, each: Each, function: Callable[..., Any], *args: Any) -> Any:
        """Return ``function(scale, *args_k, batches_k, steps_k)`` of each active party k, stacked.

        Args:
            each: Maps the function over the cohort, in parallel or sequentially.
            function: The computation of one party, with step sizes multiplied by ``scale``. Its last
                result is the verdict that ``accept`` returns.
            args: Arrays with one row per active party.

        Returns:
            The results. The last one says whether the party diverged; with ``judge``, how often it did,
            as ``repeat_if_diverged`` returns it.
        """
        count = len(args) + 2

        def attempts_of_party(*args_k: Any) -> Any:
            own, backoff = args_k[:count], args_k[count:]
            return self.repeat_if_diverged(lambda scale: function(scale, *own), *backoff)

        backoff = () if self.backoff is None else (self.backoff,)
        return run_each(each, attempts_of_party, *args, self.batches, self.steps, *backoff)

    def repeat_if_diverged(
        self, attempt: Callable[[Any], Any], backoff: Backoff | None = None
    ) -> Any:
        """Return ``attempt(scale)``, repeated with a smaller scale until it does not diverge.

        Args:
            attempt: The computation for a scale of the step sizes. Its last result is the verdict; if
                some entry of it says that the steps diverged, the attempt is repeated.
            backoff: The scale of the first attempt, and whether larger steps are only tried. The last
                attempt has ``RETRY_SCALE``^``RETRIES``. None: the first scale is 1.

        Returns:
            The results of the last attempt. The last one says how often each entry diverged,
            ``RETRIES`` + 1 if it did so in the last attempt, too; or only whether it did if ``judge``
            is not set, because nothing is then repeated.
        """
        if self.judge is None:
            return attempt(1.0)
        first_level, safe_level = jnp.int32(0), jnp.int32(0)
        if backoff is not None:
            first_level, safe_level = (
                jnp.max(level).astype(jnp.int32)
                for level in (backoff.first_level(), backoff.safe_level)
            )

        def count_attempt(
            carry: tuple[Array, Array, Array, Any],
        ) -> tuple[Array, Array, Array, Any]:
            level, _, failures, _ = carry
            *results, verdict = attempt(jnp.float32(RETRY_SCALE) ** level)
            wrong = jnp.where(level < safe_level, DIVERGED | ROSE, DIVERGED)
            failed = (verdict & wrong) != 0
            return level + 1, failed, failures + failed, tuple(results)

        def is_unfinished(carry: tuple[Array, Array, Array, Any]) -> Array:
            level, failed, _, _ = carry
            return jnp.any(failed) & (level <= RETRIES)

        *results, verdict = jax.eval_shape(attempt, jnp.float32(1))
        zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), tuple(results))
        everyone = jnp.ones(verdict.shape, bool)
        first = first_level, everyone, jnp.zeros(verdict.shape, jnp.int32), zeros
        # A loop, so that the function is compiled once.
        _, failed, failures, last = lax.while_loop(is_unfinished, count_attempt, first)
        return *last, jnp.where(failed, RETRIES + 1, failures)

    def accept(self, new: T, old: T, batches: Batch, models: int = 1) -> tuple[T, Array]:
        """Return ``new`` unless local steps diverged, else ``old``; and the verdict on the steps.

        Args:
            new: The party's models, and other arrays, after its steps. All must be finite.
            old: The same before the steps.
            batches: The party's minibatches.
            models: How many of the arrays, from the first on, are models that must not become worse.
        """
        leaves, old_leaves = jax.tree.leaves(new), jax.tree.leaves(old)
        verdict = ~jnp.isfinite(sum(jnp.sum(leaf) for leaf in leaves))
        if self.judge is not None:
            verdict = verdict * DIVERGED
            for before, after in list(zip(old_leaves, leaves, strict=True))[:models]:
                verdict |= self.judge(before, after, batches)
        is_good = (verdict & DIVERGED) == 0
        chosen: T = jax.tree.map(lambda a, b: jnp.where(is_good, a, b), new, old)
        return chosen, verdict

    def is_everyone(self, parties: int) -> bool:
        """Return whether the cohort is known when tracing and consists of all parties in order."""
        cohort: Any = self.cohort
        return isinstance(cohort, np.ndarray) and np.array_equal(cohort, np.arange(parties))

    def checked(self, parties: int) -> "Work":
        """Return the same work with arrays as fields, after checks.

        Args:
            parties: N.

        Raises:
            SettingError: A field is invalid or does not fit the others.
        """
        work = self._replace(
            cohort=self.cohort if isinstance(self.cohort, np.ndarray) else jnp.asarray(self.cohort),
            batches=jax.tree.map(jnp.asarray, self.batches),
            steps=self.steps if isinstance(self.steps, int) else jnp.asarray(self.steps),
            weights=None if self.weights is None else jnp.asarray(self.weights),
            present=None if self.present is None else jnp.asarray(self.present),
        )
        _require_cohort(work.cohort, parties)
        (k,) = work.cohort.shape
        max_steps = _require_batches(work.batches, k)
        if not isinstance(work.steps, int):
            require_shape(work.steps, "work.steps", (k,), "Give E_k for each active party.")
        if is_concrete(work.steps):
            steps = np.asarray(work.steps)
            is_valid = steps.min() >= 0 and (max_steps is None or steps.max() <= max_steps)
            allowed = f"from 0 to {max_steps}, the steps that work.batches holds"
            require(bool(is_valid), "work.steps", steps, allowed)
        if work.weights is not None:
            require_shape(
                work.weights,
                "work.weights",
                (parties,),
                "Give one weight per party, active or not.",
            )
        if work.present is not None:
            require_shape(
                work.present, "work.present", (k,), "Give True for each active party that replies."
            )
        return work


def run_each(each: Each, function: Callable[..., Any], *args: Any) -> Any:
    """Return ``each(function)(*args)``; a Python number in ``args`` is the same for all parties."""

    def with_numbers(*arrays: Any) -> Any:
        remaining = iter(arrays)
        return function(*(arg if isinstance(arg, int) else next(remaining) for arg in args))

    return each(with_numbers)(*(arg for arg in args if not isinstance(arg, int)))


def finite_or(new: T, old: T) -> tuple[T, Array]:
    """Return ``new`` if all of it is finite, else ``old``; and whether ``new`` was not finite."""
    finite = jnp.isfinite(sum(jnp.sum(leaf) for leaf in jax.tree.leaves(new)))
    chosen: T = jax.tree.map(lambda a, b: jnp.where(finite, a, b), new, old)
    return chosen, ~finite


def map_sequentially(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a sequential ``jax.vmap``: one party after the other, each with its own E_k steps only."""
    return lambda *args: jax.lax.map(lambda party_args: function(*party_args), args)


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
    """Return the number of steps that the batches suffice for, or None if a Partial returns them."""
    shapes = [leaf.shape for leaf in jax.tree.leaves(batches)]
    if isinstance(batches, Partial):
        is_valid = all(len(s) >= 1 and s[0] == k for s in shapes)
        require(is_valid, "work.batches", f"shapes {shapes}", f"a Partial over arrays ({k}, ...)")
        return None
    is_valid = bool(shapes) and all(
        len(s) >= 2 and s[0] == k and s[1] == shapes[0][1] for s in shapes
    )
    require(
        is_valid, "work.batches", f"shapes {shapes}", f"arrays ({k}, E, ...), all with the same E",
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
    """Check the initial global model, and return it as an array of shape (d,)."""
    first: Vector = jnp.asarray(w_global)
    require(first.ndim == 1, "w_global", f"shape {first.shape}", "a raveled model, (d,)")
    require(parties >= 1, "parties", parties, "at least 1")
    if is_concrete(first):
        require_finite(np.asarray(first)[None], "w_global")
    return first
