"""Algorithm 1 of the paper, line by line.

- l. 1: ``FedPlus.init``.
- l. 2–4, the loop over rounds, the sampling of S^t and the sending of w̃: ``fedplus.simulation`` on one
  machine, ``fedplus.flower`` in a deployment.
- l. 5–9: ``FedPlus.round``.
- l. 10: the call of ``Uploads.aggregate`` in ``FedPlus.round``. Its 𝒜 is ``FedPlus.aggregator``,
  which is by default ``aggregation.moreau.Moreau``.
- l. 11–14, Local-Solve: ``local.LocalSolve``.

In a deployment, ``flower.party`` trains (l. 5–7 and 11–14), and ``flower.strategy`` stores the replies
(l. 8–9) and aggregates (l. 10).
"""

import dataclasses
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Self, TypeVar, final

import jax
import jax.numpy as jnp
import numpy as np
import optax
from typing_extensions import override

from fedplus._types import Array, Matrix, Vector, settings, static_field
from fedplus.aggregation import AbstractAggregator, Aggregate, ChangedRows, Moreau
from fedplus.check import is_concrete, require, require_integer, require_learning_rate
from fedplus.local import Batch, Grad, LocalSolve
from fedplus.parameter_groups import ByLayer, PrivateLayers, per_entry
from fedplus.psi import AbstractPsi, Anchor, Blocks, Zero
from fedplus.schedules import at_round, schedules_of
from fedplus.server_optimizer import AbstractServerOptimizer
from fedplus.uploads import Uploads
from fedplus.work import Each, Work, first_model, require_state

StateT = TypeVar("StateT")


class State(NamedTuple):
    """The state of Fed+ after t rounds."""

    w_global: Vector
    """(d,): w̃^t, the global model."""
    w_local: Matrix
    """(N, d): W^t, the model w_k of each party."""
    memory: Any = ()
    """What the aggregator keeps from round to round to save time, such as the sorted columns of this W
    (see ``AbstractAggregator.update``). Set it to ``()`` if you replace ``w_local``."""
    joined: Any = ()
    """(N,): True for parties that have taken part in a round. ``()``: all parties count."""
    optimizer_states: Any = ()
    """(N, S): the raveled state of each party's optimizer. ``()``: it is not kept."""
    server_state: Any = ()
    """The state of the server's optimizer. ``()``: there is none."""


class Outcome(NamedTuple):
    """The results of a round besides the new state."""

    aggregate: Aggregate
    """The new global model, and the certificate of its aggregation."""
    solved: Matrix
    """(K, d): the active parties' models after their local steps, before the aggregation."""
    diverged: Array
    """(K,): how often a party's local steps diverged (see ``Work.accept``). After each time but the
    last, they were repeated with smaller steps; after the last, the party keeps the model at which
    they started."""
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
    can_join: ClassVar[bool] = True
    """True if a party can train with only the server's models, without those of other parties."""
    learning_rates: ClassVar[tuple[str, ...]] = ("eta",)
    """The names of the settings that are learning rates of parties, such as "eta" or "local.eta"."""

    @final
    def party_fields(self, state: StateT) -> tuple[str, ...]:
        """Return the names in ``per_party`` of the fields that this state has."""
        return tuple(name for name in self.per_party if not isinstance(getattr(state, name), tuple))

    @final
    def state_of_new_parties(self, state: Any, first: Vector, parties: int) -> Any:
        """Return a state with the server's fields of ``state`` and rows of new parties only.

        Args:
            state: A state, of any parties.
            first: (d,), the model at which the new parties start.
            parties: The number of new parties.
        """
        new = self.init(first, parties)
        return state._replace(**{name: getattr(new, name) for name in self.per_party})

    @final
    def after_training(self, rounds: int) -> Self:
        """Return the method with which a party joins, or adapts its model, after the training.

        Schedules have their values of the last round, but learning rates those of the first round,
        because they may have decayed to 0.

        Args:
            rounds: The number of rounds of the training.
        """

        def choose(path: Any, first: Any, last: Any) -> Any:
            return first if self._is_learning_rate(path) else last

        first, last = at_round(self, 0), at_round(self, max(rounds - 1, 0))
        chosen: Self = jax.tree_util.tree_map_with_path(choose, first, last)
        return chosen

    @final
    def require_learning_rate_after_training(self) -> None:
        """Require that a party that joins after the training has a learning rate above 0."""
        leaves = jax.tree_util.tree_leaves_with_path(self.after_training(1))
        rates = [leaf for path, leaf in leaves if self._is_learning_rate(path)]
        require(
            not rates or any(np.any(np.asarray(rate) > 0) for rate in rates),
            f"{' and '.join(self.learning_rates)} of {type(self).__name__} in the first round", 0,
            "> 0 if parties join after the training", "They train with this learning rate.",
        )  # fmt: skip

    @final
    def _is_learning_rate(self, path: Any) -> bool:
        """Return True if this is the path of a learning rate, or of that of some layers."""
        prefixes = tuple(f".{name}" for name in self.learning_rates)
        return jax.tree_util.keystr(path).startswith(prefixes)

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


