"""Converts models between arrays by name, as Flower sends them, and the flat vectors of Algorithm 1."""

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from flwr.app import Array, ArrayRecord

from fedplus._types import Layout, NumpyArray
from fedplus.check import require

ARRAYS, METRICS, CONFIG = "arrays", "metrics", "config"
FIRST = "first-arrays"
"""Key of the first model, which the server also sends to a node that has not joined yet if the method
has ``join="first"`` and w̃ is no longer the first model."""
ROUND, FEDERATION = "server-round", "fedplus-federation"
SECRET, OTHERS = "fedplus-secret", "fedplus-others"
"""Keys of a party's secret in its replies, and of the short identities of the other connected parties,
which the server sends to a node that it does not know yet."""
DTYPE = np.dtype(np.float32)


class Shapes(NamedTuple):
    """The name and shape of each parameter, in the order in which a model is flattened."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NumpyArray]) -> "Shapes":
        """Return the names and shapes of a model's arrays.

        Raises:
            SettingError: There are no arrays, or one is not floating point.
        """
        require(len(arrays) > 0, "arrays", "none", "the model's parameters by name")
        for name, array in arrays.items():
            dtype = np.asarray(array).dtype
            require(
                dtype.kind == "f", f"arrays[{name!r}]", str(dtype), "floating point",
                "Arrays of other types, such as counters, must stay with the party.",
            )  # fmt: skip
        return cls(tuple(arrays), tuple(np.shape(array) for array in arrays.values()))

    def to_json(self) -> list[list[Any]]:
        """Return the names and shapes as lists."""
        pairs = zip(self.names, self.shapes, strict=True)
        return [[name, list(shape)] for name, shape in pairs]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of entries of each parameter."""
        return tuple(int(np.prod(shape)) for shape in self.shapes)

    @property
    def layout(self) -> Layout:
        """The name and size of each parameter, as ``Blocks`` expects them."""
        return tuple(zip(self.names, self.sizes, strict=True))

    def require_same(self, arrays: Mapping[str, NumpyArray]) -> None:
        """Require arrays of these names and shapes.

        Raises:
            SettingError: The arrays have other names or shapes.
        """
        require(
            tuple(sorted(arrays)) == tuple(sorted(self.names)), "arrays", ", ".join(arrays),
            f"the parameters {', '.join(self.names)}",
        )  # fmt: skip
        for name, shape in zip(self.names, self.shapes, strict=True):
            got = np.shape(arrays[name])
            require(got == shape, f"arrays[{name!r}]", f"shape {got}", f"of shape {shape}")

    def flatten(self, arrays: Mapping[str, NumpyArray]) -> NumpyArray:
        """Return the arrays as one vector of shape ``(d,)``.

        Raises:
            SettingError: The arrays have other names or shapes.
        """
        self.require_same(arrays)
        parts = [np.asarray(arrays[name], DTYPE).ravel() for name in self.names]
        return np.concatenate(parts)

    def unflatten(self, w: NumpyArray) -> dict[str, NumpyArray]:
        """Return the arrays of a flat vector, by name."""
        parts = np.split(np.asarray(w, DTYPE), np.cumsum(self.sizes)[:-1])
        return {
            name: part.reshape(shape).copy()
            for name, shape, part in zip(self.names, self.shapes, parts, strict=True)
        }


def hash_secret(secret: str) -> str:
    """Return the SHA-256 of a party's secret, which is the party's identity on the server."""
    return hashlib.sha256(bytes.fromhex(secret)).hexdigest()


def short_identity(identity: str) -> str:
    """Return the beginning of an identity, which is enough to distinguish parties."""
    return identity[:16]


def to_record(arrays: Mapping[str, NumpyArray]) -> ArrayRecord:
    """Return arrays as a record for a message."""
    return ArrayRecord({n: Array(np.asarray(a, DTYPE, order="C")) for n, a in arrays.items()})


def from_record(record: ArrayRecord) -> dict[str, NumpyArray]:
    """Return the arrays of a record from a trusted sender; for others use ``check_reply``."""
    return {name: array.numpy() for name, array in record.items()}
