"""Equinox and Flax modules as models. Either is imported here only when it is asked for."""

import importlib
from collections.abc import Callable
from typing import Any

import jax

from fedplus._types import Array
from fedplus.check import SettingError, require
from fedplus.models.model import Model, Params
from fedplus.models.task import CLASSIFICATION, Task

_STATELESS = (
    "Between rounds a party keeps parameters alone. "
    "Use a layer without state (LayerNorm, GroupNorm, no dropout)."
)


def from_equinox(
    module: Any, *, task: Task = CLASSIFICATION, batched: bool = False, name: str | None = None
) -> Model:
    """An Equinox module: its floating-point arrays are the parameters, all else stays as it is.

    Args:
        module: A module, whose parameters are where every run begins; or ``key -> module``, from
            which ``init`` makes new parameters.
        task: What the outputs mean.
        batched: Whether the module takes a batch. Equinox's own take one sample and are vmapped.
        name: For reports; the module's class unless given.

    A module with state (BatchNorm) or that draws random numbers (Dropout) is refused.

    Example: ``from_equinox(lambda key: eqx.nn.MLP(4, 3, 16, 2, key=key))``.
    """
    eqx = _import("equinox", "equinox")
    given = isinstance(module, eqx.Module)
    made = module if given else _made(module, "from_equinox's module", eqx.Module)
    _refuse_equinox_state(eqx, made)
    params, rest = eqx.partition(made, eqx.is_inexact_array)
    _require_params(params, made)

    def init(key: Array) -> Params:
        return params if given else eqx.filter(module(key), eqx.is_inexact_array)

    def apply(params: Params, x: Array) -> Array:
        whole: Callable[[Array], Array] = eqx.combine(params, rest)
        return whole(x) if batched else jax.vmap(whole)(x)

    return Model(init, apply, task, name or type(made).__name__)


def _refuse_equinox_state(eqx: Any, module: Any) -> None:
    special = (eqx.nn.StateIndex, eqx.nn.Dropout)
    leaves = jax.tree.leaves(module, is_leaf=lambda node: isinstance(node, special))
    kept = set()
    for leaf in leaves:
        if isinstance(leaf, eqx.nn.StateIndex):
            kept.add("a layer that updates state")
        if isinstance(leaf, eqx.nn.Dropout) and leaf.p > 0 and not leaf.inference:
            kept.add("a Dropout in use")
    _require_stateless("from_equinox", module, sorted(kept))


def from_flax(
    module: Any, sample: Any = None, *, task: Task = CLASSIFICATION, name: str | None = None
) -> Model:
    """A Flax module, Linen or NNX: its ``params`` (its ``nnx.Param``) are the parameters.

    Args:
        module: A Linen module; an NNX module, whose parameters are where every run begins; or
            ``key -> NNX module``, from which ``init`` makes new parameters.
        sample: A batch of inputs (B, ...), which a Linen module takes its sizes from.
        task: What the outputs mean.
        name: For reports; the module's class unless given.

    A module with state (BatchNorm) or that draws random numbers (Dropout) is refused.

    Example: ``from_flax(linen.Dense(3), x[:1])``, ``from_flax(nnx.Linear(4, 3, rngs=nnx.Rngs(0)))``.
    """
    linen = _import("flax.linen", "flax")
    if isinstance(module, linen.Module):
        return _from_linen(module, sample, task, name)
    nnx = _import("flax.nnx", "flax")
    given = isinstance(module, nnx.Module)
    made = module if given else _made(module, "from_flax's module", nnx.Module)
    graph, params, rest = nnx.split(made, nnx.Param, ...)
    kept = sorted({type(variable).__name__ for _, variable in nnx.to_flat_state(rest)})
    _require_stateless("from_flax", made, kept)
    _require_params(params, made)

    def init(key: Array) -> Params:
        new = params if given else nnx.state(module(key), nnx.Param)
        return nnx.to_pure_dict(new)

    def apply(params: Params, x: Array) -> Array:
        outputs: Array = nnx.merge(graph, params)(x)
        return outputs

    return Model(init, apply, task, name or type(made).__name__)


def _from_linen(module: Any, sample: Any, task: Task, name: str | None) -> Model:
    advice = "Linen takes its sizes from it, e.g. from_flax(module, x[:1])."
    require(sample is not None, "from_flax's sample", None, "a batch of inputs", advice)
    errors = _import("flax.errors", "flax")
    draws = "random numbers (a Dropout in use)"
    try:
        variables = jax.eval_shape(module.init, jax.random.key(0), sample)
        _require_stateless("from_flax", module, sorted(set(variables) - {"params"}))
        jax.eval_shape(module.apply, variables, sample)
    except errors.InvalidRngError:
        _require_stateless("from_flax", module, [draws])
    _require_params(variables, module)

    def init(key: Array) -> Params:
        return module.init(key, sample)["params"]

    def apply(params: Params, x: Array) -> Array:
        outputs: Array = module.apply({"params": params}, x)
        return outputs

    return Model(init, apply, task, name or type(module).__name__)


def _made(factory: Any, name: str, kind: type) -> Any:
    whole = f"{kind.__module__.split('.')[0]}'s {kind.__name__}"
    allowed = f"an instance of {whole}, or a function key -> {kind.__name__}"
    require(callable(factory) and not _is_class(factory, kind), name, repr(factory), allowed)
    made = factory(jax.random.key(0))
    require(isinstance(made, kind), name, f"a function that gives {type(made).__name__}", allowed)
    return made


def _is_class(factory: Any, kind: type) -> bool:
    return isinstance(factory, type) and issubclass(factory, kind)


def _require_stateless(adapter: str, module: Any, kept: list[str]) -> None:
    what = ", ".join(kept)
    kind = f"{adapter}'s {type(module).__name__}"
    require(not kept, kind, what, "free of state and chance", _STATELESS)


def _require_params(params: Any, module: Any) -> None:
    found = bool(jax.tree.leaves(params))
    require(found, "module", f"{type(module).__name__} without any", "one with parameters to train")


def _import(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SettingError(
            f"{package} must be installed for from_{package}: pip install {package}"
        ) from error
