"""``cnn``: a small convolutional network."""

import jax
import jax.numpy as jnp

from fedplus._types import Array
from fedplus.check import require
from fedplus.models.dense import (
    affine,
    dense,
    is_size_list,
    require_batch,
    require_classes,
    require_sizes,
    scaled_normal,
)
from fedplus.models.model import Model, Params


def cnn(
    shape: tuple[int, int, int] = (28, 28, 1),
    classes: int = 10,
    *,
    channels: tuple[int, int] = (16, 32),
    kernel: int = 3,
) -> Model:
    """Two convolutions, each followed by a relu and 2 × 2 max pooling, and a dense layer of logits.

    Args:
        shape: Height, width and channels of an image; a batch may also be flattened.
        classes: Number of classes.
        channels: Number of channels of the two convolutions.
        kernel: Height and width of the kernels, an odd number.

    Raises:
        SettingError: The image is smaller than 4 × 4, the kernel is even, or another size is invalid.

    >>> import jax
    >>> model = cnn(shape=(28, 28, 1), classes=10)
    >>> params = model.init(jax.random.key(0))
    >>> model.apply(params, jax.numpy.ones((5, 784))).shape
    (5, 10)
    """
    require(len(shape) == 3, "cnn's shape", shape, "(height, width, channels)")
    height, width, image_channels = shape
    require_sizes("cnn", height=height, width=width, **{"shape[2]": image_channels}, kernel=kernel)
    require(min(height, width) >= 4, "cnn's shape", shape, "at least 4 × 4: it is halved twice")
    require(is_size_list(channels, 2), "cnn's channels", repr(channels), "two whole numbers >= 1")
    require(kernel % 2 == 1, "cnn's kernel", kernel, "odd")
    require_classes("cnn", classes)
    first, second = channels
    features = (height // 4) * (width // 4) * second

    def convolution(key: Array, inputs: int, outputs: int) -> dict[str, Array]:
        weight = scaled_normal(key, (kernel, kernel, inputs, outputs), kernel**2 * inputs, gain=2)
        return {"bias": jnp.zeros(outputs), "weight": weight}

    def init(key: Array) -> Params:
        keys = jax.random.split(key, 3)
        return {
            "conv0": convolution(keys[0], image_channels, first),
            "conv1": convolution(keys[1], first, second),
            "head": dense(classes, features, scaled_normal(keys[2], (classes, features), features)),
        }

    def apply(params: Params, x: Array) -> Array:
        require_batch(x, shape, "cnn")
        x = x.reshape(-1, *shape)
        for name in ("conv0", "conv1"):
            convolved = convolve(x, params[name]["weight"]) + params[name]["bias"]
            x = max_pool(jax.nn.relu(convolved))
        return affine(params["head"], x.reshape(-1, features))

    return Model(init, apply, name="cnn")


def convolve(x: Array, weight: Array) -> Array:
    """Convolve images (B, H, W, C) with an odd kernel (k, k, C, F) to (B, H, W, F), with zero padding.

    Each pixel's neighbourhood is copied, so that the convolution is one matrix product. XLA's own
    convolution is about ten times slower on a CPU if each party has its own weight.
    """
    k, _, _, outputs = weight.shape
    _, height, width, _ = x.shape
    edge = (k // 2, k // 2)
    padded = jnp.pad(x, ((0, 0), edge, edge, (0, 0)))
    shifts = [padded[:, i : i + height, j : j + width] for i in range(k) for j in range(k)]
    return jnp.concatenate(shifts, axis=-1) @ weight.reshape(-1, outputs)


def max_pool(x: Array) -> Array:
    """Return the maximum over squares of 2 × 2; the last odd row or column is left out.

    It reshapes because the gradient of XLA's window reduction is slow on a CPU.
    """
    batch, height, width, channels = x.shape
    height, width = height // 2, width // 2
    even = x[:, : 2 * height, : 2 * width]
    return even.reshape(batch, height, 2, width, 2, channels).max(axis=(2, 4))
