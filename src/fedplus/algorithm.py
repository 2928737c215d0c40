"""Algorithm 1 of the paper. Read it beside ``local`` (lines 11–14) and ``aggregation`` (line 10)."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar, final

import jax
import jax.numpy as jnp
from typing_extensions import override

from fedplus._types import Array, Matrix, Vector, settings, static_field
from fedplus.aggregation import AbstractAggregator, Aggregate, ChangedRows, Moreau
from fedplus.check import is_concrete, require
from fedplus.local import Batch, Grad, LocalSolve
from fedplus.psi import Anchor
from fedplus.uploads import Uploads
from fedplus.work import Each, Work, finite_or, first_model, require_state

StateT = TypeVar("StateT")


class State(NamedTuple):
    """The models w̃^t and W^t, and what the aggregator remembers."""

    w_global: Vector
    w_local: Matrix
    memory: Any = ()
    """The aggregator's memory of this W. Set it to ``()`` if you replace ``w_local``."""


class Outcome(NamedTuple):
    """The results of a round besides the new state."""

    aggregate: Aggregate
    solved: Matrix
    """(K, d): the active parties' models after their steps, before the aggregation."""
    diverged: Array
    """(K,): which parties' steps ended in NaN or Inf. Such a party counts as one that did no steps."""
    dropped: Array
    """How many models the aggregation left out: absent, or not finite on arrival."""


class AbstractAlgorithm(ABC, Generic[StateT]):
    """A federated method: ``init`` and ``round`` are pure functions, the others read a state."""

    per_party: ClassVar[tuple[str, ...]]
    """The fields of the state that have one row per party."""
    batches_a_step: ClassVar[int] = 1
    """How many minibatches a party needs for one step."""
    compares: ClassVar[bool] = False
    """Whether its parties compare models on validation samples (``Work.held``)."""

    @abstractmethod
    def init(self, w_global: Vector, parties: int) -> StateT:
        """Return the state before the first round."""

    @abstractmethod
    def round(
        self, state: StateT, work: Work, grad: Grad, each: Each = jax.vmap
    ) -> tuple[StateT, Outcome]:
        """Do one round. Return the next state, and what the round did."""

    def is_stateless(self) -> bool:
        """Whether parties keep nothing between rounds; a state then needs only the cohort's rows."""
        return False

    @abstractmethod
    def models(self, state: StateT, parties: Array | None = None) -> Matrix:
        """Return the models that the parties use, by which the method is judged, one row per party."""

    @abstractmethod
    def local_models(self, state: StateT) -> Matrix:
        """Return each party's model after its last steps, before the aggregation (Figure 3): (N, d)."""

    @abstractmethod
    def personal_parts(self, state: StateT, parties: Array) -> Matrix:
        """Return v_k, the personal part of the model, of these parties: (K, d)."""

    @abstractmethod
    def w_global(self, state: StateT) -> Vector:
        """Return the model that the server would send to a new party: (d,)."""


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
    over: Literal["all", "active"] = static_field(default="all")

    def __post_init__(self) -> None:
        is_solver = isinstance(self.local, LocalSolve)
        require(is_solver, "FedPlus.local", repr(self.local), "a LocalSolve")
        require(
            self.aggregate is None or isinstance(self.aggregate, AbstractAggregator),
            "FedPlus.aggregate", repr(self.aggregate), "an aggregator or None", "E.g. Moreau(L2(0.1)).",
        )  # fmt: skip
        is_known = self.over in ("all", "active")
        require(is_known, "FedPlus.over", repr(self.over), '"all" or "active"')

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
        memory: Any = ()
        if cohort is not None and self.over == "all":
            memory = self._aggregate.init(w_global, parties, cohort)
        return State(w_global, jnp.tile(w_global, (parties, 1)), memory)  # Alg. 1, l. 1

    @override
    def round(
        self, state: State, work: Work, grad: Grad, each: Each = jax.vmap
    ) -> tuple[State, Outcome]:
        work = work.checked(require_state(state.w_global, state.w_local))
        w_global, w_k = state.w_global, work.gather(state.w_local)

        def solve(w_k: Vector, batches: Batch, steps: Array | int) -> tuple[Vector, Array]:
            solved = self.local(w_k, w_global, batches, steps, grad)
            return finite_or(solved, self.local.start(w_k, w_global))

        solved, diverged = work.map(each, solve, w_k)  # l. 5-7
        w_local = work.scatter(state.w_local, solved)  # l. 8-9
        if self.over == "all":
            uploads = Uploads.of_all(work, w_local, w_global)
        else:
            uploads = Uploads.of_cohort(work, solved, w_global)
        changed = ChangedRows(jnp.asarray(work.cohort), w_k)
        result, memory = uploads.aggregate(
            self._aggregate, w_global, state.memory, changed
        )  # l. 10
        return State(result.w, w_local, memory), Outcome(result, solved, diverged, uploads.dropped)

    @property
    def _aggregate(self) -> AbstractAggregator:
        return self.aggregate or Moreau(self.local.psi)

    @override
    def is_stateless(self) -> bool:
        """Whether λ = 1 and v_k = 0, as in the rows of Table 1 without a "+": parties only use w̃."""
        known = is_concrete(self.local.lam) and self.over == "active"
        return known and bool(self.local.lam == 1) and isinstance(self.local.psi, Anchor)

    @override
    def models(self, state: State, parties: Array | None = None) -> Matrix:
        """Return the personal w_k; for λ = 1, where every party restarts from w̃, w̃ (Deviation D7)."""
        w_local = state.w_local if parties is None else state.w_local[parties]
        if is_concrete(self.local.lam) and self.local.lam != 1:
            return w_local  # As it is: W may be large.
        return jnp.where(self.local.lam == 1, state.w_global, w_local)

    @override
    def local_models(self, state: State) -> Matrix:
        return state.w_local

    @override
    def personal_parts(self, state: State, parties: Array) -> Matrix:
        return jax.vmap(self.local.psi.prox)(state.w_local[parties] - state.w_global)

    @override
    def w_global(self, state: State) -> Vector:
        return state.w_global
