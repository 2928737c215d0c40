"""Multilayer perceptron."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import jax

from fedplus._types import Array
from fedplus.check import require
from fedplus.models.dense import (
    affine,
    dense,
    flatten_batch,
    require_classes,
    require_sizes,
    scaled_normal,
)
from fedplus.models.model import Model, Params


def mlp(
    inputs: int,
    classes: int,
    *,
    hidden: Sequence[int] = (200,),
    activation: Callable[[Array], Array] = jax.nn.relu,
) -> Model:
    """Dense layers ``hidden0``, ``hidden1``, ... and a ``head`` of one logit a class.

    Inputs of any shape are flattened. Weights begin normal, biases zero.

    >>> import jax
    >>> model = mlp(784, classes=10, hidden=(200, 100))
    >>> params = model.init(jax.random.key(0))
    >>> sorted(params), params["hidden1"]["weight"].shape
    (['head', 'hidden0', 'hidden1'], (100, 200))
    """
    require(len(hidden) > 0, "mlp's hidden", hidden, "a size or more", "Without any, use logistic.")
    require_sizes("mlp", inputs=inputs, **{f"hidden[{i}]": size for i, size in enumerate(hidden)})
    require_classes("mlp", classes)
    names = [*(f"hidden{i}" for i in range(len(hidden))), "head"]
    shapes = [(after, before) for before, after in pairwise([inputs, *hidden, classes])]

    def init(key: Array) -> Params:
        keys = jax.random.split(key, len(names))
        gains = [2.0] * len(hidden) + [1.0]
        return {
            name: dense(*shape, scaled_normal(k, shape, shape[1], gain))
            for name, shape, k, gain in zip(names, shapes, keys, gains, strict=True)
        }

    def apply(params: Params, x: Array) -> Array:
        x = flatten_batch(x, inputs, "mlp")
        for name in names[:-1]:
            x = activation(affine(params[name], x))
        return affine(params["head"], x)

    return Model(init, apply, name="mlp")
