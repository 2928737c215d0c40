"""Algorithm 1 of the paper, line by line.

- l. 1: ``FedPlus.init``.
- l. 2–4, the loop over rounds, the sampling of S^t and the sending of w̃: ``fedplus.simulation`` on one
  machine, ``fedplus.flower`` in a deployment.
- l. 5–9: ``FedPlus.round``.
- l. 10: the last step of ``FedPlus.round``. Its 𝒜 is ``FedPlus.aggregator``, which is by default
  ``aggregation.moreau.Moreau``.
- l. 11–14, Local-Solve: ``local.LocalSolve``.
"""

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
    """The state of Fed+ after t rounds."""

    w_global: Vector
    """(d,): w̃^t, the global model."""
    w_local: Matrix
    """(N, d): W^t, the model w_k of each party."""
    memory: Any = ()
    """The aggregator's memory of this W (see ``AbstractAggregator.update``). Set it to ``()`` if you
    replace ``w_local``."""


class Outcome(NamedTuple):
    """The results of a round besides the new state."""

    aggregate: Aggregate
    """The new global model, and the certificate of its aggregation."""
    solved: Matrix
    """(K, d): the active parties' models after their local steps, before the aggregation."""
    diverged: Array
    """(K,): True for a party whose local steps ended in NaN or Inf. Such a party keeps the model from
    which its steps started."""
    dropped: Array
    """The number of models that the aggregation left out: absent, or not finite on arrival."""


class AbstractAlgorithm(ABC, Generic[StateT]):
    """A federated learning method.

    ``init`` and ``round`` are pure functions of a state; the other methods read a state.
    """

    per_party: ClassVar[tuple[str, ...]]
    """The names of the fields of the state that have one row per party."""
    batches_per_step: ClassVar[int] = 1
    """The number of minibatches that a party needs for one local step."""
    needs_validation: ClassVar[bool] = False
    """True if parties compare models on validation samples (``Work.validation``)."""

    @abstractmethod
    def init(self, w_global: Vector, parties: int) -> StateT:
        """Return the state before the first round.

        Args:
            w_global: (d,), the first global model.
            parties: N.
        """

    @abstractmethod
    def round(
        self, state: StateT, work: Work, grad: Grad, each: Each = jax.vmap
    ) -> tuple[StateT, Outcome]:
        """Run one round.

        Args:
            state: The state before the round.
            work: The active parties, their minibatches and their numbers of steps.
            grad: (w, batch) ↦ ∇f_k(w) on that batch.
            each: Maps a function over the active parties: ``jax.vmap`` or ``map_sequentially``.

        Returns:
            The state after the round, and its other results.
        """

    def is_stateless(self) -> bool:
        """Return True if parties keep nothing between rounds; a state then needs only S^t's rows."""
        return False

    @abstractmethod
    def models(self, state: StateT, parties: Array | None = None) -> Matrix:
        """Return the models that parties use and that are evaluated, one row per party.

        Args:
            state: A state.
            parties: The parties' indices. None: all N parties.
        """

    @abstractmethod
    def local_models(self, state: StateT) -> Matrix:
        """Return (N, d), each party's model after its last local steps, before the aggregation.

        Paper: Figure 3.
        """

    @abstractmethod
    def personal_parts(self, state: StateT, parties: Array) -> Matrix:
        """Return (K, d), the personal part v_k of the model of each of these K parties."""

    @abstractmethod
    def w_global(self, state: StateT) -> Vector:
        """Return (d,), the model that the server would send to a new party."""


@final
@settings
class FedPlus(AbstractAlgorithm[State]):
    """Fed+, and with other settings every method of the paper's Table 1 (see ``presets``).

    Args:
        local: Local-Solve, with its settings ψ, η, σ and λ.
        aggregate: The aggregator 𝒜 of line 10. None: the one that ψ defines, ``Moreau(local.psi)``.
        over: The models that line 10 aggregates. "all": those of all N parties, with the last model
            of each inactive party, as Theorem 1 requires. "active": only those of the active parties
            (Deviation D1).

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
            "FedPlus.aggregate",
            repr(self.aggregate),
            "an aggregator or None",
            "E.g. Moreau(L2(0.1)).",
        )
        is_valid = self.over in ("all", "active")
        require(is_valid, "FedPlus.over", repr(self.over), '"all" or "active"')

    @property
    def aggregator(self) -> AbstractAggregator:
        """𝒜, which aggregates the models in line 10 of Algorithm 1."""
        return self.aggregate or Moreau(self.local.psi)

    @override
    def init(self, w_global: Vector, parties: int, cohort: int | None = None) -> State:
        """Return the state before the first round.

        Args:
            w_global: (d,), w̃⁰.
            parties: N.
            cohort: K, if each round trains K parties, unweighted and without faults. The aggregator
                then keeps a memory from round to round if this saves time. None: no memory.
        """
        w_global = first_model(w_global, parties)
        memory: Any = ()
        if cohort is not None and self.over == "all":
            memory = self.aggregator.init(w_global, parties, cohort)
        return State(w_global, jnp.tile(w_global, (parties, 1)), memory)  # Alg. 1, l. 1

    @override
    def round(
        self, state: State, work: Work, grad: Grad, each: Each = jax.vmap
    ) -> tuple[State, Outcome]:
        work = work.checked(require_state(state.w_global, state.w_local))
        w_global = state.w_global
        before = work.gather(state.w_local)

        def solve(w_k: Vector, batches: Batch, steps: Array | int) -> tuple[Vector, Array]:
            solved = self.local(w_k, w_global, batches, steps, grad)  # l. 11-14
            return finite_or(solved, self.local.start(w_k, w_global))

        solved, diverged = work.map(each, solve, before)  # Alg. 1, l. 5-7
        w_local = work.scatter(state.w_local, solved)  # l. 8-9
        if self.over == "all":
            uploads = Uploads.of_all(work, w_local, w_global)
        else:
            uploads = Uploads.of_cohort(work, solved, w_global)
        changed = ChangedRows(jnp.asarray(work.cohort), before)
        # l. 10: w̃ ← 𝒜(W)
        result, memory = uploads.aggregate(self.aggregator, w_global, state.memory, changed)
        return State(result.w, w_local, memory), Outcome(result, solved, diverged, uploads.dropped)

    @override
    def is_stateless(self) -> bool:
        """Return True if λ = 1 and v_k = 0, as in the rows of Table 1 without "+"."""
        if self.over != "active" or not is_concrete(self.local.lam):
            return False
        return bool(self.local.lam == 1) and isinstance(self.local.psi, Anchor)

    @override
    def models(self, state: State, parties: Array | None = None) -> Matrix:
        """Return the personal models w_k, or w̃ if λ = 1, as each party then restarts from w̃.

        Deviation D7 in docs/deviations.md.
        """
        w_local = state.w_local if parties is None else state.w_local[parties]
        if is_concrete(self.local.lam) and self.local.lam != 1:
            return w_local  # Not a copy, because W may be large.
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
