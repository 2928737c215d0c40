"""``lstm``: an LSTM over a sequence of vectors, or of tokens with a frozen embedding."""

import math
from typing import Any

import jax
import jax.numpy as jnp

from fedplus._types import Array
from fedplus.check import require
from fedplus.models.dense import affine, dense, require_sizes, scaled_normal
from fedplus.models.lstm_layer import Layer, lstm_layer
from fedplus.models.model import Model, Params
from fedplus.models.task import BINARY, CLASSIFICATION


def lstm(
    tokens: int = 25,
    features: int = 300,
    hidden: int = 256,
    layers: int = 2,
    outputs: int = 1,
    embedding: Any = None,
) -> Model:
    """LSTM layers ``lstm0``, ``lstm1``, ... and a dense ``head`` on the state of the last token.

    Args:
        tokens: Length T of a sequence.
        features: Number F of entries of a token's vector.
        hidden: Number of entries of a layer's state.
        layers: Number of layers.
        outputs: 1 for one logit of two classes (``BINARY``), otherwise one logit per class.
        embedding: Table (V, F) of vectors. With it, inputs are tokens (B, T) of whole numbers; without
            it, vectors (B, T, F). The table is not a parameter: it is neither trained nor sent.

    Raises:
        SettingError: A size is not a positive whole number, or the embedding does not have F columns.

    Paper: the Sent140 experiment (2 layers of 256 over 25 tokens of GloVe's 300 entries).

    >>> import jax
    >>> model = lstm(tokens=4, features=3, hidden=8)
    >>> params = model.init(jax.random.key(0))
    >>> model.apply(params, jax.numpy.ones((5, 4, 3))).shape
    (5, 1)
    """
    require_sizes(
        "lstm", tokens=tokens, features=features, hidden=hidden, layers=layers, outputs=outputs
    )
    table = None if embedding is None else jnp.asarray(embedding)
    if table is not None:
        require(
            table.ndim == 2 and table.shape[1] == features,
            "lstm's embedding",
            f"shape {table.shape}",
            f"a table (V, {features}), one row per token",
            "Set features to its number of columns.",
        )
    names = [f"lstm{i}" for i in range(layers)]

    def init(key: Array) -> Params:
        keys = jax.random.split(key, layers + 1)
        params: dict[str, Layer] = {}
        inputs = features
        for name, k in zip(names, keys[:-1], strict=True):
            params[name] = _init_layer(k, inputs, hidden)
            inputs = hidden
        params["head"] = dense(outputs, hidden, scaled_normal(keys[-1], (outputs, hidden), hidden))
        return params

    def vectors(x: Array) -> Array:
        if table is None:
            expected: tuple[int, ...] = (tokens, features)
            batch = "a batch of vectors"
        else:
            expected = (tokens,)
            batch = "a batch of tokens"
            is_whole = jnp.issubdtype(x.dtype, jnp.integer)
            require(is_whole, "lstm's input", x.dtype, "whole numbers, rows of the embedding")
        shape = ", ".join(map(str, ("B", *expected)))
        require(x.shape[1:] == expected, "lstm's input", f"shape {x.shape}", f"{batch} ({shape})")
        return x if table is None else table[x]

    def apply(params: Params, x: Array) -> Array:
        states = jnp.swapaxes(vectors(x), 0, 1).astype(params["head"]["bias"].dtype)
        for name in names:
            states = lstm_layer(params[name], states)
        return affine(params["head"], states[-1])

    return Model(init, apply, BINARY if outputs == 1 else CLASSIFICATION, "lstm")


def _init_layer(key: Array, features: int, hidden: int) -> Layer:
    """Return uniform weights within 1/√H; the forget gate has bias 1, as in FedProx."""
    keys = jax.random.split(key)
    bound = 1 / math.sqrt(hidden)

    def uniform(k: Array, inputs: int) -> Array:
        return jax.random.uniform(k, (inputs, 4 * hidden), minval=-bound, maxval=bound)

    is_forget_gate = jnp.arange(4 * hidden) // hidden == 1
    return {
        "bias": is_forget_gate.astype(float),
        "input": uniform(keys[0], features),
        "recurrent": uniform(keys[1], hidden),
    }
