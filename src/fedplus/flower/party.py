"""The party's side of a round: lines 5-9 and 11-14 of Algorithm 1, around the user's own steps."""

import re
import secrets
import time
from collections.abc import Iterator, Mapping
from logging import WARNING
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.common import log

from fedplus._checkpoint_file import Checkpoint, list_checkpoints, round_of_file, save
from fedplus._pull import ParameterPull
from fedplus._types import NumpyArray
from fedplus.check import SettingError, require, require_integer, require_number
from fedplus.experiments.lock import PartyLock
from fedplus.files import make_folder
from fedplus.flower.default_state_folder import state_folder
from fedplus.flower.local_rule import prox_of_method, rule_from_message
from fedplus.flower.records import (
    ARRAYS,
    CONFIG,
    DTYPE,
    FEDERATION,
    FIRST,
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
from fedplus.flower.restore import latest_intact_checkpoint

MODEL, PRIVATE_PREFIX, EXTRA_PREFIX = "w", "private/", "extra/"
"""Names of the arrays in a party's checkpoint."""
START_LOSS, END_LOSS = "start-loss", "end-loss"
"""Names of the metrics by which a party notices that its steps diverged."""
ADVICE = "Try a lower learning rate."


class Party:
    """A party in one round: loads w_k, provides the start and the pull, and saves the new w_k.

    Make one for each message.

    Private layers are part of the start and of w_k, but never of a message.

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
        message: The server's message. It contains η, σ, λ, ψ and the other settings of the round.
        context: Flower's context, with the node's id and configuration. w_k is not stored in it,
            because Flower would copy it to places where others may read it.
        folder: The folder in which w_k is saved between rounds and restarts; by default a folder of
            this node in ``fedplus.flower.state_folder()``.
        method: The server's method. It is needed only if you wrote its ψ, which cannot be sent.
        initial: Arrays by name, among them the first values of the private layers. They are needed in
            a party's first round, if the method has private layers.

    Attributes:
        round: The number of the server's round, from 1.
        start: The model from which the steps start, arrays by name.
        own_model: The party's own model w_k after its last round, arrays by name.
        global_model: The global model w̃ that the server sent, arrays by name, without private layers.
        extra: Other arrays that the party saved with its model, such as BatchNorm's statistics.

    A party that has no model of this federation is new and starts from w̃, or from the first model if
    the method has ``join="first"``. If the server was killed
    before it got the reply and repeats a round, the party starts from the same model as the first time,
    unless it was the party's first round.

    With its model the party saves a random secret, which it sends to the server with each reply. It
    identifies a party whose key was replaced and which therefore has a new node id.

    Raises:
        SettingError: The message is not from a fedplus server, no checkpoint in the folder can be
            read, another party uses the folder, or ``initial`` lacks a private parameter.
    """

    def __init__(
        self, message: Message, context: Context, folder: Path | str | None = None, *,
        method: Any = None, initial: Mapping[str, NumpyArray] | None = None,
    ) -> None:  # fmt: skip
        self._start_time = time.monotonic()
        records = message.content
        arrays, config = records.array_records[ARRAYS], records.config_records[CONFIG]
        self._message, self._context = message, context
        self.round = int(str(config[ROUND]))
        self._federation = str(config[FEDERATION])
        is_safe = re.fullmatch("[0-9A-Za-z]{1,64}", self._federation) is not None
        require(is_safe, "the federation's name", repr(self._federation), "letters and digits")
        self.global_model = from_record(arrays)
        self._shapes = Shapes.from_arrays(self.global_model)
        w_global = self._shapes.flatten(self.global_model)
        layout = self._shapes.layout
        prox = None if method is None else prox_of_method(method, layout, self.round - 1)
        self._rule = rule_from_message(config, layout, prox)
        parent = Path(folder) if folder is not None else _default_folder(context)
        self._folder = parent / self._federation
        make_folder(self._folder)
        self._lock = PartyLock(self._folder, context.node_id)
        self._secret = secrets.token_hex(32)
        self._first_loss: float | None = None
        w_k, private, self.extra = self._load(config.get(OTHERS, ()))
        if w_k is None or w_k.shape != w_global.shape:  # A new party, or another model.
            first = records.array_records.get(FIRST)
            w_k = w_global if first is None else self._shapes.flatten(from_record(first))
            private, self.extra = self._initial_private(initial), {}
            self._first_loss = None
        self._all_shapes = Shapes.from_arrays(self.global_model | private)
        start, anchor = self._rule.start(w_k, w_global), self._rule.anchor(w_k, w_global)
        self.start = self._with_private(start, private)
        self.own_model = self._with_private(w_k, private)
        self._anchor = self._with_private(anchor, private)
        self._steps_done = 0
        self._before = self._copy_if_needed(self.start)

    def _initial_private(self, initial: Mapping[str, NumpyArray] | None) -> dict[str, NumpyArray]:
        """Return the private parameters with which a new party starts."""
        names, given = self._rule.private, initial or {}
        require(
            set(names) <= set(given), "initial", ", ".join(given) or "none",
            f"arrays with the private parameters {', '.join(names)} in a party's first round",
            "They never leave the party: Party(message, context, initial=...).",
        )  # fmt: skip
        return {name: np.array(given[name], DTYPE) for name in names}

    def _with_private(
        self, shared: NumpyArray, private: Mapping[str, NumpyArray]
    ) -> dict[str, NumpyArray]:
        """Return the arrays of all parameters, by name."""
        return self._shapes.unflatten(shared) | {n: array.copy() for n, array in private.items()}

    @property
    def eta(self) -> float:
        """η, the learning rate of the step before ``pull``; the largest if it differs between layers.

        ``pull`` then lets layers with a smaller η take a smaller share of the step.
        """
        return self._rule.eta

    @property
    def kappa(self) -> float | dict[str, float]:
        """κ, the weight of the stepped model in ``pull``; by name if it differs between parameters."""
        return self._rule.kappa

    @property
    def pulls(self) -> dict[str, ParameterPull]:
        """How a step moves each parameter, by name, for adapters."""
        return self._rule.pulls

    @property
    def anchor(self) -> dict[str, NumpyArray]:
        """w̃ + v_k, the point to which each step is pulled, arrays by name.

        Private parameters are not pulled; for them it is the party's own model.
        """
        return {name: array.copy() for name, array in self._anchor.items()}

    def pull(self, arrays: Mapping[str, NumpyArray]) -> dict[str, NumpyArray]:
        """Return κ·w + (1 − κ)·(w̃ + v_k), to be called after each step of the user's own (l. 13).

        If the method has settings by layer, κ is that of the layer, a layer with a smaller η than
        ``eta`` takes a smaller share of the step, and a layer that is not trained in this step keeps
        the values that the last call returned.

        Args:
            arrays: The model w after the step with the learning rate ``eta``, by name.
        """
        self._all_shapes.require_same(arrays)
        pulled = {
            name: np.array(
                pull.apply(
                    self._before.get(name), np.asarray(arrays[name], DTYPE), self._anchor[name],
                    self._steps_done,
                ),
                DTYPE,
            )
            for name, pull in self.pulls.items()
        }  # fmt: skip
        self._steps_done += 1
        self._before = self._copy_if_needed(pulled)
        return pulled

    def _copy_if_needed(self, arrays: Mapping[str, NumpyArray]) -> dict[str, NumpyArray]:
        return {n: arrays[n].copy() for n, pull in self.pulls.items() if pull.needs_before}

    def local_steps(self, steps: int | None = None, seconds: float | None = None) -> Iterator[int]:
        """Iterate over this party's steps E_k, limited by number, by time, or by both.

        Args:
            steps: The largest number of steps.
            seconds: The time since the ``Party`` was created after which no further step begins. The
                first step is always done.

        Returns:
            An iterator over the numbers of the steps, from 0.

        Raises:
            SettingError: No limit is given, a limit is not positive, or the method trains some layers
                only in later steps, as FedRep does after its ``head_steps``.
        """
        is_limited = steps is not None or seconds is not None
        allowed = "limited by steps, by seconds, or both"
        require(is_limited, "local_steps", "neither steps nor seconds", allowed)
        if steps is not None:
            require_integer("steps", steps)
            require(
                steps > self._rule.last_begin, "steps", f"{steps} per round",
                f"more than {self._rule.last_begin:g}, the steps of the layers that are trained first",
                "Else this party never trains the others. For FedRep, set steps higher or the "
                "method's head_steps lower.",
            )  # fmt: skip
        if seconds is not None:
            require_number(seconds, "seconds", above=0)
        end = float("inf") if seconds is None else self._start_time + seconds
        return self._step_numbers(steps, end)

    def _step_numbers(self, steps: int | None, end: float) -> Iterator[int]:
        number = 0
        while number == 0 or (number != steps and time.monotonic() < end):
            yield number
            number += 1
        if number <= self._rule.last_begin:
            log(
                WARNING, "Round %s: the time was enough for %s steps, and some layers are trained only "
                "after %g: allow more seconds, or set the method's head_steps lower", self.round,
                number, self._rule.last_begin,
            )  # fmt: skip

    def reply(
        self, arrays: Mapping[str, NumpyArray], metrics: Mapping[str, float] | None = None,
        extra: Mapping[str, NumpyArray] | None = None,
    ) -> Message:  # fmt: skip
        """Save w_k (l. 14, 8) and return the reply. A model that diverged is neither saved nor sent.

        Args:
            arrays: The new w_k by name.
            metrics: Numbers for the server, such as ``num-examples`` and scores. With ``start-loss``
                and ``end-loss``, the losses of ``start`` and of ``arrays`` on the party's training
                samples, the model has also diverged if its loss is not finite, or larger by half than
                both the loss of ``start`` and the ``start-loss`` of the party's first round.
            extra: Arrays that stay with the party.

        Returns:
            The message to return from the ``ClientApp``.

        Raises:
            SettingError: The model diverged, does not have the server's parameters, or only one of the
                two losses is given. The server drops the reply and logs this reason.
            OSError: The model cannot be saved. The previous one is still there, and Flower reports the
                error to the server.
        """
        is_finite = bool(np.isfinite(self._all_shapes.flatten(arrays)).all())
        require(is_finite, "the party's model", "NaN or Inf", "finite", ADVICE)
        self._require_no_divergence(metrics or {})
        w = self._shapes.flatten({name: arrays[name] for name in self._shapes.names})
        saved = {MODEL: w}
        saved |= {f"{PRIVATE_PREFIX}{n}": np.asarray(arrays[n], DTYPE) for n in self._rule.private}
        saved |= {f"{EXTRA_PREFIX}{name}": np.asarray(a) for name, a in (extra or {}).items()}
        settings = {
            "federation": self._federation, "node": self._context.node_id, "secret": self._secret,
            "first_loss": self._first_loss,
        }  # fmt: skip
        save(self._folder, Checkpoint(self.round, settings, saved))
        self._lock.release()
        content: dict[str, Any] = {ARRAYS: to_record(self._shapes.unflatten(w))}
        content[METRICS] = MetricRecord(dict(metrics or {}))
        content[CONFIG] = ConfigRecord({SECRET: self._secret})
        return Message(content=RecordDict(content), reply_to=self._message)

    def _require_no_divergence(self, metrics: Mapping[str, float]) -> None:
        """Require that the loss has not become much larger, if the metrics have it."""
        given = [name for name in (START_LOSS, END_LOSS) if name in metrics]
        if not given:
            return
        allowed = f"both {START_LOSS} and {END_LOSS}, or neither"
        require(len(given) == 2, "metrics", given[0], allowed)
        before, after = (float(metrics[name]) for name in given)
        if self._first_loss is None:
            self._first_loss = before
        limit = max(before, self._first_loss)
        limit += abs(limit) / 2
        is_good = bool(np.isfinite(after)) and after <= limit
        shown = f"at most {limit:.4g} ({START_LOSS} was {before:.4g})"
        require(is_good, END_LOSS, f"{after:.4g}", shown, f"The local steps diverged. {ADVICE}")

    def _load(
        self, others: Any
    ) -> tuple[NumpyArray | None, dict[str, NumpyArray], dict[str, NumpyArray]]:
        """Load the shared and the private part of the party's model, its extra arrays and its secret.

        The model is None if there is none with these private parameters.
        """
        if any(round_of_file(path) == self.round for path in list_checkpoints(self._folder)):
            newest = latest_intact_checkpoint(self._folder, before=self.round + 1)
            self._require_own_folder(newest, others)
        checkpoint = latest_intact_checkpoint(self._folder, before=self.round)
        if checkpoint is None:
            return None, {}, {}
        self._require_own_folder(checkpoint, others)
        self._secret = checkpoint.settings.get("secret", self._secret)
        self._first_loss = checkpoint.settings.get("first_loss")
        private, extra = (
            {
                name.removeprefix(prefix): array
                for name, array in checkpoint.arrays.items()
                if name.startswith(prefix)
            }
            for prefix in (PRIVATE_PREFIX, EXTRA_PREFIX)
        )
        has_same = set(private) == set(self._rule.private)
        return checkpoint.arrays[MODEL] if has_same else None, private, extra

    def _require_own_folder(self, checkpoint: Checkpoint | None, others: Any) -> None:
        """Require that no other party uses this folder.

        The node that wrote the checkpoint is another party if it has trained in this round or is
        connected to the server. Otherwise it was this party before its key was replaced.
        """
        node = self._context.node_id if checkpoint is None else checkpoint.settings.get("node")
        if checkpoint is None or node in (None, self._context.node_id):
            return
        is_used = (
            checkpoint.round == self.round
            or short_identity(hash_secret(checkpoint.settings["secret"])) in others
        )
        if is_used:
            raise SettingError(
                f"Folder {self._folder} is used by node {node}. Give each party a partition-id or a "
                f"FEDPLUS_STATE of its own. If node {node} was this party before its key was replaced, "
                "stop its SuperNode: this party continues with its model as soon as the server no "
                "longer sees it."
            )


def _default_folder(context: Context) -> Path:
    """Return a folder named after the node's ``partition-id``, or after its id if it has none."""
    partition = context.node_config.get("partition-id")
    name = f"node-{context.node_id}" if partition is None else f"partition-{partition}"
    return state_folder() / name
