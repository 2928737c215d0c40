"""Packed words and the round log return exactly the bits that were written."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedplus.simulation import packing
from fedplus.simulation.round_log import RoundLog

NARROW, WIDE = ("bool", "int8", "uint16", "float16", "bfloat16"), ("int64", "float64")
DTYPES = [*NARROW, "int32", "uint32", "float32", *WIDE]


@pytest.fixture(autouse=True)
def enable_64_bits():
    with jax.enable_x64(True):
        yield


class Statistics(NamedTuple):
    """Arrays of several dtypes and shapes."""

    flags: jax.Array
    matrix: jax.Array
    scalar: jax.Array
    short: jax.Array


def random_numbers(name: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Return numbers with random bits, which include NaNs of all kinds."""
    dtype = jnp.dtype(name)
    rng = np.random.default_rng(seed)
    if name == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    raw = rng.integers(0, 256, (*shape, dtype.itemsize), dtype=np.uint8)
    return raw.view(dtype).reshape(shape)


def bits(array) -> bytes:
    return np.ascontiguousarray(array).tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (7,), (3, 4), (0,)])
def test_packing_keeps_all_bits_of_every_dtype(dtype, shape):
    numbers = random_numbers(dtype, shape)
    words = jax.jit(packing.to_words)(numbers)
    assert words.dtype == jnp.uint32
    assert words.shape == (packing.word_count(shape, dtype),)
    unpacked = jax.jit(packing.from_words, static_argnums=(1, 2))(words, shape, dtype)
    assert unpacked.dtype == jnp.dtype(dtype)
    assert bits(unpacked) == bits(numbers)
    on_host = packing.words_to_numpy(np.asarray(words), shape, jnp.dtype(dtype))
    assert on_host.dtype == jnp.dtype(dtype)
    assert bits(on_host) == bits(numbers)


def test_a_log_returns_the_written_rounds_and_zeros_elsewhere():
    def statistics(seed: int) -> Statistics:
        return Statistics(
            random_numbers("bool", (3,), seed), random_numbers("float64", (3, 2), seed),
            random_numbers("int32", (), seed), random_numbers("bfloat16", (5,), seed),
        )  # fmt: skip

    @jax.jit
    def write(first, second):
        log = RoundLog.empty(jax.eval_shape(lambda: first), rounds=4)
        return log.with_round(jnp.int32(2), first).with_round(jnp.int32(0), second)

    log = write(statistics(1), statistics(2))
    read = log.read(4)
    assert isinstance(read, Statistics)
    for name, values in read._asdict().items():
        assert bits(values[2]) == bits(getattr(statistics(1), name)), name
        assert bits(values[0]) == bits(getattr(statistics(2), name)), name
        assert not values[[1, 3]].any(), name
        assert bits(getattr(log.read(3), name)) == bits(values[:3]), name
