"""Where a block of W's columns lies, so that nobody need copy it: XLA would, for a loop's call."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import numpy as np

from fedplus._types import Host, Matrix

_LIES: ContextVar[tuple[Matrix, Matrix, int] | None] = ContextVar("lies", default=None)


@contextmanager
def lying_in(block: Matrix, w_local: Matrix, column: int | None) -> Iterator[None]:
    """While a block is aggregated: from which column of W on it lies there; None: in several pieces."""
    token = _LIES.set((block, w_local, column) if column is not None else None)
    try:
        yield
    finally:
        _LIES.reset(token)


def lies_in(block: Matrix) -> tuple[Matrix, int]:
    """The matrix to read, and the column in it where the block begins."""
    lies = _LIES.get()
    return lies[1:] if lies is not None and lies[0] is block else (block, 0)


def taken_anew(block: Matrix) -> Matrix:
    """The block, for a loop of XLA's that may not run at all: it would be copied beforehand."""
    w_local, column = lies_in(block)
    return block if w_local is block else w_local[:, column : column + block.shape[1]]


class Part(NamedTuple):
    """Columns of a W that is at hand: so many from one on."""

    w_local: Host
    column: int
    size: int
    to: Host | None = None
    """Where their aggregate may be written; None: to memory of its own."""

    def room(self) -> Host:
        """For the aggregate."""
        return np.empty(self.size, np.float32) if self.to is None else self.to


def all_of(w_local: Host) -> Part:
    """All columns."""
    return Part(w_local, 0, w_local.shape[1])
