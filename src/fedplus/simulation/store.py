"""``PartyStore``: the parties' models in a file, for federations whose W does not fit into memory.

The file consists of slots of equal size, one per party that has trained; the others take no space. A
slot that belongs to a checkpoint is never overwritten: a newer row goes into another slot. A run that
is killed therefore finds every row as its checkpoint left it.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fedplus._types import NumpyArray
from fedplus.files import PRIVATE, make_folder

NO_SLOT = -1
"""The slot of a party that has never trained."""


class PartyStore:
    """A file with one row of each field for each party.

    Args:
        path: The file.
        parties: N.
        initial_rows: The row of each field that every party begins with.
    """

    def __init__(self, path: Path, parties: int, initial_rows: Mapping[str, NumpyArray]) -> None:
        make_folder(path.parent)
        # Not ``ascontiguousarray``, which makes a vector of a number.
        self._initial_rows = {
            name: np.asarray(row, order="C") for name, row in initial_rows.items()
        }
        self._slot_bytes = sum(row.nbytes for row in self._initial_rows.values())
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE)
        self._slot_count = os.fstat(self._file).st_size // self._slot_bytes
        self._free_slots = list(range(self._slot_count))
        self._snapshots: list[NumpyArray] = []
        self.slots: NumpyArray = np.full(parties, NO_SLOT, np.int64)
        """(N,): the slot of each party's row."""

    def read(self, parties: NumpyArray) -> dict[str, NumpyArray]:
        """Return the rows of these parties, by field."""
        rows = {
            name: np.empty((len(parties), *row.shape), row.dtype)
            for name, row in self._initial_rows.items()
        }
        size = self._slot_bytes
        for i, slot in enumerate(self.slots[parties]):
            content = os.pread(self._file, size, slot * size) if slot >= 0 else b""
            offset = 0
            for name, initial in self._initial_rows.items():
                row = initial
                if content:
                    row = np.frombuffer(content, initial.dtype, initial.size, offset)
                rows[name][i] = row.reshape(initial.shape)
                offset += initial.nbytes
        return rows

    def write(self, parties: NumpyArray, rows: Mapping[str, NumpyArray]) -> None:
        """Write new rows of these parties."""
        protected = set(np.concatenate(self._snapshots).tolist()) if self._snapshots else set()
        for i, party in enumerate(parties):
            slot = int(self.slots[party])
            if slot == NO_SLOT or slot in protected:
                slot = self._take_free_slot()
                self.slots[party] = slot
            content = b"".join(
                np.asarray(rows[name][i], row.dtype).tobytes()
                for name, row in self._initial_rows.items()
            )
            os.pwrite(self._file, content, slot * self._slot_bytes)

    def snapshot(self, keep: int) -> NumpyArray:
        """Flush the file and return the slots (N,) for a checkpoint.

        The rows of the last ``keep`` snapshots are never overwritten.
        """
        os.fsync(self._file)
        self._snapshots = [*self._snapshots, self.slots.copy()][-keep:]
        used = np.unique(np.concatenate([*self._snapshots, self.slots]))
        self._free_slots = np.setdiff1d(np.arange(self._slot_count), used).tolist()
        return self.slots.copy()

    def restore(self, slots: NumpyArray) -> None:
        """Go back to the rows of a snapshot."""
        self.slots = np.array(slots, np.int64)
        self._snapshots = [self.slots.copy()]
        self._free_slots = np.setdiff1d(np.arange(self._slot_count), self.slots).tolist()

    def _take_free_slot(self) -> int:
        if self._free_slots:
            return int(self._free_slots.pop())
        self._slot_count += 1
        return self._slot_count - 1

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            os.close(self._file)
