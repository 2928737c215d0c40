"""Algorithm 1 of the paper. Read it beside ``local`` (lines 11–14) and ``aggregation`` (line 10)."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar, final

import jax
import jax.numpy as jnp
from typing_extensions import override

from fedplus._check import is_concrete, require
from fedplus._types import Array, Matrix, Vector, settings, static
from fedplus.aggregation import AbstractAggregator, Aggregate, Changed, Moreau
from fedplus.local import Batch, Grad, LocalSolve
from fedplus.psi import Anchor
from fedplus.work import Each, Received, Work, first_model, require_state, run_each

StateT = TypeVar("StateT")


class State(NamedTuple):
    """W^t, w̃^t and the memory of the aggregation.

    The memory belongs to this W. If you replace ``w_local``, set it to ``()``.
    """

    w_global: Vector
    w_local: Matrix
    memory: Any = ()


class Outcome(NamedTuple):
    """How a round went."""

    aggregate: Aggregate
    solved: Matrix
    """(K, d): the active parties' models after their steps, before the aggregation."""
    diverged: Array
    """(K,): whose steps ended in NaN or Inf. Such a party counts as one that did no steps."""
    dropped: Array
    """How many models the aggregation left out: absent, or not finite on arrival."""


class AbstractAlgorithm(ABC, Generic[StateT]):
    """A federated method as three pure functions."""

    per_party: ClassVar[tuple[str, ...]]
    """The fields of the state that hold a row for each party."""
    batches_a_step: ClassVar[int] = 1
    """Minibatches that a step of a party takes."""
    compares: ClassVar[bool] = False
    """Whether its parties compare models on validation samples (``Work.held``)."""

    @abstractmethod
    def init(self, w_global: Vector, parties: int) -> StateT:
        """The state before the first round."""

    @abstractmethod
    def round(
        self, state: StateT, work: Work, grad: Grad, each: Each = jax.vmap
    ) -> tuple[StateT, Outcome]:
        """One round: the next state, and how it went."""

    def forgets(self) -> bool:
        """Whether parties keep nothing from one round to the next: all of them use w̃.

        Then a simulation holds the rows of a cohort alone.
        """
        return False

    @abstractmethod
    def models(self, state: StateT, parties: Array | None = None) -> Matrix:
        """The model that each party uses, by which the method is judged: (N, d), or these parties'."""

    @abstractmethod
    def own(self, state: StateT) -> Matrix:
        """(N, d): each party's model as its steps left it, before the aggregation (Figure 3)."""

    @abstractmethod
    def personal(self, state: StateT, parties: Array) -> Matrix:
        """(K, d): v_k of these parties, what makes their models theirs."""

    @abstractmethod
    def w_global(self, state: StateT) -> Vector:
        """(d,): the model that the server would hand to a party that is new."""


class AbstractAdapting(ABC):
    """Of a method whose parties take a step of their own before a model is used, and judged."""

    @abstractmethod
    def adapt(self, models: Matrix, batches: Batch, grad: Grad, each: Each = jax.vmap) -> Matrix:
        """(K, d): the models that parties use, made of ``models`` with minibatches of their own."""


def settled(
    aggregate: AbstractAggregator, received: Received, w_global: Vector
) -> tuple[Aggregate, Array]:
    """Return the aggregate, w̃ as it was if nothing arrived, and how many models it leaves out."""
    models, weights = received
    if weights is None:
        return aggregate(models, start=w_global), jnp.array(0)
    some = weights.any()
    result = aggregate(models, jnp.where(some, weights, 1), start=w_global)
    return result._replace(w=jnp.where(some, result.w, w_global)), jnp.sum(weights == 0)


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

    per_party: ClassVar[tuple[str, ...]] = ("w_local",)

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
    def init(self, w_global: Vector, parties: int, cohort: int | None = None) -> State:
        """Return the state before the first round.

        Args:
            w_global: w̃⁰.
            parties: N.
            cohort: K, if each round trains K parties, without weights and faults. The aggregation then
                keeps a memory where this saves time.
        """
        w_global = first_model(w_global, parties)
        remembers = cohort is not None and self.over == "all"
        memory = self._aggregate.init(w_global, parties, cohort) if remembers else ()
        return State(w_global, jnp.tile(w_global, (parties, 1)), memory)  # Alg. 1, l. 1

    @override
    def round(
        self, state: State, work: Work, grad: Grad, each: Each = jax.vmap
    ) -> tuple[State, Outcome]:
        parties = require_state(state.w_global, state.w_local)
        work = work.checked(parties)
        looks_back = work.present is not None or state.memory != ()
        # The models of the cohort; or their numbers, if nobody needs these once W has changed.
        before, row_of = work.each_of(state.w_local, gather=looks_back)

        def solve(k: Array, batches: Batch, steps: Array | int) -> tuple[Vector, Array]:
            w_k = row_of(k)
            solved = self.local(w_k, state.w_global, batches, steps, grad)
            finite = jnp.isfinite(jnp.sum(solved))
            return jnp.where(finite, solved, self.local.start(w_k, state.w_global)), ~finite

        solved, diverged = run_each(each, solve, before, work.batches, work.steps)  # l. 5-7
        kept = solved if work.present is None else jnp.where(work.present[:, None], solved, before)
        w_local = work.put(state.w_local, kept)  # l. 8-9
        if state.memory != ():
            changed = Changed(jnp.asarray(work.cohort), before)
            result, memory = self._aggregate.update(
                w_local, work.weights, state.w_global, state.memory, changed
            )  # l. 10
            return State(result.w, w_local, memory), Outcome(result, solved, diverged, jnp.array(0))
        if self.over == "all":
            received = Received.of(work, w_local, jnp.arange(parties), None, state.w_global)
        else:
            received = Received.of(work, solved, work.cohort, work.present, state.w_global)
        result, dropped = settled(self._aggregate, received, state.w_global)  # l. 10
        return State(result.w, w_local), Outcome(result, solved, diverged, dropped)

    @property
    def _aggregate(self) -> AbstractAggregator:
        """𝒜."""
        return self.aggregate or Moreau(self.local.psi)

    @override
    def forgets(self) -> bool:
        """Whether it is one of Table 1's without a "+": each round begins, and ends, with w̃ alone."""
        known = is_concrete(self.local.lam) and self.over == "active"
        return known and bool(self.local.lam == 1) and isinstance(self.local.psi, Anchor)

    @override
    def models(self, state: State, parties: Array | None = None) -> Matrix:
        """The personal w_k; for λ = 1, where every party restarts from w̃, w̃ (Deviation D7)."""
        w_local = state.w_local if parties is None else state.w_local[parties]
        if is_concrete(self.local.lam) and self.local.lam != 1:
            return w_local  # As it is: W may be large.
        return jnp.where(self.local.lam == 1, state.w_global, w_local)

    @override
    def own(self, state: State) -> Matrix:
        return state.w_local

    @override
    def personal(self, state: State, parties: Array) -> Matrix:
        return jax.vmap(self.local.psi.prox)(state.w_local[parties] - state.w_global)

    @override
    def w_global(self, state: State) -> Vector:
        return state.w_global
