"""Replies soon after they came: Flower's own grid looks for them every three seconds."""

import time
from collections.abc import Iterable

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from typing_extensions import override

from fedplus.flower.in_process_grid import InProcessGrid, error_reply

SHORTEST, LONGEST = 0.2, 3.0
"""Seconds between two looks."""
SHARE = 0.05
"""Of the time waited so far that the next pause takes."""


def poll_often(grid: Grid) -> Grid:
    """The same parties, looked after more often; those in this process have replied at once."""
    return grid if isinstance(grid, InProcessGrid) else PollingGrid(grid)


class PollingGrid(Grid):
    """Another grid's messages; a wait grows by at most ``SHARE`` and ends at its deadline.

    Looking takes at most half of the time, however many parties there are.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    @override
    def set_run(self, run: Run) -> None:
        self._grid.set_run(run)

    @property
    @override
    def run(self) -> Run:
        return self._grid.run

    @override
    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str,
        ttl: float | None = None,
    ) -> Message:  # fmt: skip
        return self._grid.create_message(content, message_type, dst_node_id, group_id, ttl)

    @override
    def get_node_ids(self) -> Iterable[int]:
        return self._grid.get_node_ids()

    @override
    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return self._grid.push_messages(messages)

    @override
    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return self._grid.pull_messages(message_ids)

    @override
    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        messages = list(messages)
        begun = time.monotonic()
        asked = dict(zip(self._grid.push_messages(messages), messages, strict=True))
        awaited = {name: message for name, message in asked.items() if name}
        found: list[Message] = []
        while awaited:
            looked = time.monotonic()
            for name, message in list(awaited.items()):
                reply = self._reply(name, message)
                if reply is not None:
                    found.append(reply)
                    del awaited[name]
            waited, look = time.monotonic() - begun, time.monotonic() - looked
            if not awaited or (timeout is not None and waited >= timeout):
                break
            pause = min(max(SHARE * waited, SHORTEST, look), LONGEST)
            time.sleep(pause if timeout is None else min(pause, timeout - waited))
        return found

    def _reply(self, name: str, message: Message) -> Message | None:
        """The reply to one message, if it came; what cannot be read is an error of that party.

        One by one: the sender and what it answers to are then known, whatever a reply says of itself.
        """
        try:
            replies = list(self._grid.pull_messages([name]))
        except Exception as error:
            return error_reply(
                message, f"its reply cannot be read: {type(error).__name__}: {error}"
            )
        if not replies:
            return None
        (reply,) = replies
        node = message.metadata.dst_node_id
        if reply.has_error():
            return error_reply(message, str(reply.error.reason))
        if reply.metadata.src_node_id != node:
            return error_reply(message, f"it poses as node {reply.metadata.src_node_id}")
        return reply
