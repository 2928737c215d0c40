"""One LSTM layer over a sequence."""

import jax
import jax.numpy as jnp

from fedplus._types import Array

Layer = dict[str, Array]
"""``bias`` (4H,), ``input`` (4H, I), ``recurrent`` (4H, H); gates in the order i, f, g, o."""


def lstm_layer(layer: Layer, x: Array) -> Array:
    """Hidden states (T, B, H) for inputs (T, B, I), from a state of zero."""
    time, batch, features = x.shape
    projected = x.reshape(time * batch, features) @ layer["input"].T + layer["bias"]
    projected = projected.reshape(time, batch, -1)
    zero = jnp.zeros((batch, layer["recurrent"].shape[1]), projected.dtype)

    def step(carry: tuple[Array, Array], p: Array) -> tuple[tuple[Array, Array], Array]:
        h, c = carry
        i, f, g, o = jnp.split(p + h @ layer["recurrent"].T, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    _, states = jax.lax.scan(step, (zero, zero), projected)
    return jnp.asarray(states)
