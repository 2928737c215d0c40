"""Many rounds in one compiled program: ``run_rounds``.

The number of rounds is an argument of the compiled program. The same program runs whether a run pauses
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
from fedplus.local import ParameterGradient, batch_at
from fedplus.models import Model, ravel
from fedplus.schedules import at_round
from fedplus.simulation.cpu_devices import map_in_shards, run_rounds_on_all_cores
from fedplus.simulation.faults import AttackContext, Fault, transmit
from fedplus.simulation.mesh import vmap_over_mesh
from fedplus.simulation.minibatches import minibatches
from fedplus.simulation.participation import AbstractCohort, Effort, Stragglers
from fedplus.simulation.round_log import RoundLog
from fedplus.simulation.round_statistics import RoundStatistics, round_statistics
from fedplus.work import DIVERGED, ROSE, Backoff, Each, Work, map_sequentially

MAX_ROUNDS_PER_CALL = 256
"""The most rounds that one call of the program can run."""
MAX_RISE_IN_ERRORS, MAX_LOSS_RATIO = 3.0, 1.5
"""A loss diverges if it rises by more standard errors than this, or to a larger multiple of itself."""
LARGE_COHORT = 2**20
"""If the models of a cohort have at least this many entries, the program avoids a second copy."""
EACH_BY_NAME: dict[str, Each] = {"vmap": jax.vmap, "map": map_sequentially}
"""The ways to map a function over the cohort, by the ``each`` argument of ``simulate``."""


class Data(NamedTuple):
    """The samples of a federation on the device."""

    x: Array
    y: Array
    start: Array
    """(N,): the first row of each party."""
    size: Array
    """(N,): the number of rows of each party."""


class Plan(NamedTuple):
    """The static part of a program. It is hashable: another run with the same plan compiles nothing."""

    model: Model
    parties: int
    """N."""
    state_rows: int
    """The number of rows in the state: N, one page of a store, or K if the method is stateless."""
    batch_size: int
    steps: int | None
    """E_k, if it is the same for all parties."""
    max_steps: int | None
    """The largest E_k, if it is close enough to the mean: then all minibatches are drawn before the
    first step, and parties that run in parallel wait for each other. None otherwise."""
    stragglers: Stragglers | None
    faults: tuple[Fault, ...]
    each: Literal["vmap", "map"]
    mesh: Mesh | None
    """Devices that share the cohort and the state."""
    cores: Mesh | None
    """CPU cores that share the cohort; each of them has the whole state."""
    has_lanes: bool
    """True if lane and state have an additional leading axis for several methods or seeds."""


class SampleRanges(NamedTuple):
    """The rows of ``Data`` that are each party's validation samples."""

    start: Array
    """(N,)"""
    size: Array
    """(N,)"""


class Inputs(NamedTuple):
    """The arrays that a program reads and does not change."""

    data: Data
    effort: Effort
    cohort: AbstractCohort
    weights: Vector | None
    row_of_party: Array | None = None
    """(N,): the row of each party in the state, if the state is a page. None: row k is party k's."""
    validation: SampleRanges | None = None
    """The validation samples, for methods that compare models on them."""
    fault_mask: Array | None = None
    """(faults, N): True if the party has the fault."""


class Lane(NamedTuple):
    """One run of a sweep: its method, its random key and its initial model."""

    algorithm: AbstractAlgorithm[Any]
    key: Array
    w_first: Vector


class RunState(NamedTuple):
    """What a run carries from round to round, stacked if the program has lanes."""

    method: Any
    """The method's state."""
    backoff: Backoff
    """(N,) entries: the step sizes with which the parties begin the next round."""


def unravel_function(model: Model) -> Callable[[Vector], Any]:
    """Return the function from a flat vector to the parameters of the model."""
    shapes = jax.eval_shape(model.init, jax.random.key(0))
    return ravel(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)).unravel


def make_gradient(model: Model, data: Data) -> ParameterGradient:
    """Return the function (parameters, rows) ↦ gradient of the mean loss on these rows."""

    def loss(params: Any, rows: Any) -> Array:
        return jnp.mean(sample_losses(model, data, params, rows))

    return ParameterGradient(jax.grad(loss), unravel_function(model), loss)


