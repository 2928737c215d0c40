"""JAX's side of a party: any Optax optimizer, followed by the pull of Fed+.

A model is any pytree: nested dicts, an Equinox module, Flax's parameters. Its floating-point arrays are
federated; everything else in it stays with the party.

.. code-block:: python

    optimizer = Pull(optax.sgd(0.02))

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

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from fedplus._pull import PullTarget, require_same_shapes
from fedplus._types import Host
from fedplus.models.ravel import named_arrays


class PullState(NamedTuple):
    """The optimizer's own state, and what this round's steps are pulled to."""

    inner: Any
    kappa: jax.Array
    anchor: Any


class Pull(NamedTuple):
    """An optimizer whose every step is followed by w ← κ·w + (1 − κ)·(w̃ + v_k) (Alg. 1, l. 13).

    κ and the anchor are part of the state, so that a compiled step serves every round.

    Args:
        optimizer: Optax's. Its learning rate should be the method's η, which sets κ. Its state
            begins afresh where you call ``init``, in each round: a schedule would restart there.
    """

    optimizer: optax.GradientTransformation

    def init(self, params: Any, party: PullTarget) -> PullState:
        """At the beginning of a round."""
        anchor = put_arrays(params, party.anchor)
        return PullState(self.optimizer.init(params), jnp.asarray(party.kappa), anchor)

    def update(self, grads: Any, state: PullState, params: Any) -> tuple[Any, PullState]:
        """What to add to the parameters (``optax.apply_updates``), and the next state."""
        updates, inner = self.optimizer.update(grads, state.inner, params)
        kappa = state.kappa

        def pulled(update: jax.Array, w: jax.Array, anchor: jax.Array) -> jax.Array:
            return (kappa * update + (1 - kappa) * (anchor - w)).astype(update.dtype)

        return jax.tree.map(pulled, updates, params, state.anchor), state._replace(inner=inner)


def arrays(model: Any) -> dict[str, Host]:
    """The floating-point arrays by name, as float32."""
    found = {name: leaf for name, leaf in named_arrays(model).items() if _federated(leaf)}
    return {name: np.array(leaf, np.float32) for name, leaf in found.items()}


def put_arrays(model: Any, arrays: Mapping[str, Host]) -> Any:
    """The model with these arrays in the place of its own."""
    leaves = named_arrays(model)
    shapes = {name: leaf.shape for name, leaf in leaves.items() if _federated(leaf)}
    require_same_shapes(arrays, shapes, "parameters")
    put = [
        jnp.asarray(arrays[name], leaf.dtype) if name in shapes else leaf
        for name, leaf in leaves.items()
    ]
    return jax.tree.unflatten(jax.tree.structure(model), put)


def _federated(leaf: Any) -> bool:
    return isinstance(leaf, (jax.Array, np.ndarray)) and bool(
        jnp.issubdtype(leaf.dtype, jnp.floating)
    )
