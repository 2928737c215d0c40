"""Parties in this process: to try a party's code, and to test, without any server."""

import traceback
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from logging import WARNING

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common import log
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity
from typing_extensions import override

SERVER = 1
FAILED = 0


def error_reply(message: Message, reason: str) -> Message:
    """An error in the place of a party's reply."""
    return Message(Error(FAILED, reason), reply_to=message)


def set_sender() -> None:
    """Say who sends messages in this process, which Flower's own programs say when they start."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, SERVER, 1


class InProcessGrid(Grid):
    """Calls the ``ClientApp`` for each message; a party that fails answers with an error.

    Args:
        app: The parties' code.
        parties: Their ids, or how many.
        run_config: As in the app's ``pyproject.toml``.
        tamper: Changes a reply on its way, or drops it (None): for tests of faults.
    """

    def __init__(
        self, app: ClientApp | Callable[[Message, Context], Message], parties: int | Sequence[int], *,
        run_config: Mapping[str, bool | float | int | str] | None = None,
        tamper: Callable[[Message], Message | None] | None = None,
    ) -> None:  # fmt: skip
        set_sender()
        ids = range(1, parties + 1) if isinstance(parties, int) else parties
        self._app = app
        self._tamper = tamper
        self._replies: dict[str, Message] = {}
        self._run = Run.create_empty(run_id=1)
        self.contexts = {
            node: Context(
                run_id=1, node_id=node, state=RecordDict(), run_config=dict(run_config or {}),
                node_config={"partition-id": k, "num-partitions": len(ids)},
            )
            for k, node in enumerate(ids)
        }  # fmt: skip
        self.connected = list(ids)
        """Who can be reached; take one away, or bring it back."""

    @override
    def set_run(self, run: Run) -> None:
        self._run = run

    @property
    @override
    def run(self) -> Run:
        return self._run

    @override
    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str,
        ttl: float | None = None,
    ) -> Message:  # fmt: skip
        return Message(content, dst_node_id, message_type, group_id=group_id)

    @override
    def get_node_ids(self) -> Iterable[int]:
        return list(self.connected)

    @override
    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        ids = []
        for message in messages:
            name = uuid.uuid4().hex
            message.metadata.__dict__["_message_id"] = name
            ids.append(name)
            reply = self._answered(message)
            if reply is not None:
                self._replies[name] = reply
        return ids

    def _answered(self, message: Message) -> Message | None:
        node = message.metadata.dst_node_id
        if node not in self.connected:
            return None
        try:
            reply = self._app(message, self.contexts[node])
        except Exception as error:
            log(WARNING, "Node %s failed:\n%s", node, traceback.format_exc())
            reply = error_reply(message, f"{type(error).__name__}: {error}")
        return reply if self._tamper is None else self._tamper(reply)

    @override
    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return [self._replies.pop(name) for name in message_ids if name in self._replies]

    @override
    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        return self.pull_messages(self.push_messages(messages))
