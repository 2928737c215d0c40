"""Arrays by name, as Flower carries them, and one flat vector, as the algorithm takes them."""

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from flwr.app import Array, ArrayRecord

from fedplus._types import Host, Layout
from fedplus.check import require

ARRAYS, METRICS, CONFIG = "arrays", "metrics", "config"
ROUND, FEDERATION = "server-round", "fedplus-federation"
SECRET, OTHERS = "fedplus-secret", "fedplus-others"
"""A party's secret, in its replies; and short identities of the other connected parties, which the
server sends to a node that it does not know yet."""
DTYPE = np.dtype(np.float32)


class Shapes(NamedTuple):
    """Name and shape of each parameter, in the order in which a model is flattened."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, arrays: Mapping[str, Host]) -> "Shapes":
        """Of a model's arrays."""
        require(len(arrays) > 0, "arrays", "none", "the model's parameters by name")
        for name, array in arrays.items():
            kind = np.asarray(array).dtype.kind
            require(
                kind == "f", f"arrays[{name!r}]", str(np.asarray(array).dtype), "floating point",
                "Counters and the like stay with the party.",
            )  # fmt: skip
        return cls(tuple(arrays), tuple(np.shape(array) for array in arrays.values()))

    def told(self) -> list[list[Any]]:
        """As JSON has it."""
        pairs = zip(self.names, self.shapes, strict=True)
        return [[name, list(shape)] for name, shape in pairs]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Entries of each parameter."""
        return tuple(int(np.prod(shape)) for shape in self.shapes)

    @property
    def layout(self) -> Layout:
        """For ``Blocks``."""
        return tuple(zip(self.names, self.sizes, strict=True))

    def flat(self, arrays: Mapping[str, Host]) -> Host:
        """(d,): the arrays one after the other; they must have these names and shapes."""
        require(
            tuple(sorted(arrays)) == tuple(sorted(self.names)), "arrays", ", ".join(arrays),
            f"the parameters {', '.join(self.names)}",
        )  # fmt: skip
        for name, shape in zip(self.names, self.shapes, strict=True):
            got = np.shape(arrays[name])
            require(got == shape, f"arrays[{name!r}]", f"shape {got}", f"of shape {shape}")
        parts = [np.asarray(arrays[name], DTYPE).ravel() for name in self.names]
        return np.concatenate(parts)

    def arrays(self, w: Host) -> dict[str, Host]:
        """The arrays of a flat vector."""
        parts = np.split(np.asarray(w, DTYPE), np.cumsum(self.sizes)[:-1])
        return {
            name: part.reshape(shape).copy()
            for name, shape, part in zip(self.names, self.shapes, parts, strict=True)
        }


def hash_secret(secret: str) -> str:
    """Return the SHA-256 by which the server knows a party's secret."""
    return hashlib.sha256(bytes.fromhex(secret)).hexdigest()


def short_identity(identity: str) -> str:
    """Return enough of an identity to tell parties apart."""
    return identity[:16]


def to_record(arrays: Mapping[str, Host]) -> ArrayRecord:
    """For a message."""
    return ArrayRecord({n: Array(np.asarray(a, DTYPE, order="C")) for n, a in arrays.items()})


def from_record(record: ArrayRecord) -> dict[str, Host]:
    """Of a message that can be trusted: the server's, or one's own."""
    return {name: array.numpy() for name, array in record.items()}
