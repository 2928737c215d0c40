"""A grid that polls for replies more often than Flower's own, which polls every three seconds."""

import time
from collections.abc import Iterable

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from typing_extensions import override

from fedplus.flower.in_process_grid import InProcessGrid, error_reply

MIN_PAUSE, MAX_PAUSE = 0.2, 3.0
"""Seconds between two polls."""
PAUSE_FRACTION = 0.05
"""The length of the next pause as a fraction of the time waited so far."""


def poll_often(grid: Grid) -> Grid:
    """Return a grid that polls often; an ``InProcessGrid`` is returned as it is."""
    return grid if isinstance(grid, InProcessGrid) else PollingGrid(grid)


class PollingGrid(Grid):
    """A wrapper around another grid that polls for replies until they are complete or too late.

    A wait is at most ``PAUSE_FRACTION`` longer than needed, and ends at the deadline. Polling takes at
    most half of the time, for any number of parties.

    Args:
        grid: The grid that sends and receives the messages.
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
        start = time.monotonic()
        sent = dict(zip(self._grid.push_messages(messages), messages, strict=True))
        pending = {message_id: message for message_id, message in sent.items() if message_id}
        replies: list[Message] = []
        while pending:
            poll_start = time.monotonic()
            for message_id, message in list(pending.items()):
                reply = self._pull_reply(message_id, message)
                if reply is not None:
                    replies.append(reply)
                    del pending[message_id]
            waited, poll_time = time.monotonic() - start, time.monotonic() - poll_start
            if not pending or (timeout is not None and waited >= timeout):
                break
            pause = min(max(PAUSE_FRACTION * waited, MIN_PAUSE, poll_time), MAX_PAUSE)
            time.sleep(pause if timeout is None else min(pause, timeout - waited))
        return replies

    def _pull_reply(self, message_id: str, message: Message) -> Message | None:
        """Return the reply to one message, or None; an unreadable reply becomes an error.

        Replies are pulled one by one, so that each one's sender is known whatever the reply claims.
        """
        try:
            replies = list(self._grid.pull_messages([message_id]))
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
