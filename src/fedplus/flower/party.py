"""A party's side of a round: lines 5 to 9 and 11 to 14 of Algorithm 1, around the user's own steps."""

import re
import secrets
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict

from fedplus._checkpoint import Checkpoint, checkpoints_in, round_of_file, save
from fedplus._types import Host
from fedplus.check import require, require_integer, require_number
from fedplus.experiments.lock import PartyLock
from fedplus.files import make_folder
from fedplus.flower.local_rule import rule_from_message, rule_from_method
from fedplus.flower.records import (
    ARRAYS,
    CONFIG,
    FEDERATION,
    METRICS,
    OTHERS,
    ROUND,
    SECRET,
    Shapes,
    from_record,
    hash_secret,
    short_identity,
    to_record,
)  # fmt: skip
from fedplus.flower.restore import latest_intact_checkpoint, state_folder

OWN, EXTRA = "w", "extra/"


class Party:
    """Restores w_k, says where to start and what to be pulled to, and keeps the new w_k.

    In a Flower ``ClientApp``:

    .. code-block:: python

        @app.train()
        def train(message, context):
            party = Party(message, context)
            w = party.start
            for batch in batches:
                w = party.pull(step(w, batch))
            return party.reply(w, {"num-examples": len(samples)})

    Args:
        message: The server's. With it come η, σ, λ and ψ of the method.
        context: Flower's, for the node's id and configuration. w_k is not put into it: Flower would
            copy it to where others may read it.
        folder: Where w_k is kept over restarts; by default a folder of the node's own in
            ``fedplus.flower.state_folder()``.
        method: The method again, where its ψ is of your own making and cannot be sent.

    A model of another federation, or none, means that the party is new: it starts from w̃. A round
    that is asked for again, by a server that was killed before it had the reply, starts where it
    started the first time.

    With its model the party keeps a random secret, which it sends to the server with each reply. So a
    party whose key was replaced, which has another node id then, is known to be the same.

    Raises:
        SettingError: The message is of no server of fedplus, nothing in the folder can be read, or
            another party uses the folder.
    """

    def __init__(
        self, message: Message, context: Context, folder: Path | str | None = None, *,
        method: Any = None,
    ) -> None:  # fmt: skip
        self._begun = time.monotonic()
        records = message.content
        arrays, config = records.array_records[ARRAYS], records.config_records[CONFIG]
        self._message, self._context = message, context
        self.round = int(str(config[ROUND]))
        """Of the server, from 1."""
        self._federation = str(config[FEDERATION])
        safe = re.fullmatch("[0-9A-Za-z]{1,64}", self._federation) is not None
        require(safe, "the federation's name", repr(self._federation), "letters and digits")
        received = from_record(arrays)
        self._shapes = Shapes.of(received)
        self.received = received
        """w̃ by name."""
        w_global = self._shapes.flat(received)
        self._rule = (
            rule_from_message(config, self._shapes.layout)
            if method is None
            else rule_from_method(method)
        )
        top = Path(folder) if folder is not None else _own_folder(context)
        self._folder = top / self._federation
        make_folder(self._folder)
        self._lock = PartyLock(self._folder, context.node_id)
        self._secret = secrets.token_hex(32)
        own, self.extra = self._restored(config.get(OTHERS, ()))
        """Whatever else the party kept with its model, e.g. BatchNorm's statistics."""
        if own is None or own.shape != w_global.shape:  # None, or of another model.
            own, self.extra = w_global, {}
        w_k = own
        self._anchor = self._rule.anchor(w_k, w_global)
        self.start = self._shapes.arrays(self._rule.start(w_k, w_global))
        """Where the steps start, by name."""
        self.own = self._shapes.arrays(w_k)
        """w_k as it was kept, by name: the party's model so far."""

    @property
    def eta(self) -> float:
        """η, the learning rate that the method expects."""
        return self._rule.eta

    @property
    def kappa(self) -> float:
        """κ, the share of a step's model that the pull keeps."""
        return self._rule.kappa

    @property
    def anchor(self) -> dict[str, Host]:
        """w̃ + v_k by name, what each step is pulled to."""
        return self._shapes.arrays(self._anchor)

    def pull(self, arrays: Mapping[str, Host]) -> dict[str, Host]:
        """κ·w + (1 − κ)·(w̃ + v_k), after a step of the user's own (l. 13)."""
        descended = self._shapes.flat(arrays)
        return self._shapes.arrays(self.kappa * descended + (1 - self.kappa) * self._anchor)

    def work(self, steps: int | None = None, seconds: float | None = None) -> Iterator[int]:
        """E_k, this party's own: the numbers of its steps, until so many or until the time is up.

        Args:
            steps: At most so many.
            seconds: No further step once so many have passed since the round began here. At least
                one step is done.
        """
        given = steps is not None or seconds is not None
        require(given, "work", "neither steps nor seconds", "limited by steps, by seconds, or both")
        if steps is not None:
            require_integer("steps", steps)
        if seconds is not None:
            require_number(seconds, "seconds", above=0)
        end = float("inf") if seconds is None else self._begun + seconds
        return self._numbers(steps, end)

    @staticmethod
    def _numbers(steps: int | None, end: float) -> Iterator[int]:
        number = 0
        while number == 0 or (number != steps and time.monotonic() < end):
            yield number
            number += 1

    def reply(
        self, arrays: Mapping[str, Host], metrics: Mapping[str, float] | None = None,
        extra: Mapping[str, Host] | None = None,
    ) -> Message:  # fmt: skip
        """Keep w_k (l. 14, 8) and answer. A model with NaN or Inf is neither kept nor sent.

        Args:
            arrays: w_k by name.
            metrics: Numbers for the server, e.g. ``num-examples`` and scores.
            extra: Arrays that stay with the party.

        Raises:
            SettingError: The model diverged, or does not have the server's parameters.
            OSError: It cannot be kept; the last one is still there. Flower tells the server.
        """
        w = self._shapes.flat(arrays)
        finite = bool(np.isfinite(w).all())
        require(finite, "the party's model", "NaN or Inf", "finite", "Try a lower learning rate.")
        kept = {OWN: w} | {f"{EXTRA}{name}": np.asarray(a) for name, a in (extra or {}).items()}
        told = {
            "federation": self._federation, "node": self._context.node_id, "secret": self._secret,
        }  # fmt: skip
        save(self._folder, Checkpoint(self.round, told, kept))
        self._lock.release()
        content: dict[str, Any] = {ARRAYS: to_record(self._shapes.arrays(w))}
        content[METRICS] = MetricRecord(dict(metrics or {}))
        content[CONFIG] = ConfigRecord({SECRET: self._secret})
        return Message(content=RecordDict(content), reply_to=self._message)

    def _restored(self, others: Any) -> tuple[Host | None, dict[str, Host]]:
        """Read the own model and what was kept with it; the secret stays the same."""
        if any(round_of_file(path) == self.round for path in checkpoints_in(self._folder)):
            self._require_own(latest_intact_checkpoint(self._folder, before=self.round + 1), others)
        found = latest_intact_checkpoint(self._folder, before=self.round)
        if found is None:
            return None, {}
        self._require_own(found, others)
        self._secret = found.settings.get("secret", self._secret)
        kept = found.arrays.items()
        extra = {name.removeprefix(EXTRA): a for name, a in kept if name.startswith(EXTRA)}
        return found.arrays[OWN], extra

    def _require_own(self, found: Checkpoint | None, others: Any) -> None:
        """Require that no other party that is connected uses this folder.

        One that has trained in this same round does, and one that the server sees. Any other node
        was this party before its key was replaced.
        """
        node = self._context.node_id if found is None else found.settings.get("node")
        if found is None or node in (None, self._context.node_id):
            return
        is_used = (
            found.round == self.round
            or short_identity(hash_secret(found.settings["secret"])) in others
        )
        require(
            not is_used, "the party's folder", f"one that node {node} uses ({self._folder})", "its own",
            "Give each party a partition-id or a FEDPLUS_STATE of its own. If node "
            f"{node} was this party before its key was replaced, stop its SuperNode: once the server "
            "no longer sees it, this one goes on from its model.",
        )  # fmt: skip


def _own_folder(context: Context) -> Path:
    """By the number that the operator gave the node, else by the node's id."""
    partition = context.node_config.get("partition-id")
    name = f"node-{context.node_id}" if partition is None else f"partition-{partition}"
    return state_folder() / name
