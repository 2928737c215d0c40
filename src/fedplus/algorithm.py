"""Algorithm 1 of the paper. Read it beside ``local`` (lines 11–14) and ``aggregation`` (line 10)."""

from abc import ABC, abstractmethod
from typing import Generic, Literal, NamedTuple, TypeVar, final

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from fedplus._check import is_concrete, require, require_finite, require_models, require_shape
from fedplus._types import Array, Matrix, Vector, settings, static
from fedplus.aggregation import AbstractAggregator, Aggregate, Moreau
from fedplus.local import Batch, Grad, LocalSolve

StateT = TypeVar("StateT")


class Work(NamedTuple):
    """What a round brings: who takes part, on which batches, and how many steps each does."""

    cohort: Array
    """S^t: the indices of the K active parties, each at most once."""
    batches: Batch
    """A pytree of arrays (K, E, ...): the minibatches of each active party, E ≥ every E_k."""
    steps: Array
    """(K,): E_k, the steps that each active party really does."""
    weights: Vector | None = None
    """(N,), the parties' weights in the aggregate; 0 leaves one out. None: all equal."""


class State(NamedTuple):
    """W^t and w̃^t."""

    w_global: Vector
    w_local: Matrix


class AbstractAlgorithm(ABC, Generic[StateT]):
    """A federated method as three pure functions."""

    @abstractmethod
    def init(self, w_global: Vector, parties: int) -> StateT:
        """The state before the first round."""

    @abstractmethod
    def round(self, state: StateT, work: Work, grad: Grad) -> tuple[StateT, Aggregate]:
        """One round: the next state, and how the aggregation went."""

    @abstractmethod
    def models(self, state: StateT) -> Matrix:
        """(N, d): the model that each party uses, by which the method is judged."""


@final
@settings
class FedPlus(AbstractAlgorithm[State]):
    """Fed+, and with other settings every method of the paper's Table 1 (see ``presets``).

    Args:
        local: Local-Solve, with ψ, σ, η and λ.
        aggregate: 𝒜; by default the one that ψ defines, ``Moreau(local.psi)``.
        over: Whose models line 10 aggregates: "all" N parties', the inactive ones' as they last were,
            which is what Theorem 1 needs; or only those of the "active" parties (Deviation D1).

    Paper: Algorithm 1.
    """

    local: LocalSolve
    aggregate: AbstractAggregator | None = None
    over: Literal["all", "active"] = static(default="all")

    def __post_init__(self) -> None:
        require(
            isinstance(self.local, LocalSolve), "FedPlus.local", repr(self.local), "a LocalSolve"
        )
        require(
            self.aggregate is None or isinstance(self.aggregate, AbstractAggregator),
            "FedPlus.aggregate", repr(self.aggregate), "an aggregator or None", "E.g. Moreau(L2(0.1)).",
        )  # fmt: skip
        require(
            self.over in ("all", "active"), "FedPlus.over", repr(self.over), '"all" or "active"'
        )

    @override
    def init(self, w_global: Vector, parties: int) -> State:
        w_global = jnp.asarray(w_global)
        require(w_global.ndim == 1, "w_global", f"shape {w_global.shape}", "a raveled model, (d,)")
        require(parties >= 1, "parties", parties, "at least 1")
        if is_concrete(w_global):
            require_finite(np.asarray(w_global)[None], "w_global")
        return State(w_global, jnp.tile(w_global, (parties, 1)))  # Alg. 1, l. 1

    @override
    def round(self, state: State, work: Work, grad: Grad) -> tuple[State, Aggregate]:
        work = _checked(state, work)
        aggregate = self.aggregate or Moreau(self.local.psi)

        def solve(w_k: Vector, batches: Batch, steps: Array) -> Vector:
            return self.local(w_k, state.w_global, batches, steps, grad)

        solved = jax.vmap(solve)(state.w_local[work.cohort], work.batches, work.steps)  # l. 5-7
        w_local = state.w_local.at[work.cohort].set(solved)  # l. 8-9
        weights = work.weights
        if self.over == "all":
            result = aggregate(w_local, weights, start=state.w_global)  # l. 10
        else:
            weights = None if weights is None else weights[work.cohort]
            result = aggregate(solved, weights, start=state.w_global)
        return State(result.w, w_local), result

    @override
    def models(self, state: State) -> Matrix:
        """The personal w_k; for λ = 1, where every party restarts from w̃, w̃ (Deviation D7)."""
        return jnp.where(self.local.lam == 1, state.w_global, state.w_local)


def _checked(state: State, work: Work) -> Work:
    """Work as arrays, or a ``SettingError`` that says what does not fit."""
    require_models(state.w_local)
    n, d = state.w_local.shape
    require_shape(state.w_global, "state.w_global", (d,))
    work = jax.tree.map(jnp.asarray, work)
    cohort, batches, steps, weights = work
    require(
        cohort.ndim == 1 and jnp.issubdtype(cohort.dtype, jnp.integer), "work.cohort",
        f"{cohort.dtype} of shape {cohort.shape}", "a vector of indices",
    )  # fmt: skip
    (k,) = cohort.shape
    require(1 <= k <= n, "work.cohort", f"{k} parties", f"1 to {n} of the {n} parties")
    if is_concrete(cohort):
        given = np.asarray(cohort)
        ok = np.unique(given).size == k and given.min() >= 0 and given.max() < n
        require(bool(ok), "work.cohort", given, f"distinct, from 0 to {n - 1}")
    shapes = [leaf.shape for leaf in jax.tree.leaves(batches)]
    ok = bool(shapes) and all(len(s) >= 2 and s[0] == k and s[1] == shapes[0][1] for s in shapes)
    require(
        ok, "work.batches", f"shapes {shapes}", f"arrays ({k}, E, ...), all with the same E",
        "First axis: active parties; second: steps.",
    )  # fmt: skip
    require_shape(steps, "work.steps", (k,), "Give E_k for each active party.")
    if is_concrete(steps):
        most, given = shapes[0][1], np.asarray(steps)
        ok = bool(given.min() >= 0 and given.max() <= most)
        require(ok, "work.steps", given, f"from 0 to {most}, the steps that work.batches holds")
    if weights is not None:
        require_shape(weights, "work.weights", (n,), "Give one weight a party, active or not.")
    return work
