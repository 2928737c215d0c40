"""Server-sent events: changes of the list of runs, and new evaluations of the selected runs."""

import dataclasses
import json
import time
from typing import Any, final

from fedplus.board import payload
from fedplus.board.index import Index
from fedplus.board.run_ids import (
    NoRunError,
    Stamp,
    file_stamp,
    find_run,
    is_regular_file,
    split_run_id,
)
from fedplus.board.tail import (
    NO_LINES,
    START,
    NewLines,
    ReadPosition,
    parse_position,
    read_new_lines,
)
from fedplus.check import SettingError, require
from fedplus.experiments.run_folder import ROUNDS

MAX_RUNS = 32
"""Largest number of runs that one page may follow."""
KEEP_ALIVE = 15.0
"""Seconds without an event after which a comment is sent, so that the connection stays open."""


@dataclasses.dataclass
class _FollowedRun:
    """A run that the page follows, and how much of it was sent."""

    run: str
    position: ReadPosition
    last_stamp: Stamp | None = None
    is_sent: bool = False
    has_more: bool = False
    error_message: str = ""


@final
class EventStream:
    """The events of one page. The id of an event holds the read positions of all followed runs.

    Args:
        index: The list of runs.
        runs: Ids of the runs whose learning curves are shown.
        opened: Id of the run whose parties are shown, if any.
        party: Index of the party whose history is shown, if any.
        after: Id of the last event that the page received, or "".

    Raises:
        SettingError: There are too many runs, or an id is not valid.
    """

    def __init__(
        self, index: Index, runs: list[str], opened: str | None, party: int | None, after: str
    ) -> None:
        names = list(dict.fromkeys([*runs, *([] if opened is None else [opened])]))
        require(len(names) <= MAX_RUNS, "run", f"{len(names)} runs", f"≤ {MAX_RUNS} runs")
        for name in names:
            split_run_id(name)
        positions = [parse_position(text) for text in after.split(",")]
        if len(positions) != len(names):
            positions = [START] * len(names)
        self.index, self.opened, self.party = index, opened, party
        self.followed = [_FollowedRun(*pair) for pair in zip(names, positions, strict=True)]
        self.version = -1
        self.last_sent = time.monotonic()

    @property
    def is_up_to_date(self) -> bool:
        """Return whether all lines that the files contain were sent."""
        return not any(run.has_more for run in self.followed)

    def new_messages(self) -> list[str]:
        """Return the messages since the last call. This reads files, so call it in a thread."""
        messages = []
        version = self.index.refresh()
        if version != self.version:
            rows = [row for run in self.followed if (row := self.index.row(run.run))]
            messages.append(self._event("runs", {"followed": [row._asdict() for row in rows]}))
            self.version = version
        messages += [message for run in self.followed if (message := self._read(run))]
        now = time.monotonic()
        if not messages and now - self.last_sent > KEEP_ALIVE:
            messages = [": still here\n\n"]
        if messages:
            self.last_sent = now
        return messages

    def _read(self, run: _FollowedRun) -> str | None:
        """Return an event with the new lines of a run, or None if there is nothing to send."""
        stamp = None
        try:
            path = find_run(self.index.folder, run.run) / ROUNDS
            stamp = file_stamp(path)
            if run.is_sent and stamp == run.last_stamp and not run.has_more:
                return None
            new = read_new_lines(path, run.position) if is_regular_file(path) else NO_LINES
            content = self._content(run.run, new)
        except (SettingError, RecursionError) as error:
            return self._error_event(run, error, stamp)
        has_restarted = new.from_start and run.position != START
        is_due = not run.is_sent or new.lines or run.error_message or has_restarted
        run.position, run.has_more, run.last_stamp = new.position, new.has_more, stamp
        run.is_sent, run.error_message = True, ""
        return self._event("lines", content | {"at": str(run.position)}) if is_due else None

    def _error_event(self, run: _FollowedRun, error: Exception, stamp: Stamp | None) -> str | None:
        """Return an event about a damaged or removed run; each message is sent only once."""
        is_gone = isinstance(error, NoRunError)
        run.is_sent, run.has_more, run.last_stamp = not is_gone, False, stamp
        message = str(error)
        if run.error_message == message:
            return None
        run.position, run.error_message = START, message
        return self._event("gone" if is_gone else "damaged", {"run": run.run, "message": message})

    def _content(self, run: str, new: NewLines) -> dict[str, Any]:
        points = [payload.curve_point(line) for line in new.lines]
        content: dict[str, Any] = {"run": run, "start": new.from_start, "points": points}
        if run == self.opened and new.lines:
            content["parties"] = payload.party_values(new.lines[-1])
            if self.party is not None:
                content["party"] = [payload.party_point(line, self.party) for line in new.lines]
        return content

    def _event(self, name: str, content: dict[str, Any]) -> str:
        positions = ",".join(str(run.position) for run in self.followed)
        data = json.dumps(content, allow_nan=False, separators=(",", ":"))
        return f"event: {name}\nid: {positions}\ndata: {data}\n\n"
