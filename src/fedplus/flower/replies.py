"""Checks of what parties send: a reply is taken, or refused with a reason."""

import math
import re
import unicodedata
from typing import NamedTuple

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord

from fedplus._types import Host
from fedplus.flower.records import ARRAYS, CONFIG, DTYPE, METRICS, SECRET, Shapes, hash_secret

HEADER = 1024
"""Bytes that an array may take beside its entries."""
LONGEST = 200
"""Of a reason, which may quote what a party sent."""
LARGEST = 1e15
"""The largest absolute value of a metric; larger ones, NaN and Inf make an average meaningless."""
MOST, NAME = 100, 100
"""Metrics of a reply, and characters of a metric's name."""
ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # Colours, cursor movements.
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)"  # Titles, links, device control.
    r"|\x1b[ -/]*[0-~]",
    re.DOTALL,
)
"""Terminal escape sequences."""


class Reply(NamedTuple):
    """A reply that is in order."""

    node: int
    """Who sent it, as Flower has it from the authenticated connection."""
    w: Host
    metrics: dict[str, float]
    identity: str | None = None
    """SHA-256 of the secret that the party sent, if it sent one."""
    ignored: tuple[str, ...] = ()
    """Metrics that were left out, each with the reason."""


class Refusal(NamedTuple):
    """A reply that is not, and why."""

    node: int
    reason: str


def check_reply(message: Message, shapes: Shapes) -> Reply | Refusal:
    """Look at a reply without trusting any of it."""
    node = message.metadata.src_node_id
    try:
        if message.has_error():
            return Refusal(node, shorten(f"the party failed: {message.error.reason}"))
        record = message.content.get(ARRAYS)
        if not isinstance(record, ArrayRecord):
            return Refusal(node, f"no arrays under {ARRAYS!r}")
        wrong = _wrong_names(record, shapes)
        if wrong:
            return Refusal(node, shorten(wrong))
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
        metrics, ignored = _metrics(message)
        return Reply(node, w, metrics, _identity(message), ignored)
    except Exception as error:  # Whatever a party sends, the others go on.
        return Refusal(node, shorten(f"{type(error).__name__}: {error}"))


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


def _identity(message: Message) -> str | None:
    """Return the identity of the party's secret; None if it sends none."""
    record = message.content.get(CONFIG)
    secret = record.get(SECRET) if isinstance(record, ConfigRecord) else None
    if secret is None:
        return None
    if not isinstance(secret, str) or re.fullmatch("[0-9a-f]{64}", secret) is None:
        raise ValueError("its secret is not of 64 hexadecimal digits")
    return hash_secret(secret)


def _metrics(message: Message) -> tuple[dict[str, float], tuple[str, ...]]:
    """Return the usable numbers by name, and why others were left out."""
    record = message.content.get(METRICS)
    if not isinstance(record, MetricRecord):
        return {}, ()
    if len(record) > MOST:
        return {}, (f"{len(record)} metrics are more than {MOST}",)
    good, ignored = {}, []
    for name, value in record.items():
        wrong = _wrong_metric(name, value)
        if wrong:
            ignored.append(shorten(f"{name!r} {wrong}"))
        else:
            good[name] = float(value)  # type: ignore[arg-type]
    return good, tuple(ignored)


def _wrong_metric(name: str, value: object) -> str:
    if name != make_printable(name) or not 0 < len(name) <= NAME:
        return f"is not a name of at most {NAME} printable characters"
    if not isinstance(value, (int, float)):
        return "is not a number"
    if not abs(value) <= LARGEST:  # NaN, too.
        return f"is {value:g}, not within ±{LARGEST:g}" if isinstance(value, float) else "is huge"
    return ""


def make_printable(text: str) -> str:
    r"""Remove terminal escape sequences and characters that are not printed, and join lines.

    >>> printable("\x1b[31mred\x1b[0m, \x1b]0;title\x07a\u202eb\nline")
    'red, ab line'
    """
    line = " ".join(ESCAPES.sub("", text).split())
    return "".join(c for c in line if unicodedata.category(c)[0] != "C")


def shorten(text: str) -> str:
    """Return a party's text in one printable line of limited length."""
    line = make_printable(text[: 50 * LONGEST])
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}…"