class AbstractLocalAdaptation(ABC):
    """A method whose parties adapt a model to their own samples before they use it."""

    @property
    @abstractmethod
    def adaptation_steps(self) -> int:
        """The number of minibatches that ``adapt`` needs. 0: parties use their models as they are."""

    @abstractmethod
    def adapt(
        self, models: Matrix, batches: Batch, grad: Grad, each: Each = jax.vmap, scale: Any = 1.0
    ) -> Matrix:
        """Return (K, d), the models that parties use after adaptation.

        Args:
            models: (K, d), the models before adaptation.
            batches: ``adaptation_steps`` minibatches per party, as in ``Work.batches``.
            grad: (w, batch) ↦ ∇f_k(w) on that batch.
            each: Maps a function over the parties.
            scale: A factor of the step sizes, below 1 if the steps diverged and are repeated.
        """


@final
@settings
class FedPlus(AbstractAlgorithm[State], AbstractLocalAdaptation):
    """Fed+, and with other settings every method of the paper's Table 1 (see ``presets``).

    Args:
        local: Local-Solve, with its settings ψ, η, σ and λ.
        aggregate: The aggregator 𝒜 of line 10. None: the one that ψ defines, ``Moreau(local.psi)``.
        over: The models that line 10 aggregates. "all": those of all N parties, with the last model
            of each inactive party, as Theorem 1 requires. "active": only those of the active parties
            (Deviation D1 in docs/deviations.md).
        join: How a party takes part for the first time. "current": it starts at the current w̃, and
            counts in line 10 from then on. "first": it starts at the first model and counts with it
            from the first round on, as printed in Algorithm 1 (Deviation D18 in docs/deviations.md).
        private: The layers that never leave a party, and to which ψ does not apply. None: there are
            none.
        server_optimizer: How w̃ moves to 𝒜(W). None: w̃ becomes 𝒜(W).
        fine_tune: The number of gradient steps, without a pull, with which a party adapts its model
            before it uses it. All layers are adapted.
        fine_tune_eta: The learning rate of the fine-tuning. None: the η of the first round, and of the
            layer where it is largest.

    Paper: Algorithm 1.
    """

    per_party: ClassVar[tuple[str, ...]] = ("w_local", "joined", "optimizer_states")
    learning_rates: ClassVar[tuple[str, ...]] = ("local.eta", "fine_tune_eta")

    local: LocalSolve
    aggregate: AbstractAggregator | None = None
    over: Literal["all", "active"] = static_field(default="all")
    join: Literal["current", "first"] = static_field(default="current")
    private: PrivateLayers | None = static_field(default=None)
    server_optimizer: AbstractServerOptimizer | None = None
    fine_tune: int = static_field(default=0)
    fine_tune_eta: Any = None

    def __post_init__(self) -> None:
        is_solver = isinstance(self.local, LocalSolve)
        require(is_solver, "FedPlus.local", repr(self.local), "a LocalSolve")
        for name, kind, example in (
            ("aggregate", AbstractAggregator, "an aggregator or None. E.g. Moreau(L2(0.1))"),
            ("private", PrivateLayers, "a PrivateLayers or None"),
            ("server_optimizer", AbstractServerOptimizer, "a server optimizer or None"),
        ):
            value = getattr(self, name)
            ok = value is None or isinstance(value, kind)
            allowed, _, advice = example.partition(". ")
            require(ok, f"FedPlus.{name}", repr(value), allowed, f"{advice}." if advice else "")
        is_valid = self.over in ("all", "active")
        require(is_valid, "FedPlus.over", repr(self.over), '"all" or "active"')
        is_valid = self.join in ("current", "first")
        require(is_valid, "FedPlus.join", repr(self.join), '"current" or "first"')
        require_integer("FedPlus.fine_tune", self.fine_tune, 0)
        if self.fine_tune_eta is not None:
            require_learning_rate(self.fine_tune_eta, "FedPlus.fine_tune_eta")
        if self.fine_tune > 0:
            rates = self.after_training(1)._fine_tuning_rates
            is_positive = not is_concrete(rates) or any(np.all(rate > 0) for rate in rates)
            require(
                is_positive, "the learning rate of the fine-tuning", "0 from the first round", "> 0",
                "Set fine_tune_eta, e.g. fine_tune_eta=0.1.",
            )  # fmt: skip
        if self.private is not None:
            for name, symbol in (("lam", "λ"), ("sigma", "σ")):
                value = getattr(self.local, name)
                values = value.at(self.private.names) if isinstance(value, ByLayer) else [value]
                is_zero = not is_concrete(values) or all(np.all(x == 0) for x in values)
                require(
                    is_zero, f"{symbol} of private layers", ", ".join(map(repr, values)), "0",
                    "They have no global model to move to. fedplus.Layers sets the other layers'.",
                )  # fmt: skip

    def replace(self, **settings: Any) -> "FedPlus":
        """Return the same method with other settings of ``FedPlus`` or of its ``LocalSolve``.

        Raises:
            SettingError: A setting does not exist, or its value is invalid.

        >>> from fedplus import presets
        >>> presets.fedavg(eta=0.1).replace(optimizer="adam", eta=0.001).local.optimizer
        'adam'
        """
        own = {field.name for field in dataclasses.fields(self)}
        of_local = {field.name for field in dataclasses.fields(self.local)}
        for name in settings:
            allowed = f"one of: {', '.join(sorted(own | of_local))}"
            require(name in own | of_local, "setting of FedPlus", name, allowed)
        local = {name: value for name, value in settings.items() if name in of_local}
        rest = {name: value for name, value in settings.items() if name in own}
        if local:
            rest["local"] = dataclasses.replace(rest.get("local", self.local), **local)
        return dataclasses.replace(self, **rest)

    @property
    def aggregator(self) -> AbstractAggregator:
        """𝒜, which aggregates the shared layers of the models in line 10 of Algorithm 1."""
        return self.aggregate or Moreau(self.shared_psi)

    @property
    def shared_psi(self) -> AbstractPsi:
        """ψ of the shared layers, for models without the private ones."""
        psi = self.local.psi
        if self.private is not None and isinstance(psi, Blocks):
            return psi.without(self.private.names)
        return psi

    @property
    def psi(self) -> AbstractPsi:
        """ψ of a whole model, which is 0 for the private layers and ``shared_psi`` for the others."""
        if self.private is None:
            return self.local.psi
        shared = self.shared_psi
        parts = shared.parts if isinstance(shared, Blocks) else {"*": shared}
        own = dict.fromkeys(self.private.names, Zero())
        return Blocks(own | dict(parts), self.private.layout)

    @override
    def init(
        self,
        w_global: Vector,
        parties: int,
        cohort: int | None = None,
        track_joining: bool | None = None,
    ) -> State:
        """Return the state before the first round.

        Args:
            w_global: (d,), w̃⁰.
            parties: N.
            cohort: K, if each round trains K parties, unweighted and without faults. The aggregator
                then keeps a memory from round to round if this saves time. None: no memory.
            track_joining: Whether to record who has taken part, which ``join="current"`` needs unless
                all parties take part in the first round. None: unless the method is stateless.
        """
        w_global = first_model(w_global, parties)
        shared = self.shared(w_global)
        memory: Any = ()
        # A memory is valid for constant settings only.
        if cohort is not None and self.over == "all" and not schedules_of(self.aggregator):
            memory = self.aggregator.init(shared, parties, cohort)
        joined: Any = ()
        if track_joining is None:
            track_joining = not self.is_stateless()
        if self.join == "current" and track_joining:
            joined = jnp.zeros(parties, bool)
        optimizer: Any = ()
        if self.local.keep_optimizer_state:
            optimizer = jnp.tile(self.local.init_optimizer(w_global), (parties, 1))
        server = (
            () if self.server_optimizer is None else at_round(self.server_optimizer, 0).init(shared)
        )
        w_local = jnp.tile(w_global, (parties, 1))  # Alg. 1, l. 1
        return State(w_global, w_local, memory, joined, optimizer, server)

    @override
    def round(
        self, state: State, work: Work, grad: Grad, each: Each = jax.vmap
    ) -> tuple[State, Outcome]:
        parties = require_state(state.w_global, state.w_local)
        work = work.checked(parties)
        w_global = state.w_global
        before = work.gather(state.w_local)
        was_joined = None if isinstance(state.joined, tuple) else work.gather(state.joined)
        w_k = before if was_joined is None else jnp.where(was_joined[:, None], before, w_global)
        has_optimizer = not isinstance(state.optimizer_states, tuple)
        kept = [work.gather(state.optimizer_states)] if has_optimizer else []

        local = self.local
        if self.private is not None:
            local = dataclasses.replace(local, psi=self.psi)

        def solve(scale: Any, w_k: Vector, *args: Any) -> Any:
            *kept, batches, steps = args
            row = kept[0] if kept else None
            new = local.solve(w_k, w_global, batches, steps, grad, row, scale)
            return work.accept(new, (local.start(w_k, w_global), row), batches)

        (solved, new_rows), diverged = work.map(each, solve, w_k, *kept)  # Alg. 1, l. 5-7
        w_local = work.scatter(state.w_local, solved)  # l. 8-9
        new = state._replace(w_local=w_local)
        counted = None
        if was_joined is not None:
            new = new._replace(joined=work.scatter(state.joined, jnp.ones_like(was_joined)))
            # If all parties' replies arrive, all have joined, and the aggregator needs no mask.
            counted = None if work.is_everyone(parties) and work.present is None else new.joined
        if has_optimizer:
            new = new._replace(optimizer_states=work.scatter(state.optimizer_states, new_rows))
        if self.over == "all":
            uploads = Uploads.of_all(work, w_local, w_global, counted)
        else:
            uploads = Uploads.of_cohort(work, solved, w_global)
        shared = self.shared(w_global)
        uploads = uploads._replace(models=self.shared(uploads.models))
        # An aggregator with a memory updates its last result for the rows that have changed.
        changed = ChangedRows(jnp.asarray(work.cohort), self.shared(before), was_joined)
        # l. 10: w̃ ← 𝒜(W)
        result, memory = uploads.aggregate(self.aggregator, shared, state.memory, changed)
        w, server = self._move_server(work, shared, result.w, state.server_state)
        if self.private is not None:
            w = self.private.replace_shared(w_global, w)
        new = new._replace(w_global=w, memory=memory, server_state=server)
        return new, Outcome(result, solved, diverged, uploads.dropped)

    def _move_server(
        self, work: Work, w: Vector, aggregate: Vector, server_state: Any
    ) -> tuple[Vector, Any]:
        """Return the next w̃ and the next state of the server's optimizer."""
        if self.server_optimizer is None:
            return aggregate, server_state
        moved = self.server_optimizer.step(w, aggregate, server_state)
        if work.present is None:
            return moved
        # Without replies, the optimizer must not move w̃ along its momentum.
        new: tuple[Vector, Any] = optax.tree.where(jnp.any(work.present), moved, (w, server_state))
        return new

    def shared(self, models: Array) -> Array:
        """Return the columns of models that parties send: all but those of private layers."""
        return models if self.private is None else self.private.shared(models)

    @override
    def is_stateless(self) -> bool:
        """Return True if parties start at w̃ and keep nothing, as with FedAvg.

        That is so with λ = 1 in all rounds, ψ = Anchor, ``over="active"``, no private layers, and a
        new optimizer state in every round.
        """
        local = self.local
        is_global = self.over == "active" and isinstance(local.psi, Anchor)
        is_number = is_concrete(local.lam) and isinstance(local.lam, (int, float, np.number))
        keeps_more = self.private is not None or local.keep_optimizer_state
        return is_global and is_number and bool(local.lam == 1) and not keeps_more

    @override
    def models(self, state: State, parties: Array | None = None) -> Matrix:
        """Return the personal models w_k; where λ = 1, w̃, from which each party restarts.

        Deviation D7 in docs/deviations.md.
        """
        w_local = self.local_models(state, parties)
        lam = per_entry(self.local.lam)
        if is_concrete(lam) and not np.any(np.asarray(lam) == 1):
            return w_local  # Not a copy, because W may be large.
        return jnp.where(lam == 1, state.w_global, w_local)

    @override
    def local_models(self, state: State, parties: Array | None = None) -> Matrix:
        w_local = state.w_local if parties is None else state.w_local[parties]
        if isinstance(state.joined, tuple):
            return w_local
        joined = state.joined if parties is None else state.joined[parties]
        if is_concrete(joined) and bool(joined.all()):
            return w_local
        return jnp.where(joined[:, None], w_local, state.w_global)

    @override
    def personal_parts(self, state: State, parties: Array) -> Matrix:
        w_local = self.local_models(state, parties)
        return jax.vmap(self.psi.prox)(w_local - state.w_global)

    @property
    @override
    def adaptation_steps(self) -> int:
        return self.fine_tune

    @override
    def adapt(
        self, models: Matrix, batches: Batch, grad: Grad, each: Each = jax.vmap, scale: Any = 1.0
    ) -> Matrix:
        own = self.local
        descent = LocalSolve(
            psi=Zero(), eta=jnp.max(jnp.stack(self._fine_tuning_rates)), optimizer=own.optimizer,
            keep_optimizer_state=own.keep_optimizer_state,  # For an Optax schedule.
        )  # fmt: skip

        def adapt_one(w: Vector, batches: Batch) -> Vector:
            return descent.solve(w, w, batches, self.fine_tune, grad, scale=scale)[0]

        adapted: Matrix = each(adapt_one)(models, batches)
        return adapted

    @property
    def _fine_tuning_rates(self) -> list[Any]:
        """The numbers of which the largest is the learning rate of the fine-tuning."""
        # η may be 0 for layers that are fixed during the training, such as the head of FedBABU.
        eta = self.local.eta if self.fine_tune_eta is None else self.fine_tune_eta
        return list(eta.values.values()) if isinstance(eta, ByLayer) else [eta]

    @override
    def w_global(self, state: State) -> Vector:
        return state.w_global
