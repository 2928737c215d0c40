"""JAX adapter for parties: any Optax optimizer, followed by the pull of Fed+.

A model is any pytree: nested dicts, an Equinox module or Flax parameters. Its floating-point arrays are
federated; everything else in it stays with the party.

.. code-block:: python

    optimizer = Pull(optax.sgd)  # The learning rate is the method's η of the round.

    @eqx.filter_jit
    def step(model, state, x, y):
        grads = eqx.filter_grad(loss)(model, x, y)
        updates, state = optimizer.update(grads, state, eqx.filter(model, eqx.is_inexact_array))
        return eqx.apply_updates(model, updates), state

    party = Party(message, context)
    model = put_arrays(model, party.start)
    state = optimizer.init(eqx.filter(model, eqx.is_inexact_array), party)
    for x, y in batches:
        model, state = step(model, state, x, y)
    return party.reply(arrays(model), {"num-examples": n})
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from fedplus._pull import ParameterPull, PullTarget, parameter_pulls, require_same_shapes
from fedplus._types import NumpyArray
from fedplus.models.ravel import named_arrays


class PullState(NamedTuple):
    """The state of the wrapped optimizer, with the pull and the anchor of this round."""

    inner: Any
    step: jax.Array
    """The number of the next step in this round, from 0."""
    pulls: Any
    """A ``ParameterPull`` of arrays () for each parameter. With a function from a learning rate to an
    optimizer, ``share`` is the layer's η."""
    anchor: Any


class Pull(NamedTuple):
    """An Optax optimizer whose every step is followed by the pull of Fed+ (Alg. 1, l. 13).

    w ← κ·w + (1 − κ)·(w̃ + v_k)

    η, κ and the anchor w̃ + v_k are part of the state, so that a step is compiled once for all rounds.
    If the method has settings by layer, each parameter is pulled with its own κ; a layer with a smaller
    η takes a smaller share of the step. A layer that is not trained in a step stays as it is, and the
    optimizer gets gradients of zero for it, so that it gathers no momentum.

    Args:
        optimizer: A function from a learning rate to an Optax optimizer, such as ``optax.sgd``: its
            updates for the learning rate 1 are multiplied by the method's η of this round. Or an
            optimizer, whose learning rate should be the method's η, which determines κ. ``init`` resets
            its state in each round, so an Optax schedule restarts there.
    """

    optimizer: optax.GradientTransformation | Callable[[float], optax.GradientTransformation]

    def init(self, params: Any, party: PullTarget) -> PullState:
        """Return the state for the first step of a round.

        Args:
            params: The model's floating-point arrays.
            party: The party, which provides κ and the anchor.
        """
        anchor = put_arrays(params, party.anchor)
        eta = 1.0 if isinstance(self.optimizer, optax.GradientTransformation) else party.eta
        by_name = {
            name: pull._replace(share=pull.share * eta)
            for name, pull in parameter_pulls(party).items()
        }
        leaves = [jax.tree.map(jnp.float32, by_name[name]) for name in named_arrays(params)]
        pulls = jax.tree.unflatten(jax.tree.structure(params), leaves)
        return PullState(self._inner.init(params), jnp.int32(0), pulls, anchor)

    def update(self, grads: Any, state: PullState, params: Any) -> tuple[Any, PullState]:
        """Return the updates for ``optax.apply_updates``, and the next state."""

        def is_scheduled(pull: ParameterPull) -> Any:
            return (pull.begin <= state.step) & (state.step < pull.end)

        def select_scheduled(grad: Any, pull: ParameterPull) -> Any:
            return jnp.where(is_scheduled(pull), grad, 0).astype(grad.dtype)

        def move(update: Any, w: Any, anchor: Any, pull: ParameterPull) -> Any:
            moved = pull.kappa * pull.share * update + (1 - pull.kappa) * (anchor - w)
            is_trained = (pull.share > 0) & is_scheduled(pull)
            return jnp.where(is_trained, moved, 0).astype(update.dtype)

        grads = jax.tree.map(select_scheduled, grads, state.pulls)
        updates, inner = self._inner.update(grads, state.inner, params)
        moves = jax.tree.map(move, updates, params, state.anchor, state.pulls)
        return moves, state._replace(inner=inner, step=state.step + 1)

    @property
    def _inner(self) -> optax.GradientTransformation:
        is_made = isinstance(self.optimizer, optax.GradientTransformation)
        return self.optimizer if is_made else self.optimizer(1.0)


def arrays(model: Any) -> dict[str, NumpyArray]:
    """Return the floating-point arrays by name, as float32."""
    leaves = named_arrays(model).items()
    return {name: np.array(leaf, np.float32) for name, leaf in leaves if _is_federated(leaf)}


def put_arrays(model: Any, arrays: Mapping[str, NumpyArray]) -> Any:
    """Return the model with these arrays in place of its own.

    Raises:
        SettingError: The arrays have other names or shapes than the model's.
    """
    leaves = named_arrays(model)
    shapes = {name: leaf.shape for name, leaf in leaves.items() if _is_federated(leaf)}
    require_same_shapes(arrays, shapes, "parameters")
    new_leaves = [
        jnp.asarray(arrays[name], leaf.dtype) if name in shapes else leaf
        for name, leaf in leaves.items()
    ]
    return jax.tree.unflatten(jax.tree.structure(model), new_leaves)


def _is_federated(leaf: Any) -> bool:
    return isinstance(leaf, (jax.Array, np.ndarray)) and bool(
        jnp.issubdtype(leaf.dtype, jnp.floating)
    )
