"""The list of runs, kept up to date by looking at each ``status.json``, never at the rounds."""

import threading
import time
from pathlib import Path
from typing import Any, NamedTuple, final

from fedplus.board.row import Row, is_alive, read_row
from fedplus.board.run_ids import ITSELF, Stamp, find_runs, stamp
from fedplus.check import require
from fedplus.experiments.run_folder import STATUS

FRESH = 0.4
"""Seconds for which what was seen is good enough."""
SCAN = 2.0
"""Seconds between two looks for new runs; more where a look takes long."""
PAGE = 50
SORTS = ("label", "state", "round", "mean", "worst", "method", "data", "model", "seed", "updated")


class _Known(NamedTuple):
    stamp: Stamp
    row: Row
    pid: int | None


@final
class Index:
    """All runs in a folder; safe to use from several threads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.version = 0
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()
        self._next_look = self._next_scan = 0.0

    def refresh(self) -> int:
        """Look for changes; the version grows with each."""
        with self._lock:
            begun = time.monotonic()
            if begun >= self._next_scan:
                seen: dict[str, Stamp | None] = dict(find_runs(str(self.folder)))
                seen |= dict.fromkeys(self._known.keys() - seen.keys())
                took = time.monotonic() - begun
                self._next_scan = begun + max(SCAN, 20 * took)
            elif begun >= self._next_look:
                going = [k for k, known in self._known.items() if known.row.state == "running"]
                seen = {run: stamp(self._path(run) / STATUS) for run in going}
            else:
                return self.version
            self.version += sum(self._update(run, found) for run, found in seen.items())
            self._next_look = time.monotonic() + FRESH
            return self.version

    def row(self, run: str) -> Row | None:
        """One run."""
        known = self._known.get(run)
        return known.row if known else None

    def page(self, search: str, sort: str, falling: bool, page: int) -> dict[str, Any]:
        """A page of the runs that match, sorted; those without a value come last."""
        require(sort in SORTS, "sort", sort, f"one of {', '.join(SORTS)}")
        require(page >= 0, "page", page, "≥ 0")
        self.refresh()
        with self._lock:
            rows = [known.row for known in self._known.values()]
        words = search.casefold().split()
        fitting = sorted((row for row in rows if row.matches(words)), key=lambda row: row.id)
        having = [row for row in fitting if getattr(row, sort) not in (None, "")]
        having.sort(key=lambda row: _key(getattr(row, sort)), reverse=falling)
        ordered = having + [row for row in fitting if getattr(row, sort) in (None, "")]
        last = max(0, (len(ordered) - 1) // PAGE)
        page = min(page, last)
        shown = ordered[page * PAGE : (page + 1) * PAGE]
        return {
            "runs": [row._asdict() for row in shown],
            "page": page, "pages": last + 1, "from": page * PAGE,
            "matching": len(ordered), "total": len(rows),
        }  # fmt: skip

    def _path(self, run: str) -> Path:
        return self.folder if run == ITSELF else self.folder / run

    def _update(self, run: str, found: Stamp | None) -> bool:
        """Take over what is on disk now; whether anything changed."""
        known = self._known.get(run)
        if found is None:
            return self._known.pop(run, None) is not None
        if known is None or known.stamp != found:
            row, pid = read_row(run, self._path(run))
            known = _Known(found, row, pid)
        if known.pid is not None and not is_alive(known.pid):
            message = f"Process {known.pid} is gone. The run can be resumed."
            known = known._replace(
                row=known.row._replace(state="killed", message=message), pid=None
            )
        changed = self._known.get(run) != known
        self._known[run] = known
        return changed


def _key(value: str | float) -> str | float:
    return value.casefold() if isinstance(value, str) else value
