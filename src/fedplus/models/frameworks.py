"""``from_equinox`` and ``from_flax``: modules of these frameworks as models.

A framework is imported only when its function is called.
"""

from collections.abc import Callable
from typing import Any

import jax

from fedplus._types import Array
from fedplus.check import require
from fedplus.extras import import_extra
from fedplus.models.model import Model, Params
from fedplus.models.task import CLASSIFICATION, Task

_STATELESS = (
    "A party has nothing but parameters between rounds. "
    "Use a layer without state (LayerNorm, GroupNorm, no dropout)."
)


def from_equinox(
    module: Any, *, task: Task = CLASSIFICATION, batched: bool = False, name: str | None = None
) -> Model:
    """Return an Equinox module as a model; its floating-point arrays are the parameters.

    Args:
        module: A module, whose parameters are the initial ones; or ``key -> module``, from which
            ``init`` creates new parameters.
        task: Loss and score of the outputs.
        batched: Whether the module takes a batch. Equinox's own take one sample and are vmapped.
        name: Name for reports; by default the module's class.

    Raises:
        SettingError: The module has state (BatchNorm) or draws random numbers (Dropout).

    Example: ``from_equinox(lambda key: eqx.nn.MLP(4, 3, 16, 2, key=key))``.
    """
    eqx = import_extra("equinox", "equinox", "from_equinox")
    is_instance = isinstance(module, eqx.Module)
    kind, argument = eqx.Module, "from_equinox's module"
    instance = module if is_instance else _call_factory(module, argument, kind)
    _require_stateless_equinox(eqx, instance)
    params, rest = eqx.partition(instance, eqx.is_inexact_array)
    _require_params(params, instance)

    def init(key: Array) -> Params:
        return params if is_instance else eqx.filter(module(key), eqx.is_inexact_array)

    def apply(params: Params, x: Array) -> Array:
        combined: Callable[[Array], Array] = eqx.combine(params, rest)
        return combined(x) if batched else jax.vmap(combined)(x)

    return Model(init, apply, task, name or type(instance).__name__)


def _require_stateless_equinox(eqx: Any, module: Any) -> None:
    special = (eqx.nn.StateIndex, eqx.nn.Dropout)
    leaves = jax.tree.leaves(module, is_leaf=lambda node: isinstance(node, special))
    state = set()
    for leaf in leaves:
        if isinstance(leaf, eqx.nn.StateIndex):
            state.add("a layer that updates state")
        if isinstance(leaf, eqx.nn.Dropout) and leaf.p > 0 and not leaf.inference:
            state.add("a Dropout in use")
    _require_stateless("from_equinox", module, sorted(state))


def from_flax(
    module: Any, sample: Any = None, *, task: Task = CLASSIFICATION, name: str | None = None
) -> Model:
    """Return a Flax module as a model; its Linen ``params`` or ``nnx.Param`` are the parameters.

    Args:
        module: A Linen module; an NNX module, whose parameters are the initial ones; or
            ``key -> NNX module``, from which ``init`` creates new parameters.
        sample: A batch of inputs (B, ...), from which a Linen module infers its sizes.
        task: Loss and score of the outputs.
        name: Name for reports; by default the module's class.

    Raises:
        SettingError: The module has state (BatchNorm) or draws random numbers (Dropout).

    Example: ``from_flax(linen.Dense(3), x[:1])``, ``from_flax(nnx.Linear(4, 3, rngs=nnx.Rngs(0)))``.
    """
    linen = import_extra("flax.linen", "flax", "from_flax")
    if isinstance(module, linen.Module):
        return _from_linen(module, sample, task, name)
    nnx = import_extra("flax.nnx", "flax", "from_flax")
    is_instance = isinstance(module, nnx.Module)
    kind, argument = nnx.Module, "from_flax's module"
    instance = module if is_instance else _call_factory(module, argument, kind)
    graph, params, rest = nnx.split(instance, nnx.Param, ...)
    state = sorted({type(variable).__name__ for _, variable in nnx.to_flat_state(rest)})
    _require_stateless("from_flax", instance, state)
    _require_params(params, instance)

    def init(key: Array) -> Params:
        initial = params if is_instance else nnx.state(module(key), nnx.Param)
        return nnx.to_pure_dict(initial)

    def apply(params: Params, x: Array) -> Array:
        outputs: Array = nnx.merge(graph, params)(x)
        return outputs

    return Model(init, apply, task, name or type(instance).__name__)


def _from_linen(module: Any, sample: Any, task: Task, name: str | None) -> Model:
    advice = "Linen infers its sizes from it, e.g. from_flax(module, x[:1])."
    require(sample is not None, "from_flax's sample", None, "a batch of inputs", advice)
    errors = import_extra("flax.errors", "flax", "from_flax")
    try:
        variables = jax.eval_shape(module.init, jax.random.key(0), sample)
        _require_stateless("from_flax", module, sorted(set(variables) - {"params"}))
        jax.eval_shape(module.apply, variables, sample)
    except errors.InvalidRngError:
        _require_stateless("from_flax", module, ["random numbers (a Dropout in use)"])
    _require_params(variables, module)

    def init(key: Array) -> Params:
        return module.init(key, sample)["params"]

    def apply(params: Params, x: Array) -> Array:
        outputs: Array = module.apply({"params": params}, x)
        return outputs

    return Model(init, apply, task, name or type(module).__name__)


def _call_factory(factory: Any, name: str, kind: type) -> Any:
    """Return the module that ``factory(key)`` creates."""
    module_class = f"{kind.__module__.split('.')[0]}'s {kind.__name__}"
    allowed = f"an instance of {module_class}, or a function key -> {kind.__name__}"
    require(callable(factory) and not _is_class(factory, kind), name, repr(factory), allowed)
    module = factory(jax.random.key(0))
    got = f"a function that returns {type(module).__name__}"
    require(isinstance(module, kind), name, got, allowed)
    return module


def _is_class(factory: Any, kind: type) -> bool:
    return isinstance(factory, type) and issubclass(factory, kind)


def _require_stateless(adapter: str, module: Any, state: list[str]) -> None:
    name = f"{adapter}'s {type(module).__name__}"
    require(not state, name, ", ".join(state), "free of state and random numbers", _STATELESS)


def _require_params(params: Any, module: Any) -> None:
    has_params = bool(jax.tree.leaves(params))
    got = f"{type(module).__name__} without any"
    require(has_params, "module", got, "one with parameters to train")
