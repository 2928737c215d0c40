"""The server's side of Algorithm 1 as a Flower strategy."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from logging import INFO, WARNING
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.common import log
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy
from typing_extensions import override

from fedplus import algorithm
from fedplus._types import NumpyArray
from fedplus.aggregation import Aggregate
from fedplus.check import SettingError, require, require_integer, require_number
from fedplus.experiments.lock import folder_lock
from fedplus.experiments.run_folder import CHECKPOINT
from fedplus.files import make_folder
from fedplus.flower.identities import accept_reply, check_identity, others_message
from fedplus.flower.local_rule import rule_to_message
from fedplus.flower.method_settings import ignored_settings, settings_of_method, shared_arrays
from fedplus.flower.polling_grid import poll_often
from fedplus.flower.records import ARRAYS, CONFIG, FEDERATION, FIRST, ROUND, from_record, to_record
from fedplus.flower.replies import DroppedReplies, Refusal, Reply, check_reply, shorten
from fedplus.flower.run_log import RunLog
from fedplus.flower.state import ServerState
from fedplus.parameter_groups import per_entry
from fedplus.schedules import at_round

POLL_INTERVAL = 0.5
"""Seconds between two queries of the connected nodes."""


class FedPlus(Strategy):
    """Fed+ and every other method of the paper's Table 1, across real machines.

    Args:
        method: The method, with the same settings as in the simulator, such as
            ``presets.fedgeomed_plus(...)``.
        rounds: The number of rounds T.
        cohort: The number of connected parties that train in a round; None means all.
        seed: The seed with which the cohort is sampled. With the same connected parties, the cohort
            is the same.
        least: The number of valid replies that a round needs. With fewer, w̃ does not change and the
            round is counted as skipped.
        deadline: Seconds that a round waits for replies.
        patience: Seconds that a round waits until ``least`` parties are connected.
        folder: The folder for the server's checkpoint, and for the rounds that ``fedplus board`` and
            ``fedplus report`` show. A new run with the same folder continues from the checkpoint.
        label: The name of the method in tables and plots.
        forget: Nodes whose last models are no longer aggregated, such as parties that left. With
            ``over="all"`` a party's last model is aggregated until it is forgotten. The models of a
            node that replies again are aggregated again.
        parties: The number N of the federation's parties so far, including those that have not replied
            yet and those in ``forget``. It is needed for a method with ``join="first"`` and
            ``over="all"``, which aggregates the first model for a party that has not replied yet.
        score: The name of the score that parties report as ``personal-score`` and ``global-score``,
            and which is better, "higher" or "lower".
        allow_changes: Whether the federation may continue although the method, a setting of it or the
            score differs from that in its folder. Otherwise a difference is an error. Changes are
            logged and recorded in the checkpoint and in ``status.json``. All other settings may always
            change; another model, or other private layers, need another folder.

    Attributes:
        dropped: The replies that were not accepted, counted and with their reasons.

    An invalid reply (names, shapes, types, size, NaN, Inf) is dropped with a reason in the log. Models
    are stored by the node that Flower has authenticated, and with the method's ``join="current"`` a
    party counts from its first accepted reply. A party whose key was replaced keeps its one vote: its
    replies contain a secret that only it and the server know. Private layers never reach the server.
    """

    def __init__(
        self, method: algorithm.FedPlus, *, rounds: int, cohort: int | None = None, seed: int = 0,
        least: int = 1, deadline: float = 600.0, patience: float = 300.0,
        folder: Path | str | None = None, label: str = "Fed+",
        forget: Iterable[int | str] = (), parties: int | None = None,
        score: tuple[str, str] = ("accuracy", "higher"), allow_changes: bool = False,
    ) -> None:  # fmt: skip
        require(
            isinstance(method, algorithm.FedPlus), "method", type(method).__name__,
            "a method of the paper's Algorithm 1, such as presets.fedgeomed_plus(...)",
        )  # fmt: skip
        require_integer("rounds", rounds)
        require_integer("least", least)
        if cohort is not None:
            require_integer("cohort", cohort, least)
        needs_parties = method.join == "first" and method.over == "all"
        require(
            parties is not None or not needs_parties, "parties", "None",
            'the number of parties for a method with join="first" and over="all"',
            "Parties that have not replied yet count with the first model.",
        )  # fmt: skip
        if parties is not None:
            require_integer("parties", parties)
        self._parties = parties if needs_parties else None
        require_number(deadline, "deadline", above=0)
        require_number(patience, "patience", least=0)
        self._method, self._rounds, self._cohort, self._seed = method, rounds, cohort, seed
        self._least, self._deadline, self._patience = least, deadline, patience
        self._folder = None if folder is None else Path(folder)
        require(score[1] in ("higher", "lower"), "score", score, '(a name, "higher" or "lower")')
        self._about = {
            "label": label, "method": label.lower(), "data": "deployment", "model": "the parties'",
            "rounds": rounds, "score_name": score[0], "better": score[1],
        }  # fmt: skip
        self._forget = frozenset(map(_node_id, forget))
        self._allow_changes = allow_changes
        self._settings = settings_of_method(method, score)
        self._connected: frozenset[int] = frozenset()
        self._max_models = 0
        self._run_log: RunLog | None = None
        self._state: ServerState | None = None
        self.dropped = DroppedReplies()

    @property
    def state(self) -> ServerState:
        """w̃, W and the progress of the federation, available once it has started."""
        if self._state is None:
            raise SettingError("FedPlus.state does not exist yet. Call run() before you read it.")
        return self._state

    def run(self, grid: Grid, arrays: Mapping[str, NumpyArray]) -> Result:
        """Train from a first model, or continue from the checkpoint in the folder.

        Args:
            grid: Flower's connection to the parties, or an ``InProcessGrid``.
            arrays: The first model, by name. Private layers may be left out; they are not used.

        Returns:
            Flower's result, with the final w̃ and the metrics of each round.

        Raises:
            SettingError: Another run uses the folder, or its federation has other settings.
        """
        if self._folder is None:
            return self._run(grid, arrays)
        make_folder(self._folder)
        with folder_lock(self._folder):
            return self._run(grid, arrays)

    def _run(self, grid: Grid, arrays: Mapping[str, NumpyArray]) -> Result:
        state = self._init_state(arrays)
        ignored = ignored_settings(self._method)
        if ignored:
            log(
                WARNING, "Only the simulator applies %s; here the parties' own code decides",
                ", ".join(ignored),
            )  # fmt: skip
        first = to_record(state.shapes.unflatten(state.w_global))
        rounds_left = max(0, self._rounds - state.rounds_done)
        if not rounds_left:
            log(
                INFO, "All %s rounds are done. Increase rounds to continue; for a new federation, "
                "choose another folder than %s", self._rounds, self._folder,
            )  # fmt: skip
        grid = poll_often(grid)
        try:
            result = self.start(grid, first, num_rounds=rounds_left, timeout=self._deadline)
        except BaseException as error:
            self._write_status("failed", f"{type(error).__name__}: {error}")
            raise
        self._write_status("finished", "")
        return result

    def _write_status(self, state: str, message: str) -> None:
        if self._run_log is not None:
            self._run_log.write_status(state, message)

    def _init_state(self, arrays: Mapping[str, NumpyArray]) -> ServerState:
        arrays = shared_arrays(self._method, arrays)
        state = self._state = self._create_or_restore(arrays)
        if self._method.join == "current":
            state.w_first = None
        elif state.w_first is None:
            state.w_first = state.shapes.flatten(arrays)
        server = at_round(self._method, 0).server_optimizer
        state.init_server_optimizer(
            () if server is None else server.init(jnp.asarray(state.w_global))
        )
        return state

    def _create_or_restore(self, arrays: Mapping[str, NumpyArray]) -> ServerState:
        if self._folder is None:
            return ServerState.create(arrays, self._settings)
        state = ServerState.restore(
            arrays, self._folder / CHECKPOINT, self._settings, self._allow_changes
        )
        state.forget(self._forget)
        if state.rounds_done:
            log(INFO, "Continuing after round %s, from %s", state.rounds_done, self._folder)
        about = self._about | {"changes": state.changes}
        self._run_log = RunLog(self._folder, about, state.rounds_done, state.parties)
        state.parties = self._run_log.nodes
        self._run_log.forget_metrics(self._forget)
        return state

    @override
    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        state = self._state or self._init_state(from_record(arrays))
        nodes = self._wait_for_nodes(grid)
        if len(nodes) < self._least:
            return []
        cohort = self._sample_cohort(nodes)
        self._connected = frozenset(nodes)
        self._max_models = max(self._max_models, len(cohort))
        model = to_record(state.shapes.unflatten(state.w_global))
        round_ = state.rounds_done + 1
        method = self._method_of_round()
        common = {**config, **rule_to_message(method), ROUND: round_, FEDERATION: state.federation}
        first = None
        if state.w_first is not None and not method.is_stateless():
            is_same = np.array_equal(state.w_first, state.w_global)
            first = None if is_same else to_record(state.shapes.unflatten(state.w_first))
        log(INFO, "Round %s: %s of %s parties", round_, len(cohort), len(nodes))
        messages = []
        for node in cohort:
            node_config = ConfigRecord(common | others_message(state, node, self._connected))
            content = RecordDict({ARRAYS: model, CONFIG: node_config})
            if first is not None and node not in state.joined:
                content[FIRST] = first
            ttl = 2 * self._deadline
            messages.append(
                Message(content, node, MessageType.TRAIN, ttl=ttl, group_id=str(round_))
            )
        return messages

    def _method_of_round(self) -> algorithm.FedPlus:
        """Return the method with the values that its schedules have in this round."""
        return at_round(self._method, self.state.rounds_done)

    def _wait_for_nodes(self, grid: Grid) -> list[int]:
        """Return the connected nodes, as soon as there are ``least`` or the patience is over."""
        start, is_logged = time.monotonic(), False
        while True:
            nodes = sorted(grid.get_node_ids())
            waited = time.monotonic() - start
            if len(nodes) >= self._least or waited >= self._patience:
                return nodes
            if not is_logged:
                log(
                    WARNING, "Round %s: %s of at least %s parties are connected, waiting up to %g s",
                    self.state.rounds_done + 1, len(nodes), self._least, self._patience,
                )  # fmt: skip
                is_logged = True
            time.sleep(min(POLL_INTERVAL, self._patience - waited))

    def _sample_cohort(self, nodes: list[int]) -> list[int]:
        if self._cohort is None or len(nodes) <= self._cohort:
            return nodes
        rng = np.random.default_rng((self._seed, self.state.rounds_done))
        return sorted(rng.choice(nodes, self._cohort, replace=False).tolist())

    @override
    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        state = self.state
        dropped_before = self.dropped.total
        accepted = self._check_replies(replies)
        method = self._method_of_round()
        state.rounds_done += 1
        round_ = state.rounds_done
        if len(accepted) < self._least:
            state.rounds_skipped += 1
            reason = f"{len(accepted)} valid replies of at least {self._least}"
            log(WARNING, "Round %s is skipped: %s", round_, reason)
            self._save()
            self._write_status("running", f"Round {round_} is skipped: {reason}")
            return None, None
        for reply in accepted:  # l. 8-9
            replaced = accept_reply(state, reply)
            if self._run_log is not None and replaced is not None and replaced not in state.parties:
                self._run_log.rename_party(replaced, reply.node)
        by_node = state.models if method.over == "all" else {r.node: r.w for r in accepted}
        models = [by_node[node] for node in sorted(by_node)]
        if self._parties is not None:
            assert state.w_first is not None
            known = len(state.joined | state.departed)
            if known > self._parties:
                log(
                    WARNING, "Round %s: %s parties have replied or left, more than parties=%s: set it "
                    "to the number of all parties so far", round_, known, self._parties,
                )  # fmt: skip
            models += [state.w_first] * (self._parties - known)
        result = self._aggregate(method, models)  # l. 10
        w = result.w
        if method.server_optimizer is not None:
            w_global = jnp.asarray(state.w_global)
            optimizer = method.server_optimizer
            w, state.server_state = optimizer.step(w_global, jnp.asarray(w), state.server_state)
        state.w_global = np.asarray(w)
        if method.over == "active":
            state.models = {}
        self._save()
        if self._run_log is not None:
            norms, change = self._figures(method, accepted)
            dropped = self.dropped.total - dropped_before
            self._run_log.add_round(round_, accepted, norms, change, result, dropped)
        metrics: dict[str, Any] = {
            "replies": len(accepted), "parties": len(models), "skipped": state.rounds_skipped,
            "dropped": self.dropped.total, "iterations": int(result.iterations),
            "converged": int(result.converged),
            "ignored-metrics": sum(len(reply.ignored) for reply in accepted),
            **_mean_metrics(accepted),
        }  # fmt: skip
        return to_record(state.shapes.unflatten(state.w_global)), MetricRecord(metrics)

    def _aggregate(self, method: algorithm.FedPlus, models: list[NumpyArray]) -> Aggregate:
        """Aggregate the models with few compiled programs.

        JAX compiles a program for each number of models and caches it, about 10 MB each. If parties
        are missing, rows with weight 0 are therefore added, up to a power of two or to the largest
        number of models so far.
        """
        count = len(models)
        self._max_models = max(self._max_models, count)
        size = min(1 << (count - 1).bit_length(), self._max_models)
        stacked = np.zeros((size, models[0].size), np.float32)
        np.stack(models, out=stacked[:count])
        weights = None if size == count else (np.arange(size) < count).astype(np.float32)
        return method.aggregator(stacked, weights, start=self.state.w_global)

    def _figures(
        self, method: algorithm.FedPlus, replies: list[Reply]
    ) -> tuple[dict[int, float], NumpyArray]:
        """Return ‖v_k‖ of each reply, and how far the aggregation moves the party's next start."""
        psi, w_global = method.shared_psi, jnp.asarray(self.state.w_global)
        lam = jnp.asarray(per_entry(method.local.lam))
        lam = method.shared(lam) if lam.ndim else lam
        norms, changes = {}, []
        for reply in replies:
            move = w_global - jnp.asarray(reply.w)
            norms[reply.node] = float(jnp.linalg.norm(psi.prox(-move)))
            changes.append(float(jnp.std(lam * move)))  # l. 12
        return norms, np.array(changes)

    def _check_replies(self, messages: Iterable[Message]) -> list[Reply]:
        """Return the valid replies, one per party; log the others and all ignored metrics."""
        state, accepted = self.state, dict[int, Reply]()
        round_ = state.rounds_done + 1
        for message in messages:
            reply = check_reply(message, state.shapes)
            if isinstance(reply, Reply):
                reply = check_identity(state, reply, accepted, self._connected)
            if isinstance(reply, Refusal):
                self.dropped.add(round_, reply)
                log(WARNING, "Round %s: dropped the reply of node %s: %s", round_, *reply)
                continue
            accepted[reply.node] = reply
            if reply.ignored:
                reason = shorten("; ".join(reply.ignored))
                log(WARNING, "Round %s: ignored metrics of node %s: %s", round_, reply.node, reason)
        return list(accepted.values())

    def _save(self) -> None:
        if self._folder is not None:
            self.state.save(self._folder / CHECKPOINT)

    @override
    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        return []  # Parties evaluate their models when they train, and reply with the scores.

    @override
    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        return None

    @override
    def summary(self) -> None:
        log(INFO, "\t%s", self._method)
        log(
            INFO, "\tcohort %s, at least %s; deadline %g s", self._cohort or "all", self._least,
            self._deadline,
        )  # fmt: skip


def _mean_metrics(replies: list[Reply]) -> dict[str, float]:
    """Return the mean of each metric that most parties report, over those that report it."""
    counts = Counter(name for reply in replies for name in reply.metrics)
    names = sorted(name for name, count in counts.items() if 2 * count > len(replies))
    return {
        f"mean-{n}": float(np.mean([r.metrics[n] for r in replies if n in r.metrics]))
        for n in names
    }


def _node_id(value: int | str) -> int:
    """Return a node id given as a number or as a string of digits."""
    text = str(value)
    is_valid = text.isascii() and text.isdigit() and int(text) < 2**64
    require(is_valid, "forget", repr(value), "node ids", "`flwr supernode list` shows them.")
    return int(text)
