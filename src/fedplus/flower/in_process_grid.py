"""A Flower grid whose parties run in this process, to try and to test an app without any server."""

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

SERVER_NODE = 1
ERROR_CODE = 0


def error_reply(message: Message, reason: str) -> Message:
    """Return an error that takes the place of a party's reply."""
    return Message(Error(ERROR_CODE, reason), reply_to=message)


def set_sender() -> None:
    """Set the sender of this process's messages, as Flower's own programs do when they start."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, SERVER_NODE, 1


class InProcessGrid(Grid):
    """A grid that calls the ``ClientApp`` for each message; a failing party replies with an error.

    Args:
        app: The parties' code.
        parties: The node ids of the parties, or their number.
        run_config: The run configuration, as in the app's ``pyproject.toml``.
        tamper: A function that changes a reply on its way, or drops it by returning None. It is meant
            for tests of faults.
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
        """Nodes that can be reached. Tests remove nodes and add them again."""

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
            message_id = uuid.uuid4().hex
            message.metadata.__dict__["_message_id"] = message_id
            ids.append(message_id)
            reply = self._call_party(message)
            if reply is not None:
                self._replies[message_id] = reply
        return ids

    def _call_party(self, message: Message) -> Message | None:
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
        return [self._replies.pop(key) for key in message_ids if key in self._replies]

    @override
    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        return self.pull_messages(self.push_messages(messages))
