"""From what a person asks for to what the engine takes."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from fedplus._types import Array, Host, Vector
from fedplus.algorithm import AbstractAlgorithm, FedPlus
from fedplus.check import SettingError, require, require_integer, require_number
from fedplus.data.federation import Federation
from fedplus.data.split import put_on_device
from fedplus.models import Model, ravel
from fedplus.simulation.cpu_devices import (
    create_cpu_devices,
    devices_for,
    init_on_all,
    share_read_only,
)
from fedplus.simulation.engine import EACH, Data, Inputs, Lane, Plan, Rows
from fedplus.simulation.faults import fault_mask, require_faults
from fedplus.simulation.mesh import replicate, require_mesh, shard_rows
from fedplus.simulation.minibatches import steps_per_epoch
from fedplus.simulation.schedule import Effort, Stragglers, cohort_of
from fedplus.simulation.validate import require_fit, require_kinds
from fedplus.work import first_model

LARGE = 5_000
"""Parameters from which on one party at a time is faster on a CPU (``benchmarks/ours.py --each``)."""
PAGE = 2048
"""Rows in memory at a time, where the others are in a store; more if a cohort is larger."""
UNEVEN = 2.0
"""How many times the mean E_k the largest may be before the others should not wait for it."""


class Setup(NamedTuple):
    """All that a run is made of."""

    plan: Plan
    inputs: Inputs
    lane: Lane
    state: Any
    runs: tuple[tuple[AbstractAlgorithm[Any], int], ...]
    """Method and seed of each lane."""
    federation: Federation

    def split(self, state: Any) -> list[tuple[AbstractAlgorithm[Any], Any]]:
        """Method and state of each lane."""
        return [(algorithm, one) for algorithm, _, one in self.finished(state)]

    def finished(self, state: Any) -> Iterator[tuple[AbstractAlgorithm[Any], int, Any]]:
        """Method, seed and state of each lane."""
        for i, (algorithm, seed) in enumerate(self.runs):
            one = jax.tree.map(lambda leaf, i=i: leaf[i], state) if self.plan.lanes else state
            yield algorithm, seed, one


def set_up(
    algorithms: Sequence[AbstractAlgorithm[Any]], federation: Federation, model: Model, *,
    rounds: int, seeds: Sequence[int], cohort: Any = None, steps: Any = None, epochs: Any = None,
    batch_size: int = 20, weights: Any = None, stragglers: Stragglers | None = None,
    faults: Any = (), each: Literal["auto", "vmap", "map"] = "auto",
    mesh: Mesh | None = None, cores: int | Literal["auto"] = "auto", paged: bool = False,
    keep: bool = False,
) -> Setup:  # fmt: skip
    """Check everything, and bring the data to the device.

    ``keep``: hold every party's own model, even if the method never looks at it again.
    """
    create_cpu_devices()
    require(len(algorithms) > 0 and len(seeds) > 0, "sweep", "none", "a method and a seed at least")
    for algorithm in algorithms:
        require_kinds(algorithm, federation, model)
    require_integer("rounds", rounds)
    require_integer("batch_size", batch_size)
    require(each in ("auto", *EACH), "each", repr(each), '"auto", "vmap" or "map"')
    require_mesh(mesh)
    require(
        mesh is None or each in ("auto", "vmap"), "each", repr(each), '"vmap" with a mesh',
        "Devices work on their parties side by side.",
    )  # fmt: skip
    require_fit(federation, model)
    n = federation.parties
    who = cohort_of(cohort, n)
    alone = cores in ("auto", 1)
    require(
        mesh is None or alone, "cores", cores, '"auto" with a mesh, which shares the work itself'
    )
    if paged:
        _require_pageable(algorithms, seeds, one_device=mesh is None and alone)
    effort = _effort(steps, epochs, federation.train.size, batch_size)
    steps_of = _total(effort)
    same = int(steps_of[0]) if stragglers is None and np.ptp(steps_of) == 0 else None
    runs = tuple((algorithm, int(seed)) for algorithm in algorithms for seed in seeds)
    lanes = [_lane(algorithm, seed, model) for algorithm, seed in runs]
    rows = rows_per_page(who.size, n) if paged else n
    stateless = all(algorithm.is_stateless() for algorithm in algorithms)
    if stateless and who.size < n and not (keep or paged or mesh):
        rows = who.size
    train = federation.train
    shared = None if mesh or paged else devices_for(cores, who.size)
    how: Any = "vmap" if mesh else _chosen(each, lanes[0].w_first.size, effort)
    plan = Plan(
        model=model,
        parties=n,
        rows=rows,
        batch_size=int(batch_size),
        steps=same,
        most=None if _waits(effort) else int(steps_of.max()),
        stragglers=stragglers,
        faults=require_faults(faults, n),
        each=how,
        mesh=mesh,
        cores=shared,
        lanes=len(runs) > 1,
    )
    data, held = _samples(federation, compares=algorithms[0].compares)
    inputs = Inputs(
        data,
        jax.device_put(effort),
        who,
        _weights(weights, train.size),
        held=held,
        bad=fault_mask(plan.faults, n),
    )
    lane = _stacked(lanes) if plan.lanes else lanes[0]
    plain = weights is None and not (plan.faults or mesh or paged or plan.lanes)
    remembers = plain and isinstance(algorithms[0], FedPlus)
    begin: dict[str, Any] = {"rows": rows, "cohort": who.size if remembers else None}
    if shared is not None:
        state, read = _begun(lanes, **begin, cores=shared), share_read_only(shared, inputs)
    elif mesh is not None:
        state = shard_rows(mesh, runs[0][0], _first_state(lanes, **begin), plan.lanes)
        read = replicate(mesh, inputs)
    else:  # Where the data is, as the program will leave it: else it compiles twice.
        state = jax.device_put(_first_state(lanes, **begin), inputs.data.x.sharding)
        read = inputs
    return Setup(plan, read, replicate(mesh or shared, lane), state, runs, federation)


def _first_state(lanes: Sequence[Lane], rows: int, cohort: int | None) -> Any:
    """Start from a copy of the model, since the program takes the state's memory over."""

    def of(lane: Lane) -> Any:
        w_first = jnp.array(lane.w_first, copy=True)
        if cohort is None:
            return lane.algorithm.init(w_first, rows)
        assert isinstance(lane.algorithm, FedPlus)
        return lane.algorithm.init(w_first, rows, cohort)

    states = [of(lane) for lane in lanes]
    return _stacked(states) if len(lanes) > 1 else states[0]


