"""Many rounds in one compiled program.

How many is a number that the program is given when it runs: it is the same program whether a run pauses
after each round or after a hundred, so pauses for evaluations and checkpoints never change the result.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh

from fedplus._types import Array, Vector
from fedplus.aggregation import kernels
from fedplus.algorithm import AbstractAlgorithm
from fedplus.local import ParameterGradient
from fedplus.models import Model, ravel
from fedplus.simulation.cpu_devices import map_in_shards, run_rounds_on_all
from fedplus.simulation.faults import AttackContext, Fault, transmit
from fedplus.simulation.mesh import vmap_over_mesh
from fedplus.simulation.minibatches import minibatches
from fedplus.simulation.round_log import RoundLog
from fedplus.simulation.round_statistics import RoundStatistics, round_statistics
from fedplus.simulation.schedule import AbstractCohort, Effort, Stragglers
from fedplus.work import Each, Work, map_sequentially

CAPACITY = 256
"""The most rounds that one call of the program can do."""
LARGE = 2**20
"""Entries of a cohort's models from which on memory for another such matrix is worth saving."""
EACH: dict[str, Each] = {"vmap": jax.vmap, "map": map_sequentially}


class Data(NamedTuple):
    """A federation's samples on the device."""

    x: Array
    y: Array
    start: Array
    size: Array


class Plan(NamedTuple):
    """What shapes the program. Hashable: a second run with the same plan compiles nothing."""

    model: Model
    parties: int
    rows: int
    """Rows that the state holds: one a party, a page of them, or a cohort's if parties keep nothing."""
    batch_size: int
    steps: int | None
    """E, where it is the same for all parties."""
    most: int | None
    """The largest E_k, where it is not much more than the others': all minibatches are drawn before
    the first step, and parties side by side wait for each other."""
    stragglers: Stragglers | None
    faults: tuple[Fault, ...]
    each: Literal["vmap", "map"]
    mesh: Mesh | None
    """Devices that share the cohort, and the state."""
    cores: Mesh | None
    """Devices that share the cohort, and each have the whole state."""
    lanes: bool
    """Whether everything has one more axis: several seeds, or several settings."""


class Rows(NamedTuple):
    """Where each party's validation samples are among the rows of ``Data``."""

    start: Array
    size: Array


class Inputs(NamedTuple):
    """What a program reads besides its state."""

    data: Data
    effort: Effort
    cohort: AbstractCohort
    weights: Vector | None
    row_of: Array | None = None
    """(N,): each party's row in the state, where that holds only some; None: its own number."""
    held: Rows | None = None
    """For methods that compare models on validation samples."""
    bad: Array | None = None
    """(faults, N): who has which fault."""


class Lane(NamedTuple):
    """One run's own: its method, its random numbers and where it began."""

    algorithm: AbstractAlgorithm[Any]
    key: Array
    w_first: Vector


def unravel_function(model: Model) -> Callable[[Vector], Any]:
    """From a flat vector to the model's parameters."""
    shapes = jax.eval_shape(model.init, jax.random.key(0))
    return ravel(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)).unravel


def gradient(model: Model, data: Data) -> ParameterGradient:
    """(parameters, rows) ↦ the gradient of the mean loss on those rows."""

    def loss(params: Any, rows: Array) -> Array:
        outputs = model.apply(params, data.x[rows])
        return jnp.mean(model.task.loss(outputs, data.y[rows]))

    return ParameterGradient(jax.grad(loss), unravel_function(model), loss)


def _each(plan: Plan) -> Each:
    if plan.mesh is not None:
        return vmap_over_mesh(plan.mesh)
    each = EACH[plan.each]
    return each if plan.cores is None else map_in_shards(plan.cores, each)


def _each_figure(plan: Plan, entries: int) -> Each:
    """All parties' at once; of large models one after the other, each core its share."""
    if plan.each == "vmap" or entries < LARGE:
        return jax.vmap
    return map_sequentially if plan.cores is None else map_in_shards(plan.cores, map_sequentially)


