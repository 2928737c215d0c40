"""``mlp``: a multilayer perceptron."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import jax

from fedplus._types import Array
from fedplus.check import require
from fedplus.models.dense import (
    affine,
    dense,
    flatten_batch,
    is_size_list,
    require_classes,
    require_sizes,
    scaled_normal,
)
from fedplus.models.model import Model, Params


def mlp(
    inputs: int,
    classes: int,
    *,
    hidden: int | Sequence[int] = (200,),
    activation: Callable[[Array], Array] = jax.nn.relu,
) -> Model:
    """Dense layers ``hidden0``, ``hidden1``, ... and a dense ``head`` with one logit per class.

    Inputs of any shape are flattened. The initial weights are normal, the biases zero.

    Args:
        inputs: Number of entries of an input.
        classes: Number of classes.
        hidden: Size of the hidden layer, or sizes of several.
        activation: Function that is applied after each hidden layer.

    Raises:
        SettingError: A size is not a positive whole number, or there is no hidden layer.

    >>> import jax
    >>> model = mlp(784, classes=10, hidden=(200, 100))
    >>> params = model.init(jax.random.key(0))
    >>> sorted(params), params["hidden1"]["weight"].shape
    (['head', 'hidden0', 'hidden1'], (100, 200))
    """
    require_sizes("mlp", inputs=inputs)
    sizes = hidden if isinstance(hidden, (list, tuple)) else [hidden]
    advice = "" if sizes else "Without a hidden layer, use logistic."
    allowed = "a whole number >= 1 or a list of them"
    require(is_size_list(sizes), "hidden", repr(hidden), allowed, advice)
    require_classes("mlp", classes)
    names = [*(f"hidden{i}" for i in range(len(sizes))), "head"]
    shapes = [(after, before) for before, after in pairwise([inputs, *sizes, classes])]

    def init(key: Array) -> Params:
        keys = jax.random.split(key, len(names))
        gains = [2.0] * len(sizes) + [1.0]
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
