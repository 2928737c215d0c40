"""Checks of the parties' replies: a reply is accepted, or refused with a reason."""

import math
import re
import unicodedata
from collections import deque
from typing import NamedTuple

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord

from fedplus._types import NumpyArray
from fedplus.flower.records import ARRAYS, CONFIG, DTYPE, METRICS, SECRET, Shapes, hash_secret

MAX_HEADER = 1024
"""The largest number of bytes that an array may have in addition to its entries."""
MAX_REASON = 200
"""The largest number of characters of a reason, which may quote text that a party sent."""
MAX_METRIC = 1e15
"""The largest absolute value of a metric; larger ones, NaN and Inf make an average meaningless."""
MAX_METRICS, MAX_NAME = 100, 100
"""The largest number of metrics in a reply, and of characters in the name of a metric."""
MAX_DROPPED = 1000
"""The largest number of dropped replies that stay in memory; the log has all of them."""
ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # Colours, cursor movements.
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)"  # Titles, links, device control.
    r"|\x1b[ -/]*[0-~]",
    re.DOTALL,
)
"""Terminal escape sequences."""


class Reply(NamedTuple):
    """A valid reply."""

    node: int
    """The sender, as Flower knows it from the authenticated connection."""
    w: NumpyArray
    metrics: dict[str, float]
    identity: str | None = None
    """SHA-256 of the secret that the party sent, if it sent one."""
    ignored: tuple[str, ...] = ()
    """Metrics that were ignored, each with the reason."""


class Refusal(NamedTuple):
    """An invalid reply, with the reason."""

    node: int
    reason: str


class DroppedReply(NamedTuple):
    """A reply that the server did not accept in some round, with the reason."""

    round: int
    node: int
    reason: str


class DroppedReplies:
    """Counts the replies that a server did not accept, and keeps the last ``MAX_DROPPED``.

    Attributes:
        total: The number of dropped replies.
        recent: The last dropped replies, oldest first.
    """

    def __init__(self) -> None:
        self.total = 0
        self.recent: deque[DroppedReply] = deque(maxlen=MAX_DROPPED)

    def add(self, round_: int, refusal: Refusal) -> None:
        """Count a reply that was refused in this round."""
        self.total += 1
        self.recent.append(DroppedReply(round_, refusal.node, refusal.reason))


def check_reply(message: Message, shapes: Shapes) -> Reply | Refusal:
    """Check a reply from an untrusted party.

    Args:
        message: The reply, which may contain anything.
        shapes: The names and shapes that the model must have.

    Returns:
        The model and its metrics, or the reason why the reply is refused. This never raises.
    """
    node = message.metadata.src_node_id
    try:
        if message.has_error():
            return Refusal(node, shorten(f"the party failed: {message.error.reason}"))
        record = message.content.get(ARRAYS)
        if not isinstance(record, ArrayRecord):
            return Refusal(node, f"no arrays under {ARRAYS!r}")
        problem = _problem_with_names(record, shapes)
        if problem:
            return Refusal(node, shorten(problem))
        parts = [
            _decode(record[name], name, shape)
            for name, shape in zip(shapes.names, shapes.shapes, strict=True)
        ]
        w = np.concatenate([part.ravel() for part in parts])
        with np.errstate(over="ignore", invalid="ignore"):
            norm = float(np.sqrt(np.sum(np.square(w), dtype=np.float32)))
        if not math.isfinite(norm):
            is_finite = bool(np.isfinite(w).all())
            return Refusal(
                node, "entries too large to square" if is_finite else "NaN or Inf in its model"
            )
        metrics, ignored = _read_metrics(message)
        return Reply(node, w, metrics, _read_identity(message), ignored)
    except Exception as error:  # No reply of one party may stop the others.
        return Refusal(node, shorten(f"{type(error).__name__}: {error}"))


def _problem_with_names(record: ArrayRecord, shapes: Shapes) -> str:
    missing = [name for name in shapes.names if name not in record]
    extra = [name for name in record if name not in shapes.names]
    if missing:
        return f"missing parameters: {', '.join(missing)}"
    return f"unknown parameters: {', '.join(map(repr, extra))}" if extra else ""


def _decode(array: Array, name: str, shape: tuple[int, ...]) -> NumpyArray:
    """Return the entries of an array; its type and size are checked before its bytes are read."""
    if tuple(array.shape) != shape:
        raise ValueError(f"{name} has shape {tuple(array.shape)}, not {shape}")
    if array.dtype != DTYPE.name:
        raise ValueError(f"{name} has entries of type {array.dtype}, not {DTYPE.name}")
    expected = int(np.prod(shape)) * DTYPE.itemsize
    if not expected <= len(array.data) <= expected + MAX_HEADER:
        raise ValueError(f"{name} has {len(array.data):,} bytes, not about {expected:,}")
    entries = array.numpy()
    if entries.shape != shape or entries.dtype != DTYPE:
        raise ValueError(
            f"{name} holds {entries.dtype} of shape {entries.shape}, unlike its description"
        )
    return np.asarray(entries)


def _read_identity(message: Message) -> str | None:
    """Return the identity of the party, or None if it sends no secret."""
    record = message.content.get(CONFIG)
    secret = record.get(SECRET) if isinstance(record, ConfigRecord) else None
    if secret is None:
        return None
    if not isinstance(secret, str) or re.fullmatch("[0-9a-f]{64}", secret) is None:
        raise ValueError("its secret does not have 64 hexadecimal digits")
    return hash_secret(secret)


def _read_metrics(message: Message) -> tuple[dict[str, float], tuple[str, ...]]:
    """Return the usable metrics by name, and the reasons why others were ignored."""
    record = message.content.get(METRICS)
    if not isinstance(record, MetricRecord):
        return {}, ()
    if len(record) > MAX_METRICS:
        return {}, (f"{len(record)} metrics are more than {MAX_METRICS}",)
    metrics, ignored = {}, []
    for name, value in record.items():
        problem = _problem_with_metric(name, value)
        if problem:
            ignored.append(shorten(f"{name!r} {problem}"))
        else:
            metrics[name] = float(value)  # type: ignore[arg-type]
    return metrics, tuple(ignored)


def _problem_with_metric(name: str, value: object) -> str:
    if name != make_printable(name) or not 0 < len(name) <= MAX_NAME:
        return f"is not a name of at most {MAX_NAME} printable characters"
    if not isinstance(value, (int, float)):
        return "is not a number"
    if not abs(value) <= MAX_METRIC:  # This includes NaN.
        is_float = isinstance(value, float)
        return f"is {value:g}, not within ±{MAX_METRIC:g}" if is_float else "is too large"
    return ""


def make_printable(text: str) -> str:
    r"""Return text without terminal escape sequences and control characters, in one line.

    >>> make_printable("\x1b[31mred\x1b[0m, \x1b]0;title\x07a\u202eb\nline")
    'red, ab line'
    """
    line = " ".join(ESCAPES.sub("", text).split())
    return "".join(c for c in line if unicodedata.category(c)[0] != "C")


def shorten(text: str) -> str:
    """Return a party's text as one printable line of at most ``MAX_REASON`` characters."""
    line = make_printable(text[: 50 * MAX_REASON])
    return line if len(line) <= MAX_REASON else f"{line[:MAX_REASON]}…"
