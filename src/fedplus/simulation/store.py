"""Parties' models in a file, for federations whose N × d outgrows memory.

A file of equal slots, one a trained party; a party that has never trained takes no space. Only the rows
that some rounds need are in memory. A slot that a checkpoint speaks of is never written over: a newer
row goes into another slot, so a run that is killed finds every row as its checkpoint left it.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fedplus._types import Host
from fedplus.files import PRIVATE, make_folder

ABSENT = -1
"""The slot of a party that has never trained."""


class PartyStore:
    """Rows of several fields, by party.

    Args:
        path: The file.
        parties: N.
        first: For each field the row that every party begins with.
    """

    def __init__(self, path: Path, parties: int, first: Mapping[str, Host]) -> None:
        make_folder(path.parent)
        self._first = {name: np.ascontiguousarray(row) for name, row in first.items()}
        self._bytes = sum(row.nbytes for row in self._first.values())
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE)
        self._end = os.fstat(self._file).st_size // self._bytes
        self._free = list(range(self._end))
        self._kept: list[Host] = []
        self.slots: Host = np.full(parties, ABSENT, np.int64)
        """(N,): where each party's row is."""

    def read(self, parties: Host) -> dict[str, Host]:
        """Each field's rows of these parties."""
        rows = {
            name: np.empty((len(parties), *row.shape), row.dtype)
            for name, row in self._first.items()
        }
        for i, slot in enumerate(self.slots[parties]):
            content = os.pread(self._file, self._bytes, slot * self._bytes) if slot >= 0 else b""
            at = 0
            for name, row in self._first.items():
                given = np.frombuffer(content, row.dtype, row.size, at) if content else row
                rows[name][i] = given.reshape(row.shape)
                at += row.nbytes
        return rows

    def write(self, parties: Host, rows: Mapping[str, Host]) -> None:
        """New rows of these parties."""
        kept = set(np.concatenate(self._kept).tolist()) if self._kept else set()
        for i, party in enumerate(parties):
            slot = int(self.slots[party])
            if slot == ABSENT or slot in kept:
                slot = self._new_slot()
                self.slots[party] = slot
            content = b"".join(
                np.asarray(rows[name][i], row.dtype).tobytes() for name, row in self._first.items()
            )
            os.pwrite(self._file, content, slot * self._bytes)

    def keep(self, most: int) -> Host:
        """For a checkpoint: everything is on disk, and stays so while it is among the last ``most``."""
        os.fsync(self._file)
        self._kept = [*self._kept, self.slots.copy()][-most:]
        used = np.unique(np.concatenate([*self._kept, self.slots]))
        self._free = np.setdiff1d(np.arange(self._end), used).tolist()
        return self.slots.copy()

    def restore(self, slots: Host) -> None:
        """Go on from a checkpoint."""
        self.slots = np.array(slots, np.int64)
        self._kept = [self.slots.copy()]
        self._free = np.setdiff1d(np.arange(self._end), self.slots).tolist()

    def _new_slot(self) -> int:
        if self._free:
            return int(self._free.pop())
        self._end += 1
        return self._end - 1

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            os.close(self._file)
