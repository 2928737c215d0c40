"""What the server takes of a reply; everything else is a reason to do without it."""

import math
from typing import NamedTuple

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord

from fedplus._types import Host
from fedplus.flower.records import ARRAYS, DTYPE, METRICS, Shapes

HEADER = 1024
"""Bytes that an array may take beside its entries."""
LONGEST = 200
"""Of a reason, which may quote what a party sent."""


class Reply(NamedTuple):
    """A reply that is in order."""

    node: int
    """Who sent it, as Flower has it from the authenticated connection."""
    w: Host
    metrics: dict[str, float]


class Refusal(NamedTuple):
    """A reply that is not, and why."""

    node: int
    reason: str


def checked(message: Message, shapes: Shapes) -> Reply | Refusal:
    """Look at a reply without trusting any of it."""
    node = message.metadata.src_node_id
    try:
        if message.has_error():
            return Refusal(node, _short(f"the party failed: {message.error.reason}"))
        record = message.content.get(ARRAYS)
        if not isinstance(record, ArrayRecord):
            return Refusal(node, f"no arrays under {ARRAYS!r}")
        wrong = _wrong_names(record, shapes)
        if wrong:
            return Refusal(node, _short(wrong))
        parts = [
            _decoded(record[name], name, shape)
            for name, shape in zip(shapes.names, shapes.shapes, strict=True)
        ]
        w = np.concatenate([part.ravel() for part in parts])
        with np.errstate(over="ignore", invalid="ignore"):
            norm = float(np.sqrt(np.sum(np.square(w), dtype=np.float32)))
        if not math.isfinite(norm):
            finite = bool(np.isfinite(w).all())
            return Refusal(
                node, "entries too large to square" if finite else "NaN or Inf in its model"
            )
        return Reply(node, w, _metrics(message))
    except Exception as error:  # Whatever a party sends, the others go on.
        return Refusal(node, _short(f"{type(error).__name__}: {error}"))


def _wrong_names(record: ArrayRecord, shapes: Shapes) -> str:
    missing = [name for name in shapes.names if name not in record]
    extra = [name for name in record if name not in shapes.names]
    if missing:
        return f"missing parameters: {', '.join(missing)}"
    return f"unknown parameters: {', '.join(map(repr, extra))}" if extra else ""


def _decoded(array: Array, name: str, shape: tuple[int, ...]) -> Host:
    """The entries, read only once their number is known to be right."""
    if tuple(array.shape) != shape:
        raise ValueError(f"{name} has shape {tuple(array.shape)}, not {shape}")
    if array.dtype != DTYPE.name:
        raise ValueError(f"{name} has entries of type {array.dtype}, not {DTYPE.name}")
    expected = int(np.prod(shape)) * DTYPE.itemsize
    if not expected <= len(array.data) <= expected + HEADER:
        raise ValueError(f"{name} has {len(array.data):,} bytes, not about {expected:,}")
    entries = array.numpy()
    if entries.shape != shape or entries.dtype != DTYPE:
        raise ValueError(f"{name} holds {entries.dtype} of shape {entries.shape}, not as it says")
    return np.asarray(entries)


def _metrics(message: Message) -> dict[str, float]:
    """Numbers by name; what is no finite number is left out."""
    record = message.content.get(METRICS)
    if not isinstance(record, MetricRecord):
        return {}
    return {
        str(name): float(value)
        for name, value in record.items()
        if isinstance(value, (int, float)) and math.isfinite(value)
    }


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}…"
