"""``lstm_layer``: one LSTM layer over a sequence, with a hand-written gradient for speed."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedplus._types import Array

Layer = dict[str, Array]
"""``bias`` (4H,), ``input`` (F, 4H), ``recurrent`` (H, 4H); gates in the order i, f, g, o.

The axis of inputs is first, unlike in a dense layer: the product with ``recurrent`` is computed for
every token, and its gradient once for all tokens.
"""
Carry = tuple[Array, Array]


class _Residuals(NamedTuple):
    """Arrays (T, B, ...) that the backward pass needs; the gates are after their activation."""

    layer: Layer
    x: Array
    h: Array
    c: Array
    gates: tuple[Array, ...]


@jax.custom_vjp
def lstm_layer(layer: Layer, x: Array) -> Array:
    r"""Return the hidden states (T, B, H) for inputs (T, B, F); the initial state is zero.

    .. math::
        c_t = f \odot c_{t-1} + i \odot g, \quad h_t = o \odot \tanh c_t, \quad
        (i, f, g, o) = (s, s, \tanh, s)(x_t W_x + h_{t-1} W_h + b), \quad s = 1/(1 + e^{-\cdot})

    Automatic differentiation would add an (H, 4H) outer product to the gradient at every t. Here only
    the recurrence is inside a loop: the products with W_x, and the gradients of W_x and W_h, are one
    product each over all T·B rows. Weights and x must have one dtype.
    """
    return _forward(layer, x)[0]


def _forward(layer: Layer, x: Array) -> tuple[Array, _Residuals]:
    time, batch, _ = x.shape
    projected = _rows(x) @ layer["input"] + layer["bias"]
    zero = jnp.zeros((batch, layer["recurrent"].shape[0]), x.dtype)

    def step(carry: Carry, p: Array) -> tuple[Carry, tuple[Array, Array, tuple[Array, ...]]]:
        h, c = carry
        i, f, g, o = jnp.split(p + h @ layer["recurrent"], 4, axis=-1)
        i, f, g, o = jax.nn.sigmoid(i), jax.nn.sigmoid(f), jnp.tanh(g), jax.nn.sigmoid(o)
        c = f * c + i * g
        h = o * jnp.tanh(c)
        return (h, c), (h, c, (i, f, g, o))

    _, (h, c, gates) = jax.lax.scan(step, (zero, zero), projected.reshape(time, batch, -1))
    return h, _Residuals(layer, x, h, c, gates)


def _backward(residuals: _Residuals, dh_outer: Array) -> tuple[Layer, Array]:
    layer, x, h, c, gates = residuals
    zero = jnp.zeros_like(h[0])
    c_before = jnp.concatenate([zero[None], c[:-1]])
    # Inside the loop XLA would transpose for every t.
    transposed = layer["recurrent"].T

    def step(carry: Carry, item: tuple[Array, ...]) -> tuple[Carry, Array]:
        dh, dc = carry
        dh_here, c, c_before, i, f, g, o = item
        t = jnp.tanh(c)
        dh = dh + dh_here
        dc = dc + dh * o * (1 - t**2)
        into = [
            dc * g * i * (1 - i),
            dc * c_before * f * (1 - f),
            dc * i * (1 - g**2),
            dh * t * o * (1 - o),
        ]
        da = jnp.concatenate(into, axis=-1)
        return (da @ transposed, dc * f), da

    items = (dh_outer, c, c_before, *gates)
    _, da = jax.lax.scan(step, (zero, zero), items, reverse=True)
    rows = _rows(da)
    grads = {
        "bias": jnp.ones(rows.shape[0], rows.dtype) @ rows,
        "input": _rows(x).T @ rows,
        "recurrent": _rows(h[:-1]).T @ _rows(da[1:]),
    }
    return grads, (rows @ layer["input"].T).reshape(x.shape)


lstm_layer.defvjp(_forward, _backward)


def _rows(a: Array) -> Array:
    """Reshape (T, B, n) to (T·B, n)."""
    return a.reshape(-1, a.shape[-1])