def keys_of_round(key: Array, t: Array) -> Array:
    """For the cohort, the minibatches, the steps and the faults of round t."""
    return jax.random.split(jax.random.fold_in(key, t), 4)


def one_round(
    plan: Plan, inputs: Inputs, lane: Lane, state: Any, t: Array
) -> tuple[Any, RoundStatistics]:
    """Lines 2 to 10 of Algorithm 1, and what to record."""
    data, effort = inputs.data, inputs.effort
    for_cohort, for_batches, for_steps, for_faults = keys_of_round(lane.key, t)
    cohort, present = inputs.cohort(for_cohort, t, plan.parties)
    asked, in_time = effort(for_steps, cohort, plan.stragglers)
    if in_time is not None:
        present = in_time if present is None else present & in_time
    rows: Any = cohort
    weights = inputs.weights
    elsewhere = plan.rows < plan.parties or inputs.row_of is not None
    if elsewhere:
        rows = np.arange(len(cohort)) if inputs.row_of is None else inputs.row_of[cohort]
        if weights is not None:
            weights = jnp.zeros(plan.rows, weights.dtype).at[rows].set(weights[cohort])
    known = AttackContext(for_faults, lane.algorithm.w_global(state), lane.w_first)
    sent = transmit(plan.faults, known, inputs.bad)

    def party_at(row: Array) -> Array:
        return cohort if elsewhere else row  # Then only the cohort's rows are sent.

    words = jax.random.bits(for_batches, cohort.shape)
    work = Work(
        rows,
        minibatches(
            words,
            data.start[cohort],
            data.size[cohort],
            plan.batch_size,
            None if plan.most is None else plan.most * lane.algorithm.batches_a_step,
            fixed=plan.each == "vmap",
        ),
        asked if plan.steps is None else plan.steps,
        weights=weights,
        present=present,
        transmit=None if sent is None else lambda models, who: sent(models, party_at(who)),
        key=jax.random.fold_in(for_faults, 1),
        held=None if inputs.held is None else _held(inputs.held, words, cohort, plan.batch_size),
    )
    state, outcome = lane.algorithm.round(state, work, gradient(plan.model, data), _each(plan))
    figures = round_statistics(
        lane.algorithm, state, rows, outcome, cohort, asked, _each_figure(plan, outcome.solved.size)
    )
    return state, figures


def _held(held: Rows, words: Array, cohort: Array, batch_size: int) -> Array:
    """(K, B): one minibatch of each party's validation samples."""
    batches: Array = minibatches(~words, held.start[cohort], held.size[cohort], batch_size, most=1)
    return batches[:, 0]


@partial(jax.jit, static_argnames="plan", donate_argnames="state")
def run_rounds(
    plan: Plan, inputs: Inputs, lane: Lane, state: Any, begin: Array, end: Array
) -> tuple[Any, RoundLog]:
    """Rounds ``begin``, ..., ``end`` − 1: the state after them, and their figures."""
    program = run_rounds_on_all(plan.cores, partial(_rounds, plan), state)
    found: tuple[Any, RoundLog] = program(inputs, lane, state, begin, end)
    return found


def _rounds(
    plan: Plan, inputs: Inputs, lane: Lane, state: Any, begin: Array, end: Array
) -> tuple[Any, RoundLog]:
    play: Any = partial(one_round, plan, inputs)
    if plan.mesh is not None:  # XLA alone knows where the rows are that are spread over it.
        play = kernels.use_jax_only()(play)
    if plan.lanes:
        play = jax.vmap(play, in_axes=(0, 0, None))
    play = jax.jit(play, inline=True)  # Traced once, for its shapes and for the loop.
    figures = jax.eval_shape(play, lane, state, begin)[1]

    def body(t: Array, carry: tuple[Any, RoundLog]) -> tuple[Any, RoundLog]:
        state, book = carry
        state, figures = play(lane, state, t)
        return state, book.with_round(t - begin, figures)

    first = state, RoundLog.blank(figures, CAPACITY)
    found: tuple[Any, RoundLog] = lax.fori_loop(begin, end, body, first)
    return found