@partial(jax.jit, static_argnames=("rows", "cohort", "cores"))
def _begun(lanes: Sequence[Lane], rows: int, cohort: int | None, cores: Mesh) -> Any:
    """Let every core make the state for itself: handed to them, it would be in memory once more."""
    return init_on_all(cores, partial(_first_state, lanes, rows, cohort))


def _samples(federation: Federation, compares: bool) -> tuple[Data, Rows | None]:
    """The training samples; where a method compares on them, the validation samples behind them."""
    train, held = federation.train, federation.validation
    if not compares:
        return Data(*(put_on_device(part) for part in train)), None
    require(
        held is not None, "federation", "no validation samples",
        "one with validation samples, on which this method compares models",
        "Set validation_share=0.2.",
    )  # fmt: skip
    assert held is not None
    both = [np.concatenate(pair) for pair in zip(train[:2], held[:2], strict=True)]
    rows = Rows(put_on_device(held.start + np.int32(len(train.x))), put_on_device(held.size))
    return Data(*(put_on_device(part) for part in (*both, train.start, train.size))), rows


def rows_per_page(cohort: int, parties: int) -> int:
    """Rows that are in memory at a time, where the others are in a store."""
    return min(parties, max(cohort, PAGE))


def _require_pageable(algorithms: Sequence[Any], seeds: Sequence[int], one_device: bool) -> None:
    method = algorithms[0]
    require(
        getattr(method, "over", None) == "active", "store", f"{type(method).__name__} over all parties",
        'used with a method that aggregates the active parties alone (over="active")',
        "Aggregating all of them would read the whole file every round.",
    )  # fmt: skip
    one = len(algorithms) == len(seeds) == 1 and one_device
    require(one, "store", "several runs or devices", "used for one run on one device at a time")


def _lane(algorithm: AbstractAlgorithm[Any], seed: int, model: Model) -> Lane:
    for_rounds, w_first = _first_model(model, jax.random.key(seed))
    return Lane(algorithm, for_rounds, first_model(w_first, parties=1))


@partial(jax.jit, static_argnames="model")
def _first_model(model: Model, key: Array) -> tuple[Array, Vector]:
    """The key for the rounds, and the model to begin with; one program rather than one an operation."""
    for_init, for_rounds = jax.random.split(key)
    return for_rounds, ravel(model.init(for_init)).w


def _stacked(trees: Sequence[Any]) -> Any:
    structures = {str(jax.tree.structure(tree)) for tree in trees}
    if len(structures) > 1:
        raise SettingError(
            "The methods of one sweep must differ in numbers alone (δ, σ, η), got methods of different "
            "kinds. Call sweep once for each kind."
        )
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def _effort(steps: Any, epochs: Any, size: Host, batch_size: int) -> Effort:
    n = len(size)
    require(
        (steps is None) != (epochs is None), "steps and epochs", f"{steps} and {epochs}",
        "one of them given", "How long does a party work in a round?",
    )  # fmt: skip
    name, given = ("steps", steps) if epochs is None else ("epochs", epochs)
    require_number(given, name, above=0)
    units = np.asarray(given)
    require(
        units.shape in ((), (n,)),
        name,
        f"shape {units.shape}",
        f"one number, or ({n},), one a party",
    )
    units = np.broadcast_to(units, (n,))
    if epochs is None:
        require(bool(np.all(units == np.round(units))), "steps", given, "whole numbers")
        return Effort(units.astype(np.int32), np.ones(n, np.int32))
    if np.all(units == np.round(units)):
        return Effort(units.astype(np.int32), steps_per_epoch(size, batch_size))
    return Effort(np.ones(n, np.int32), np.ceil(units * size / batch_size).astype(np.int32))


def _total(effort: Effort) -> Host:
    """(N,): E_k, in steps."""
    total: Host = np.asarray(effort.units) * np.asarray(effort.unit)
    return total


def _waits(effort: Effort) -> bool:
    """Whether most parties would wait long for the one with the most steps."""
    total = _total(effort)
    return bool(total.max() > UNEVEN * total.mean())


def _weights(given: Any, size: Host) -> Array | None:
    if given is None:
        return None
    if isinstance(given, str):
        require(given == "size", "weights", repr(given), '"size", None or one number a party')
        given = size / size.mean()
    require_number(given, "weights", least=0)
    shape = np.shape(given)
    require(shape == size.shape, "weights", f"shape {shape}", f"{size.shape}, one a party")
    return jnp.asarray(given, jnp.result_type(float))


def _chosen(each: str, parameters: int, effort: Effort) -> Any:
    if each != "auto":
        return each
    on_cpu = jax.default_backend() == "cpu"
    return "map" if on_cpu and (parameters > LARGE or _waits(effort)) else "vmap"
