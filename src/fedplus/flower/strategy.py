"""The server's side of Algorithm 1, as a Flower strategy."""

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
from fedplus._checkpoint import stable_repr
from fedplus._types import Host
from fedplus.aggregation import Aggregate, Moreau
from fedplus.check import require, require_integer, require_number
from fedplus.experiments.lock import locked
from fedplus.experiments.run_folder import CHECKPOINT
from fedplus.files import make_folder
from fedplus.flower.local_rule import rule_message
from fedplus.flower.polling_grid import poll_often
from fedplus.flower.records import (
    ARRAYS,
    CONFIG,
    FEDERATION,
    OTHERS,
    ROUND,
    from_record,
    short_identity,
    to_record,
)  # fmt: skip
from fedplus.flower.replies import Refusal, Reply, check_reply, shorten
from fedplus.flower.run_log import DeploymentLog
from fedplus.flower.state import ServerState

POLL = 0.5
"""Seconds between two looks at who is connected."""
REMEMBERED = 1000
"""Refused replies whose reasons are kept in memory; the log has all."""


class FedPlus(Strategy):
    """Fed+, and every other row of the paper's Table 1, across real machines.

    Args:
        method: The same settings as in the simulator, e.g. ``presets.fedgeomed_plus(...)``.
        rounds: T.
        cohort: How many of the connected parties a round asks; None: all.
        seed: Of who is asked: the same parties connected, the same are asked.
        least: A round needs so many good replies; with fewer w̃ stays, and the round is counted as
            skipped.
        deadline: Seconds that a round waits for replies.
        patience: Seconds that a round waits for ``least`` parties to be connected.
        folder: Where the server keeps its checkpoint, and rounds for ``fedplus board`` and ``fedplus
            report``. A new run with the same folder goes on from it.
        label: How tables and plots call the method.
        forget: Nodes whose last models no longer count, such as those of parties that left; with
            ``over="all"`` a party's last model counts until then. One that replies again counts
            again.
        allow_changes: Whether a federation may go on with another method, η, σ, λ, ψ, aggregate,
            ``over`` or score than its folder has. Otherwise that is refused. The choice is logged, and
            recorded in the checkpoint and in ``status.json``. All other settings may change freely;
            another model needs another folder.
        score: What the parties' ``personal-score`` and ``global-score`` are, and which is better,
            "higher" or "lower".

    A reply that is not in order (names, shapes, types, size, NaN, Inf) is dropped with a reason in the
    log, and counted. Models are kept by the node that Flower has authenticated, and a party counts from
    its first accepted reply. (The simulator counts all parties from the start, with the first model, as
    the paper's Algorithm 1 does; if all parties reply in the first round there is no difference.) A
    party whose key was replaced keeps its one vote: its replies carry a secret that only it and the
    server know.
    """

    def __init__(
        self, method: algorithm.FedPlus, *, rounds: int, cohort: int | None = None, seed: int = 0,
        least: int = 1, deadline: float = 600.0, patience: float = 300.0,
        folder: Path | str | None = None, label: str = "Fed+",
        forget: Iterable[int | str] = (), score: tuple[str, str] = ("accuracy", "higher"),
        allow_changes: bool = False,
    ) -> None:  # fmt: skip
        require(isinstance(method, algorithm.FedPlus), "method", type(method).__name__, "a FedPlus")
        require_integer("rounds", rounds)
        require_integer("least", least)
        if cohort is not None:
            require_integer("cohort", cohort, least)
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
        self._forget = frozenset(map(_node, forget))
        self._allow_changes = allow_changes
        self._settings = _described(method, score)
        self._connected_nodes: frozenset[int] = frozenset()
        self._most = 0
        self._dropped = 0
        self._recorded: DeploymentLog | None = None
        self._state: ServerState | None = None
        self.dropped: list[tuple[int, int, str]] = []
        """Round, node and reason of the last replies that were not taken, 1000 at most."""

    @property
    def state(self) -> ServerState:
        """w̃, W and how far the federation is; once it has begun."""
        require(self._state is not None, "the federation", "none", "begun: call run first")
        assert self._state is not None
        return self._state

    def run(self, grid: Grid, arrays: Mapping[str, Host]) -> Result:
        """Train from these first parameters, or go on from the checkpoint."""
        if self._folder is None:
            return self._run(grid, arrays)
        make_folder(self._folder)
        with locked(self._folder):
            return self._run(grid, arrays)

    def _run(self, grid: Grid, arrays: Mapping[str, Host]) -> Result:
        state = self._begin(arrays)
        first = to_record(state.shapes.arrays(state.w_global))
        left = max(0, self._rounds - state.done)
        if not left:
            log(
                INFO, "All %s rounds are done. Raise rounds to go on; for a new federation, take "
                "another folder than %s", self._rounds, self._folder,
            )  # fmt: skip
        try:
            result = self.start(poll_often(grid), first, num_rounds=left, timeout=self._deadline)
        except BaseException as error:
            self._tell("failed", f"{type(error).__name__}: {error}")
            raise
        self._tell("finished", "")
        return result

    def _tell(self, state: str, message: str) -> None:
        if self._recorded is not None:
            self._recorded.tell(state, message)

    def _begin(self, arrays: Mapping[str, Host]) -> ServerState:
        if self._folder is None:
            self._state = ServerState.begun(arrays, self._settings)
            return self._state
        self._state = ServerState.restored(
            arrays, self._folder / CHECKPOINT, self._settings, self._allow_changes
        )
        self._state.forget(self._forget)
        if self._state.done:
            log(INFO, "Going on after round %s, from %s", self._state.done, self._folder)
        about = self._about | {"changes": self._state.changes}
        self._recorded = DeploymentLog(self._folder, about, self._state.done, self._state.parties)
        self._state.parties = self._recorded.nodes
        self._recorded.forget(self._forget)
        return self._state

    @override
    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        state = self._state or self._begin(from_record(arrays))
        nodes = self._connected(grid)
        if len(nodes) < self._least:
            return []
        asked = self._sampled(nodes)
        self._connected_nodes, self._most = frozenset(nodes), max(self._most, len(asked))
        arrays_sent = to_record(state.shapes.arrays(state.w_global))
        told = {
            **config, **rule_message(self._method.local), ROUND: state.done + 1,
            FEDERATION: state.federation,
        }  # fmt: skip
        log(INFO, "Round %s: %s of %s parties", state.done + 1, len(asked), len(nodes))
        return [
            Message(
                RecordDict({ARRAYS: arrays_sent, CONFIG: ConfigRecord(told | self._others(node))}),
                node, MessageType.TRAIN, ttl=2 * self._deadline, group_id=str(state.done + 1),
            )
            for node in asked
        ]  # fmt: skip

    def _others(self, node: int) -> dict[str, list[str]]:
        """Tell a new node who is connected, so that it does not use another party's folder."""
        known = self.state.identities
        if node in known:
            return {}
        others = self._connected_nodes & known.keys()
        return {OTHERS: sorted(short_identity(known[other]) for other in others)}

    def _connected(self, grid: Grid) -> list[int]:
        """Who is there, once ``least`` are or the patience is at its end."""
        begun, told = time.monotonic(), False
        while True:
            nodes = sorted(grid.get_node_ids())
            waited = time.monotonic() - begun
            if len(nodes) >= self._least or waited >= self._patience:
                return nodes
            if not told:
                log(
                    WARNING, "Round %s: %s of at least %s parties are connected, waiting up to %g s",
                    self.state.done + 1, len(nodes), self._least, self._patience,
                )  # fmt: skip
                told = True
            time.sleep(min(POLL, self._patience - waited))

    def _sampled(self, nodes: list[int]) -> list[int]:
        if self._cohort is None or len(nodes) <= self._cohort:
            return nodes
        rng = np.random.default_rng((self._seed, self.state.done))
        return sorted(rng.choice(nodes, self._cohort, replace=False).tolist())

    @override
    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        state = self.state
        before = self._dropped
        good = self._taken(replies)
        state.done += 1
        if len(good) < self._least:
            state.skipped += 1
            why = f"{len(good)} good replies of at least {self._least}"
            log(WARNING, "Round %s is skipped: %s", state.done, why)
            self._save()
            self._tell("running", f"Round {state.done} is skipped: {why}")
            return None, None
        for reply in good:  # l. 8-9
            self._take(reply)
        over = state.models if self._method.over == "all" else {r.node: r.w for r in good}
        result = self._aggregated([over[node] for node in sorted(over)])  # l. 10
        state.w_global = np.asarray(result.w)
        if self._method.over == "active":
            state.models = {}
        self._save()
        if self._recorded is not None:
            dropped = self._dropped - before
            self._recorded.round(state.done, good, *self._figures(good), result, dropped)
        told: dict[str, Any] = {
            "replies": len(good), "parties": len(over), "skipped": state.skipped,
            "dropped": self._dropped, "iterations": int(result.iterations),
            "converged": int(result.converged), "ignored-metrics": sum(len(r.ignored) for r in good),
            **_averaged(good),
        }  # fmt: skip
        return to_record(state.shapes.arrays(state.w_global)), MetricRecord(told)

    def _take(self, reply: Reply) -> None:
        """Keep a party's model, and go on with its records if its key was replaced."""
        replaced = self.state.take(reply.node, reply.w, reply.identity)
        if replaced is None:
            return
        log(
            INFO, "Node %s takes the place of node %s: it has the same secret, so its key was replaced",
            reply.node, replaced,
        )  # fmt: skip
        if self._recorded is not None and replaced not in self.state.parties:
            self._recorded.rename(replaced, reply.node)

    def _aggregated(self, models: list[Host]) -> Aggregate:
        """Aggregate the models, through few compiled programs.

        JAX compiles a program for each number of models and keeps it, some 10 MB each. So if parties
        are missing, the rows are padded, with weight 0, to a power of two, or to all of them.
        """
        count = len(models)
        self._most = max(self._most, count)
        size = min(1 << (count - 1).bit_length(), self._most)
        stacked = np.zeros((size, models[0].size), np.float32)
        np.stack(models, out=stacked[:count])
        weights = None if size == count else (np.arange(size) < count).astype(np.float32)
        aggregate = self._method.aggregate or Moreau(self._method.local.psi)
        return aggregate(stacked, weights, start=self.state.w_global)

    def _figures(self, good: list[Reply]) -> tuple[dict[int, float], Host]:
        """‖v_k‖ of the parties that replied, and what the aggregation does to where they start."""
        local, w_global = self._method.local, jnp.asarray(self.state.w_global)
        norms, changes = {}, []
        for reply in good:
            w = jnp.asarray(reply.w)
            norms[reply.node] = float(jnp.linalg.norm(local.psi.prox(w - w_global)))
            changes.append(float(jnp.std(local.start(w, w_global) - w)))
        return norms, np.array(changes)

    def _taken(self, replies: Iterable[Message]) -> list[Reply]:
        """Return the good replies, one a party; log the others, and what is left out of the good."""
        good: dict[int, Reply] = {}
        round_ = self.state.done + 1
        for message in replies:
            found = check_reply(message, self.state.shapes)
            if isinstance(found, Reply):
                found = self._one_a_party(found, good)
            if isinstance(found, Reply):
                good[found.node] = found
                if found.ignored:
                    why = shorten("; ".join(found.ignored))
                    log(
                        WARNING, "Round %s: ignored metrics of node %s: %s", round_, found.node, why
                    )
                continue
            self._dropped += 1
            self.dropped.append((round_, found.node, found.reason))
            del self.dropped[:-REMEMBERED]
            log(WARNING, "Round %s: dropped the reply of node %s: %s", *self.dropped[-1])
        return list(good.values())

    def _one_a_party(self, reply: Reply, good: Mapping[int, Reply]) -> Reply | Refusal:
        """Refuse a second reply of the same node, and of a node that has another one's secret."""
        if reply.node in good:
            return Refusal(reply.node, "a second reply of the same party")
        if reply.identity is None:
            return reply
        now = {other.identity: node for node, other in good.items()}
        owner = now.get(reply.identity, self.state.owner(reply.identity))
        if owner in (None, reply.node) or (
            owner not in self._connected_nodes and reply.identity not in now
        ):
            return reply
        return Refusal(
            reply.node, f"it has the secret of node {owner}, which is connected, too: two parties must "
            "not share a state folder",
        )  # fmt: skip

    def _save(self) -> None:
        if self._folder is not None:
            self.state.save(self._folder / CHECKPOINT)

    @override
    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        return []  # Parties judge their models while they train, and report with their replies.

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


def _averaged(good: list[Reply]) -> dict[str, float]:
    """Return the mean of each metric that most parties report, over those that report it."""
    reports = Counter(name for reply in good for name in reply.metrics)
    shared = sorted(name for name, count in reports.items() if 2 * count > len(good))
    return {
        f"mean-{n}": float(np.mean([r.metrics[n] for r in good if n in r.metrics])) for n in shared
    }


def _described(method: algorithm.FedPlus, score: tuple[str, str]) -> dict[str, Any]:
    """Return the settings that a federation keeps, by name, as JSON has them."""
    local = method.local
    told = {name: float(getattr(local, name)) for name in ("eta", "sigma", "lam")}
    return told | {
        "psi": stable_repr(local.psi), "over": method.over, "score": list(score),
        "aggregate": None if method.aggregate is None else stable_repr(method.aggregate),
        "optimizer": None if local.optimizer is None else stable_repr(local.optimizer),
    }  # fmt: skip


def _node(given: int | str) -> int:
    """Return a node's id, of a number or its digits."""
    text = str(given)
    ok = text.isascii() and text.isdigit() and int(text) < 2**64
    require(ok, "forget", repr(given), "node ids", "`flwr supernode list` shows them.")
    return int(text)
