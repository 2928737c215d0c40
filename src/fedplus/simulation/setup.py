"""``set_up``: check the arguments of ``simulate`` and turn them into the engine's inputs."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from fedplus._types import Array, NumpyArray, Vector
from fedplus.algorithm import AbstractAlgorithm, FedPlus
from fedplus.check import SettingError, require, require_integer, require_number
from fedplus.data.federation import Federation
from fedplus.data.split import put_on_device
from fedplus.models import Model, ravel
from fedplus.parameter_groups import ByLayer
from fedplus.schedules import at_round
from fedplus.simulation.cpu_devices import (
    create_cpu_devices,
    init_on_all_cores,
    make_cpu_mesh,
    share_read_only,
)
from fedplus.simulation.engine import (
    EACH_BY_NAME,
    Data,
    Inputs,
    Lane,
    Plan,
    RunState,
    SampleRanges,
)
from fedplus.simulation.faults import fault_mask, require_faults
from fedplus.simulation.mesh import replicate, require_mesh, shard_rows
from fedplus.simulation.minibatches import steps_per_epoch
from fedplus.simulation.participation import Effort, Stragglers, Uniform, make_cohort
from fedplus.simulation.validate import require_fit, require_types
from fedplus.work import Backoff, first_model

LARGE_MODEL = 5_000
"""Parameters from which one party at a time is faster on a CPU (``benchmarks/ours.py --each``)."""
PAGE_ROWS = 2048
"""Rows in memory if the parties' models are in a store; more if a cohort is larger."""
MAX_IMBALANCE = 2.0
"""The largest ratio of the longest to the mean E_k at which the other parties wait for the longest."""


class Setup(NamedTuple):
    """A run that is ready to start."""

    plan: Plan
    inputs: Inputs
    lane: Lane
    """The lane, or all lanes stacked if ``plan.has_lanes``."""
    state: RunState
    """The initial state, stacked likewise."""
    runs: tuple[tuple[AbstractAlgorithm[Any], int], ...]
    """Method and seed of each lane."""
    federation: Federation

    def iter_lanes(self, state: RunState) -> Iterator[tuple[AbstractAlgorithm[Any], int, Any]]:
        """Yield method, seed and the method's state of each lane, from the state of all lanes."""
        for i, (algorithm, seed) in enumerate(self.runs):
            lane_state = state.method
            if self.plan.has_lanes:
                lane_state = jax.tree.map(lambda leaf, i=i: leaf[i], state.method)
            yield algorithm, seed, lane_state


def set_up(
    algorithms: Sequence[AbstractAlgorithm[Any]], federation: Federation, model: Model, *,
    rounds: int, seeds: Sequence[int], cohort: Any = None, steps: Any = None, epochs: Any = None,
    batch_size: int = 20, weights: Any = None, stragglers: Stragglers | None = None,
    faults: Any = (), each: Literal["auto", "vmap", "map"] = "auto",
    mesh: Mesh | None = None, cores: int | Literal["auto"] = "auto", paged: bool = False,
    keep_all_models: bool = False,
) -> Setup:  # fmt: skip
    """Check all arguments, choose how the program runs, and put the data on the device.

    Every method runs with every seed; the methods must differ in numbers only. With ``paged`` the
    parties' models are in a store, and the state has one page of rows. With ``keep_all_models`` the
    state has every party's own model even if the method is stateless. The other arguments are those of
    ``simulate``.

    Raises:
        SettingError: An argument is invalid or does not fit the others.
    """
    create_cpu_devices()
    require(
        len(algorithms) > 0 and len(seeds) > 0, "sweep",
        f"{len(algorithms)} methods and {len(seeds)} seeds", "called with at least one of each",
    )  # fmt: skip
    for algorithm in algorithms:
        require_types(algorithm, federation, model)
    require_integer("rounds", rounds)
    require_integer("batch_size", batch_size)
    require(each in ("auto", *EACH_BY_NAME), "each", repr(each), '"auto", "vmap" or "map"')
    require_mesh(mesh)
    require(
        mesh is None or each in ("auto", "vmap"), "each", repr(each), '"vmap" with a mesh',
        "The devices of a mesh train their parties in parallel.",
    )  # fmt: skip
    require_fit(federation, model)
    n = federation.parties
    cohort_rule = make_cohort(cohort, n)
    is_core_count_default = cores in ("auto", 1)
    require(
        mesh is None or is_core_count_default, "cores", cores,
        '"auto" with a mesh, which shares the work itself',
    )  # fmt: skip
    if paged:
        _require_pageable(algorithms, seeds, one_device=mesh is None and is_core_count_default)
    effort = _make_effort(steps, epochs, federation.train.size, batch_size)
    steps_of_party = _total_steps(effort)
    for algorithm in algorithms:
        _require_steps_for_layers(algorithm, int(steps_of_party.max()))
    has_equal_steps = stragglers is None and np.ptp(steps_of_party) == 0
    runs = tuple((algorithm, int(seed)) for algorithm in algorithms for seed in seeds)
    lanes = [_make_lane(algorithm, seed, model) for algorithm, seed in runs]
    rows = rows_per_page(cohort_rule.size, n) if paged else n
    is_stateless = all(algorithm.is_stateless() for algorithm in algorithms)
    if is_stateless and cohort_rule.size < n and not (keep_all_models or paged or mesh):
        rows = cohort_rule.size
    cpu_mesh = None if mesh or paged else make_cpu_mesh(cores, cohort_rule.size)
    plan = Plan(
        model=model,
        parties=n,
        state_rows=rows,
        batch_size=int(batch_size),
        steps=int(steps_of_party[0]) if has_equal_steps else None,
        max_steps=None if _is_uneven(effort) else int(steps_of_party.max()),
        stragglers=stragglers,
        faults=require_faults(faults, n),
        each="vmap" if mesh else choose_each(each, lanes[0].w_first.size, effort),
        mesh=mesh,
        cores=cpu_mesh,
        has_lanes=len(runs) > 1,
    )
    data, validation = _put_samples(federation, algorithms[0].needs_validation)
    inputs = Inputs(
        data,
        jax.device_put(effort),
        cohort_rule,
        _make_weights(weights, federation.train.size),
        validation=validation,
        fault_mask=fault_mask(plan.faults, n),
    )
    lane = _stack(lanes) if plan.has_lanes else lanes[0]
    is_plain = weights is None and not (plan.faults or mesh or paged or plan.has_lanes)
    has_memory = is_plain and isinstance(algorithms[0], FedPlus)
    shape = StateShape(
        n, rows, cohort_rule.size if has_memory else None,
        track_joining=not (is_everyone_active(plan, inputs) or is_stateless),
    )  # fmt: skip
    if cpu_mesh is not None:
        state = _init_state_on_cores(lanes, shape, cores=cpu_mesh)
        inputs = share_read_only(cpu_mesh, inputs)
    elif mesh is not None:
        initial = _init_state(lanes, shape)
        state = RunState(
            shard_rows(mesh, runs[0][0], initial.method, plan.has_lanes),
            replicate(mesh, initial.backoff),
        )
        inputs = replicate(mesh, inputs)
    else:  # With the sharding that the program's result has; otherwise it compiles twice.
        state = jax.device_put(_init_state(lanes, shape), inputs.data.x.sharding)
    return Setup(plan, inputs, replicate(mesh or cpu_mesh, lane), state, runs, federation)


