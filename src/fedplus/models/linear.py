"""``linear`` and ``logistic`` regression."""

import functools

from fedplus._types import Array
from fedplus.models.dense import dense, flatten_batch, require_classes, require_sizes
from fedplus.models.model import Model, Params
from fedplus.models.task import CLASSIFICATION, REGRESSION, Task


def linear(inputs: int, outputs: int = 1) -> Model:
    """Linear regression Wx + b; all parameters are initially zero. Inputs of any shape are flattened.

    Args:
        inputs: Number of entries of an input.
        outputs: Number of entries of a label.

    Raises:
        SettingError: A size is not a positive whole number.

    >>> import jax
    >>> model = linear(3)
    >>> params = model.init(jax.random.key(0))
    >>> model.apply(params, jax.numpy.ones((5, 3))).shape
    (5, 1)
    """
    require_sizes("linear", inputs=inputs, outputs=outputs)
    return _affine_model(inputs, outputs, REGRESSION, "linear")


def logistic(inputs: int, classes: int) -> Model:
    """Multinomial logistic regression, softmax(Wx + b). Inputs of any shape are flattened.

    All parameters are initially zero, as in FedProx's experiments.

    Args:
        inputs: Number of entries of an input.
        classes: Number of classes.

    Raises:
        SettingError: A size is not a positive whole number, or there is only one class.

    >>> import jax
    >>> model = logistic(784, classes=10)
    >>> params = model.init(jax.random.key(0))
    >>> model.apply(params, jax.numpy.ones((5, 28, 28))).shape
    (5, 10)
    """
    require_sizes("logistic", inputs=inputs)
    require_classes("logistic", classes)
    return _affine_model(inputs, classes, CLASSIFICATION, "logistic")


@functools.cache  # Equal sizes give the same functions, so a second run compiles nothing.
def _affine_model(inputs: int, outputs: int, task: Task, name: str) -> Model:
    def init(key: Array) -> Params:
        del key
        return dense(outputs, inputs)

    def apply(params: Params, x: Array) -> Array:
        # On a CPU this order is about a tenth faster than samples first.
        outputs_first: Array = (
            params["weight"] @ flatten_batch(x, inputs, name).T + params["bias"][:, None]
        )
        return outputs_first.T

    return Model(init, apply, task, name)