def sample_losses(model: Model, data: Data, params: Any, rows: Any) -> Array:
    """Return the loss on each of these rows."""
    losses: Array = model.task.loss(model.apply(params, data.x[rows]), data.y[rows])
    return losses


def make_divergence_test(
    model: Model, data: Data, w_first: Vector
) -> Callable[[Vector, Vector, Any], Array]:
    """Return the test whether local steps made a model worse, ``Work.judge``.

    It compares the loss on the first minibatch of the round with that of the model before the steps and
    with that of the untrained model. A loss is worse if it is higher by ``MAX_RISE_IN_ERRORS`` standard
    errors of the mean difference, or more than ``MAX_LOSS_RATIO`` times as high. If the steps raised
    it as much as that, it is worse than that of the untrained model if it is higher at all.
    """
    unravel = unravel_function(model)

    def judge(before: Vector, after: Vector, batches: Any) -> Array:
        rows = batch_at(batches, jnp.int32(0))
        old, new, untrained = (
            sample_losses(model, data, unravel(w), rows) for w in (before, after, w_first)
        )

        def is_above(reference: Array, tolerance: Any = 1.0) -> Array:
            difference = (new - reference).reshape(-1)
            error = jnp.std(difference) / difference.size**0.5
            size = jnp.mean(jnp.abs(reference))
            allowed = jnp.minimum(MAX_RISE_IN_ERRORS * error, (MAX_LOSS_RATIO - 1) * size)
            exceeds: Array = ~(jnp.mean(difference) <= tolerance * allowed)  # True for NaN, too.
            return exceeds

        has_risen = is_above(old)
        # A large rise is no chance, even if a few samples have most of it and its error is large, too.
        is_large = ~(jnp.mean(new) <= MAX_LOSS_RATIO * jnp.mean(jnp.abs(old)))
        tolerance = jnp.where(is_large, 0.0, 1.0)
        has_diverged = has_risen & is_above(untrained, tolerance)
        verdict: Array = ROSE * has_risen + DIVERGED * has_diverged
        return verdict

    return judge


def _training_map(plan: Plan) -> Each:
    """Return the map over the cohort for the local steps."""
    if plan.mesh is not None:
        return vmap_over_mesh(plan.mesh)
    each = EACH_BY_NAME[plan.each]
    return each if plan.cores is None else map_in_shards(plan.cores, each)


def _statistics_map(plan: Plan, entries: int) -> Each:
    """Return the map over the cohort for the statistics; it is sequential for large models."""
    if plan.each == "vmap" or entries < LARGE_COHORT:
        return jax.vmap
    return map_sequentially if plan.cores is None else map_in_shards(plan.cores, map_sequentially)


def keys_of_round(key: Array, t: Array) -> Array:
    """Return round t's keys for the cohort, minibatches, numbers of steps, faults and the method."""
    return jax.random.split(jax.random.fold_in(key, t), 5)


