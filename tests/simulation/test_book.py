"""Figures of rounds in one array of words: what is written is what is read, to the bit."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedplus.simulation import packing
from fedplus.simulation.round_log import RoundLog

NARROW, WIDE = ("bool", "int8", "uint16", "float16", "bfloat16"), ("int64", "float64")
KINDS = [*NARROW, "int32", "uint32", "float32", *WIDE]


@pytest.fixture(autouse=True)
def all_kinds():
    with jax.enable_x64(True):
        yield


class Figures(NamedTuple):
    """Of several kinds and shapes."""

    flags: jax.Array
    many: jax.Array
    one: jax.Array
    short: jax.Array


def numbers(kind: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Any bits that a number of this kind can have; NaNs of all sorts are among them."""
    dtype = jnp.dtype(kind)
    rng = np.random.default_rng(seed)
    if kind == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    raw = rng.integers(0, 256, (*shape, dtype.itemsize), dtype=np.uint8)
    return raw.view(dtype).reshape(shape)


def bits(array) -> bytes:
    return np.ascontiguousarray(array).tobytes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(), (7,), (3, 4), (0,)])
def test_words_hold_every_kind_of_number(kind, shape):
    given = numbers(kind, shape)
    there = jax.jit(packing.to_words)(given)
    assert there.dtype == jnp.uint32
    assert there.shape == (packing.word_count(shape, kind),)
    back = jax.jit(packing.from_words, static_argnums=(1, 2))(there, shape, kind)
    assert back.dtype == jnp.dtype(kind)
    assert bits(back) == bits(given)
    read = packing.read_words(np.asarray(there), shape, jnp.dtype(kind))
    assert read.dtype == jnp.dtype(kind)
    assert bits(read) == bits(given)


def test_a_book_has_what_was_written_into_it_and_zeros_elsewhere():
    def of(i: int) -> Figures:
        return Figures(
            numbers("bool", (3,), i), numbers("float64", (3, 2), i), numbers("int32", (), i),
            numbers("bfloat16", (5,), i),
        )  # fmt: skip

    @jax.jit
    def written(first, second):
        book = RoundLog.blank(jax.eval_shape(lambda: first), rounds=4)
        return book.with_round(jnp.int32(2), first).with_round(jnp.int32(0), second)

    book = written(of(1), of(2))
    found = book.read(4)
    assert isinstance(found, Figures)
    for name, values in found._asdict().items():
        assert bits(values[2]) == bits(getattr(of(1), name)), name
        assert bits(values[0]) == bits(getattr(of(2), name)), name
        assert not values[[1, 3]].any(), name
        assert bits(getattr(book.read(3), name)) == bits(values[:3]), name