def is_everyone_active(plan: Plan, inputs: Inputs) -> bool:
    """Return True if all parties take part in every round, with all of their work."""
    cohort = inputs.cohort
    is_everyone = isinstance(cohort, Uniform) and cohort.size == plan.parties
    return is_everyone and plan.stragglers is None


class StateShape(NamedTuple):
    """What determines the shape of the initial state, besides the method."""

    parties: int
    """N."""
    rows: int
    """The number of parties in the state."""
    cohort: int | None
    """K, or None if the aggregator needs no memory."""
    track_joining: bool
    """Whether the state records which parties have taken part."""


def _init_state(lanes: Sequence[Lane], shape: StateShape) -> RunState:
    """Return the initial state of all lanes.

    The state starts from a copy of the model, because the program overwrites the state.
    """

    def init(lane: Lane) -> RunState:
        w_first = jnp.array(lane.w_first, copy=True)
        if isinstance(lane.algorithm, FedPlus):
            method = lane.algorithm.init(w_first, shape.rows, shape.cohort, shape.track_joining)
        else:
            method = at_round(lane.algorithm, 0).init(w_first, shape.rows)
        return RunState(method, Backoff.none(shape.parties))

    states = [init(lane) for lane in lanes]
    state: RunState = _stack(states) if len(lanes) > 1 else states[0]
    return state


@partial(jax.jit, static_argnames=("shape", "cores"))
def _init_state_on_cores(lanes: Sequence[Lane], shape: StateShape, cores: Mesh) -> Any:
    """Let every core make the state for itself, which avoids a further copy in memory."""
    return init_on_all_cores(cores, partial(_init_state, lanes, shape))


def _put_samples(
    federation: Federation, needs_validation: bool
) -> tuple[Data, SampleRanges | None]:
    """Put the training samples on the device, followed by validation samples if they are needed."""
    train, validation = federation.train, federation.validation
    if not needs_validation:
        return Data(*(put_on_device(part) for part in train)), None
    require(
        validation is not None, "federation", "no validation samples",
        "one with validation samples, on which this method compares models",
        "Set validation_share to 0.2 (in the shell: --set validation_share=0.2).",
    )  # fmt: skip
    assert validation is not None
    both = [np.concatenate(pair) for pair in zip(train[:2], validation[:2], strict=True)]
    start = validation.start + np.int32(len(train.x))
    ranges = SampleRanges(put_on_device(start), put_on_device(validation.size))
    return Data(*(put_on_device(part) for part in (*both, train.start, train.size))), ranges