def run_round(
    plan: Plan, inputs: Inputs, lane: Lane, run_state: RunState, t: Array
) -> tuple[RunState, RoundStatistics]:
    """Run round t (Algorithm 1, lines 2 to 10); return the next state and the statistics."""
    state, backoff = run_state
    data, effort = inputs.data, inputs.effort
    cohort_key, batch_key, steps_key, fault_key, method_key = keys_of_round(lane.key, t)
    cohort, present = inputs.cohort(cohort_key, t, plan.parties)
    steps, in_time = effort(steps_key, cohort, plan.stragglers)
    if in_time is not None:
        present = in_time if present is None else present & in_time
    rows: Any = cohort
    weights = inputs.weights
    has_some_rows = plan.state_rows < plan.parties or inputs.row_of_party is not None
    if has_some_rows:
        row_of_party = inputs.row_of_party
        rows = np.arange(len(cohort)) if row_of_party is None else row_of_party[cohort]
        if weights is not None:
            weights = jnp.zeros(plan.state_rows, weights.dtype).at[rows].set(weights[cohort])
    algorithm = at_round(lane.algorithm, t)
    backoff_of_cohort = backoff.of(cohort)
    context = AttackContext(fault_key, algorithm.w_global(state), lane.w_first)
    send = transmit(plan.faults, context, inputs.fault_mask)

    def parties_of(rows: Array) -> Array:
        return cohort if has_some_rows else rows  # A partial state sends the cohort's rows only.

    batch_words = jax.random.bits(batch_key, cohort.shape)
    work = Work(
        rows,
        minibatches(
            batch_words,
            data.start[cohort],
            data.size[cohort],
            plan.batch_size,
            None if plan.max_steps is None else plan.max_steps * algorithm.batches_per_step,
            as_array=plan.each == "vmap",
        ),
        steps if plan.steps is None else plan.steps,
        weights=weights,
        present=present,
        transmit=None if send is None else lambda models, rows: send(models, parties_of(rows)),
        key=method_key,
        validation=_validation_batches(inputs.validation, batch_words, cohort, plan.batch_size),
        judge=make_divergence_test(plan.model, data, lane.w_first),
        backoff=backoff_of_cohort,
    )
    grad = make_gradient(plan.model, data)
    state, outcome = algorithm.round(state, work, grad, _training_map(plan))
    backoff = backoff.with_rows(cohort, backoff_of_cohort.after_round(outcome.diverged))
    each = _statistics_map(plan, outcome.solved.size)
    statistics = round_statistics(algorithm, state, rows, outcome, cohort, steps, each)
    return RunState(state, backoff), statistics


def _validation_batches(
    ranges: SampleRanges | None, words: Array, cohort: Array, batch_size: int
) -> Array | None:
    """Return one minibatch (K, B) of each active party's validation samples, if there are any."""
    if ranges is None:
        return None
    start, size = ranges.start[cohort], ranges.size[cohort]
    # The complement is another word, so that these rows do not follow the training rows.
    batches: Array = minibatches(~words, start, size, batch_size, max_steps=1)
    return batches[:, 0]


@partial(jax.jit, static_argnames="plan", donate_argnames="state")
def run_rounds(
    plan: Plan, inputs: Inputs, lane: Lane, state: RunState, begin: Array, end: Array
) -> tuple[RunState, RoundLog]:
    """Run rounds ``begin``, ..., ``end`` − 1 and return the state after them and their log.

    Args:
        plan: The static part of the program.
        inputs: The data and the schedule.
        lane: The method, the key and the initial model, stacked if ``plan.has_lanes``.
        state: The state before the first round. Its memory is reused for the result.
        begin: The first round.
        end: The round after the last one, at most ``begin + MAX_ROUNDS_PER_CALL``.
    """
    program = run_rounds_on_all_cores(plan.cores, partial(_run_rounds, plan), state)
    result: tuple[RunState, RoundLog] = program(inputs, lane, state, begin, end)
    return result


def _run_rounds(
    plan: Plan, inputs: Inputs, lane: Lane, state: RunState, begin: Array, end: Array
) -> tuple[RunState, RoundLog]:
    """Run the rounds on this device; with several cores, each of them calls this function."""
    run: Any = partial(run_round, plan, inputs)
    if plan.mesh is not None:  # The C kernels cannot read rows that XLA has spread over the mesh.
        run = kernels.use_jax_only()(run)
    if plan.has_lanes:
        run = jax.vmap(run, in_axes=(0, 0, None))
    run = jax.jit(run, inline=True)  # So that it is traced once, for the shapes and for the loop.
    shapes = jax.eval_shape(run, lane, state, begin)[1]

    def body(t: Array, carry: tuple[RunState, RoundLog]) -> tuple[RunState, RoundLog]:
        state, log = carry
        state, statistics = run(lane, state, t)
        return state, log.with_round(t - begin, statistics)

    first = state, RoundLog.empty(shapes, MAX_ROUNDS_PER_CALL)
    result: tuple[RunState, RoundLog] = lax.fori_loop(begin, end, body, first)
    return result
