"""Server-sent events: that the list has changed, and new lines of the runs that are looked at."""

import dataclasses
import json
import time
from typing import Any, final

from fedplus.board import payload
from fedplus.board.index import Index
from fedplus.board.run_ids import NoRunError, Stamp, find_run, is_plain, split_run_id, stamp
from fedplus.board.tail import (
    NOTHING,
    START,
    NewLines,
    ReadPosition,
    parse_position,
    read_new_lines,
)
from fedplus.check import SettingError, require
from fedplus.experiments.run_folder import ROUNDS

MOST = 32
"""How many runs one page may follow."""
KEEP_ALIVE = 15.0


@dataclasses.dataclass
class _Followed:
    run: str
    position: ReadPosition
    seen: Stamp | None = None
    told: bool = False
    more: bool = False
    trouble: str = ""


@final
class Stream:
    """What one page is told; its events' ids say how far each run was read."""

    def __init__(
        self, index: Index, runs: list[str], opened: str | None, party: int | None, after: str
    ) -> None:
        names = list(dict.fromkeys([*runs, *([] if opened is None else [opened])]))
        require(len(names) <= MOST, "run", f"{len(names)} runs", f"≤ {MOST} runs")
        for name in names:
            split_run_id(name)
        found = [parse_position(one) for one in after.split(",")]
        if len(found) != len(names):
            found = [START] * len(names)
        self.index, self.opened, self.party = index, opened, party
        self.followed = [_Followed(*pair) for pair in zip(names, found, strict=True)]
        self.version = -1
        self.spoke = time.monotonic()

    @property
    def waits(self) -> bool:
        """Whether all that is there was sent."""
        return not any(one.more for one in self.followed)

    def news(self) -> list[str]:
        """The messages since the last call. It reads files: call it in a thread."""
        messages = []
        version = self.index.refresh()
        if version != self.version:
            rows = [row for one in self.followed if (row := self.index.row(one.run))]
            messages.append(self._event("runs", {"followed": [row._asdict() for row in rows]}))
            self.version = version
        messages += [text for one in self.followed if (text := self._of(one))]
        now = time.monotonic()
        if not messages and now - self.spoke > KEEP_ALIVE:
            messages = [": still here\n\n"]
        if messages:
            self.spoke = now
        return messages

    def _of(self, one: _Followed) -> str | None:
        seen = None
        try:
            path = find_run(self.index.folder, one.run) / ROUNDS
            seen = stamp(path)
            if one.told and seen == one.seen and not one.more:
                return None
            news = read_new_lines(path, one.position) if is_plain(path) else NOTHING
            content = self._content(one.run, news)
        except (SettingError, RecursionError) as error:
            return self._trouble(one, error, seen)
        due = not one.told or news.lines or one.trouble or (news.anew and one.position != START)
        one.position, one.more, one.seen = news.position, news.more, seen
        one.told, one.trouble = True, ""
        return self._event("lines", content | {"at": str(one.position)}) if due else None

    def _trouble(self, one: _Followed, error: Exception, seen: Stamp | None) -> str | None:
        gone = isinstance(error, NoRunError)
        one.told, one.more, one.seen = not gone, False, seen
        if one.trouble == str(error):
            return None
        one.position, one.trouble = START, str(error)
        return self._event("gone" if gone else "damaged", {"run": one.run, "message": str(error)})

    def _content(self, run: str, news: NewLines) -> dict[str, Any]:
        curve = [payload.curve_point(line) for line in news.lines]
        content: dict[str, Any] = {"run": run, "start": news.anew, "points": curve}
        if run == self.opened and news.lines:
            content["parties"] = payload.party_values(news.lines[-1])
            if self.party is not None:
                content["party"] = [payload.party_point(line, self.party) for line in news.lines]
        return content

    def _event(self, name: str, content: dict[str, Any]) -> str:
        reached = ",".join(str(one.position) for one in self.followed)
        data = json.dumps(content, allow_nan=False, separators=(",", ":"))
        return f"event: {name}\nid: {reached}\ndata: {data}\n\n"