def rows_per_page(cohort: int, parties: int) -> int:
    """Return the number of rows in memory if the parties' models are in a store."""
    return min(parties, max(cohort, PAGE_ROWS))


def _require_pageable(algorithms: Sequence[Any], seeds: Sequence[int], one_device: bool) -> None:
    method = algorithms[0]
    require(
        getattr(method, "over", None) == "active", "store",
        type(method).__name__ + ('(..., over="all")' if hasattr(method, "over") else ""),
        'used with FedPlus(..., over="active"), e.g. presets.fedavg(...)',
        "Other methods would read the models of all parties in every round.",
    )  # fmt: skip
    fine_tune = getattr(method, "fine_tune", 0)
    require(
        fine_tune == 0, "store", f"a method with fine_tune = {fine_tune}", "used with fine_tune = 0",
        "The parties' adapted models would have to be in memory at once.",
    )  # fmt: skip
    is_single = len(algorithms) == len(seeds) == 1 and one_device
    require(is_single, "store", "several runs or devices", "used for one run on one device")


def _make_lane(algorithm: AbstractAlgorithm[Any], seed: int, model: Model) -> Lane:
    round_key, w_first = init_model(model, jax.random.key(seed))
    return Lane(algorithm, round_key, first_model(w_first, parties=1))


@partial(jax.jit, static_argnames="model")
def init_model(model: Model, key: Array) -> tuple[Array, Vector]:
    """Return the key for the rounds and the initial model, computed in one program."""
    init_key, round_key = jax.random.split(key)
    return round_key, ravel(model.init(init_key)).w


def _stack(trees: Sequence[Any]) -> Any:
    """Return one pytree with an additional leading axis for the lanes."""
    structures = {str(jax.tree.structure(tree)) for tree in trees}
    if len(structures) > 1:
        raise SettingError(
            "The methods of one sweep must differ in numbers only (δ, σ, η), got methods of different "
            "kinds. Call sweep once for each kind."
        )
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def _make_effort(steps: Any, epochs: Any, size: NumpyArray, batch_size: int) -> Effort:
    """Return the local work of each party, from ``steps`` or ``epochs``."""
    n = len(size)
    require(
        (steps is None) != (epochs is None), "steps or epochs", "neither" if steps is None else "both",
        "given, and only one of them", "Each of them says how long a party trains in a round.",
    )  # fmt: skip
    name, value = ("steps", steps) if epochs is None else ("epochs", epochs)
    require_number(value, name, above=0)
    units = np.asarray(value)
    require(
        units.shape in ((), (n,)),
        name,
        f"shape {units.shape}",
        f"one number, or ({n},), one number per party",
    )
    units = np.broadcast_to(units, (n,))
    if epochs is None:
        require(bool(np.all(units == np.round(units))), "steps", value, "whole numbers")
        return Effort(units.astype(np.int32), np.ones(n, np.int32))
    if np.all(units == np.round(units)):
        return Effort(units.astype(np.int32), steps_per_epoch(size, batch_size))
    return Effort(np.ones(n, np.int32), np.ceil(units * size / batch_size).astype(np.int32))


def _require_steps_for_layers(algorithm: Any, most_steps: int) -> None:
    """Require that a round has steps for every layer, also for one that is trained after another."""
    begin = getattr(getattr(algorithm, "local", None), "begin_step", None)
    values = list(begin.values.values()) if isinstance(begin, ByLayer) else [begin]
    last = max((value for value in values if isinstance(value, (int, float))), default=-1)
    require(
        last < most_steps, "steps", f"{most_steps} per round",
        f"more than {last:g}, the steps of the layers that are trained first",
        "For FedRep, set steps higher or head_steps lower.",
    )  # fmt: skip


def _total_steps(effort: Effort) -> NumpyArray:
    """Return E_k, (N,)."""
    total: NumpyArray = np.asarray(effort.units) * np.asarray(effort.steps_per_unit)
    return total


def _is_uneven(effort: Effort) -> bool:
    """Return whether most parties would wait long for the one with the most steps."""
    total = _total_steps(effort)
    return bool(total.max() > MAX_IMBALANCE * total.mean())


def _make_weights(weights: Any, size: NumpyArray) -> Array | None:
    """Return the ``weights`` argument of ``simulate`` as an array (N,), or None for equal weights."""
    if weights is None:
        return None
    if isinstance(weights, str):
        require(weights == "size", "weights", repr(weights), '"size", None or one number per party')
        weights = size / size.mean()
    require_number(weights, "weights", least=0)
    shape = np.shape(weights)
    require(shape == size.shape, "weights", f"shape {shape}", f"{size.shape}, one per party")
    return jnp.asarray(weights, jnp.result_type(float))


def choose_each(each: Literal["auto", "vmap", "map"], parameters: int, effort: Effort) -> Any:
    """Return how to map over the cohort: sequentially on a CPU for large models or uneven work."""
    if each != "auto":
        return each
    on_cpu = jax.default_backend() == "cpu"
    return "map" if on_cpu and (parameters > LARGE_MODEL or _is_uneven(effort)) else "vmap"
