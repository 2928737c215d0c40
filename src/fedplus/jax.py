"""JAX adapter for parties: any Optax optimizer, followed by the pull of Fed+.

A model is any pytree: nested dicts, an Equinox module or Flax parameters. Its floating-point arrays are
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
    """The state of the wrapped optimizer, with κ and the anchor of this round."""

    inner: Any
    kappa: jax.Array
    anchor: Any


class Pull(NamedTuple):
    """An Optax optimizer whose every step is followed by the pull of Fed+ (Alg. 1, l. 13).

    w ← κ·w + (1 − κ)·(w̃ + v_k)

    κ and the anchor w̃ + v_k are part of the state, so that a step is compiled once for all rounds.

    Args:
        optimizer: An Optax optimizer. Its learning rate should be the method's η, which determines κ.
            ``init`` resets its state in each round, so a schedule restarts there.
    """

    optimizer: optax.GradientTransformation

    def init(self, params: Any, party: PullTarget) -> PullState:
        """Return the state for the first step of a round.

        Args:
            params: The model's floating-point arrays.
            party: The party, which provides κ and the anchor.
        """
        anchor = put_arrays(params, party.anchor)
        return PullState(self.optimizer.init(params), jnp.asarray(party.kappa), anchor)

    def update(self, grads: Any, state: PullState, params: Any) -> tuple[Any, PullState]:
        """Return the updates for ``optax.apply_updates``, and the next state."""
        updates, inner = self.optimizer.update(grads, state.inner, params)
        kappa = state.kappa

        def pull(update: jax.Array, w: jax.Array, anchor: jax.Array) -> jax.Array:
            return (kappa * update + (1 - kappa) * (anchor - w)).astype(update.dtype)

        return jax.tree.map(pull, updates, params, state.anchor), state._replace(inner=inner)


def arrays(model: Any) -> dict[str, Host]:
    """Return the floating-point arrays by name, as float32."""
    leaves = named_arrays(model).items()
    return {name: np.array(leaf, np.float32) for name, leaf in leaves if _is_federated(leaf)}


def put_arrays(model: Any, arrays: Mapping[str, Host]) -> Any:
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
