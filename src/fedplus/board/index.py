"""The list of runs in the board's folder, updated from each ``status.json``."""

import shlex
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple, final

from fedplus.board.row import Row, is_alive, read_row
from fedplus.board.run_ids import ROOT_RUN, Stamp, file_stamp, find_runs
from fedplus.check import require
from fedplus.experiments.run_folder import STATUS

CHECK_INTERVAL = 0.4
"""Seconds between two checks of the running runs."""
SCAN_INTERVAL = 2.0
"""Seconds between two searches for new runs; longer if a search takes long."""
PAGE_SIZE = 50
SORTS = ("label", "state", "round", "mean", "worst", "method", "data", "model", "seed", "updated")


class _Entry(NamedTuple):
    """A run in the list; ``pid`` is its process if it runs on this machine."""

    stamp: Stamp
    row: Row
    pid: int | None


@final
class Index:
    """All runs in a folder; thread-safe."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.version = 0
        self._entries: dict[str, _Entry] = {}
        self._lock = threading.Lock()
        self._next_check = self._next_scan = 0.0

    def refresh(self) -> int:
        """Update the list if an interval has passed; return the version, which counts changes."""
        with self._lock:
            start = time.monotonic()
            if start >= self._next_scan:
                stamps: dict[str, Stamp | None] = dict(find_runs(str(self.folder)))
                stamps |= dict.fromkeys(self._entries.keys() - stamps.keys())
                duration = time.monotonic() - start
                self._next_scan = start + max(SCAN_INTERVAL, 20 * duration)
            elif start >= self._next_check:
                running = [k for k, entry in self._entries.items() if entry.row.state == "running"]
                stamps = {run: file_stamp(self._path(run) / STATUS) for run in running}
            else:
                return self.version
            self.version += sum(self._update(run, stamp) for run, stamp in stamps.items())
            self._next_check = time.monotonic() + CHECK_INTERVAL
            return self.version

    def row(self, run: str) -> Row | None:
        """Return the row of a run by its id; None if the list does not have it."""
        entry = self._entries.get(run)
        return entry.row if entry else None

    def page(self, search: str, sort: str, descending: bool, page: int) -> dict[str, Any]:
        """Return one page of the matching runs, sorted; runs without a value come last.

        Args:
            search: Words that must all occur in a row.
            sort: Column to sort by, one of ``SORTS``.
            descending: Sort from the highest to the lowest value.
            page: Number of the page, from 0; the last page if there are fewer.

        Raises:
            SettingError: The column or the page is not valid.
        """
        require(sort in SORTS, "sort", sort, f"one of {', '.join(SORTS)}")
        require(page >= 0, "page", page, "≥ 0")
        self.refresh()
        with self._lock:
            rows = [entry.row for entry in self._entries.values()]
        words = search.casefold().split()
        matching = sorted((row for row in rows if row.matches(words)), key=lambda row: row.id)
        with_value = [row for row in matching if getattr(row, sort) not in (None, "")]
        with_value.sort(key=lambda row: _sort_key(getattr(row, sort)), reverse=descending)
        ordered = with_value + [row for row in matching if getattr(row, sort) in (None, "")]
        last = max(0, (len(ordered) - 1) // PAGE_SIZE)
        page = min(page, last)
        shown = ordered[page * PAGE_SIZE : (page + 1) * PAGE_SIZE]
        return {
            "runs": [row._asdict() for row in shown],
            "page": page, "pages": last + 1, "from": page * PAGE_SIZE,
            "matching": len(ordered), "total": len(rows),
        }  # fmt: skip

    def _path(self, run: str) -> Path:
        return self.folder if run == ROOT_RUN else self.folder / run

    def _update(self, run: str, stamp: Stamp | None) -> bool:
        """Update the entry of a run from disk, and return whether it has changed."""
        entry = self._entries.get(run)
        if stamp is None:
            return self._entries.pop(run, None) is not None
        if entry is None or entry.stamp != stamp:
            row, pid = read_row(run, self._path(run))
            entry = _Entry(stamp, row, pid)
        if entry.pid is not None and not is_alive(entry.pid):
            message = (
                f"Process {entry.pid} is gone. Continue with: "
                f"fedplus run --resume {shlex.quote(str(self._path(run)))}"
            )
            entry = entry._replace(
                row=entry.row._replace(state="killed", message=message), pid=None
            )
        has_changed = self._entries.get(run) != entry
        self._entries[run] = entry
        return has_changed


def _sort_key(value: str | float) -> str | float:
    return value.casefold() if isinstance(value, str) else value
