"""The server's side of Algorithm 1, as a Flower strategy."""

import time
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
from fedplus._check import require, require_number, require_whole
from fedplus._types import Host
from fedplus.aggregation import Moreau
from fedplus.experiments.folder import CHECKPOINT
from fedplus.experiments.lock import held
from fedplus.flower.prompt import prompt
from fedplus.flower.recorded import Recorded
from fedplus.flower.records import (
    ARRAYS,
    CONFIG,
    FEDERATION,
    ROUND,
    from_record,
    to_record,
)  # fmt: skip
from fedplus.flower.replies import Refusal, Reply, checked
from fedplus.flower.rule import sent
from fedplus.flower.state import ServerState

POLL = 0.5
"""Seconds between two looks at who is connected."""


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
        forget: Nodes whose last models no longer count, such as those of unregistered parties; with
            ``over="all"`` a party's last model counts until then.
        score: What the parties' ``personal-score`` and ``global-score`` are, and which is better,
            "higher" or "lower".

    A reply that is not in order (names, shapes, types, size, NaN, Inf) is dropped with a reason in the
    log, and counted. Models are kept by the node that Flower has authenticated.
    """

    def __init__(
        self, method: algorithm.FedPlus, *, rounds: int, cohort: int | None = None, seed: int = 0,
        least: int = 1, deadline: float = 600.0, patience: float = 300.0,
        folder: Path | str | None = None, label: str = "Fed+", forget: Iterable[int] = (),
        score: tuple[str, str] = ("accuracy", "higher"),
    ) -> None:  # fmt: skip
        require(isinstance(method, algorithm.FedPlus), "method", type(method).__name__, "a FedPlus")
        require_whole("rounds", rounds)
        require_whole("least", least)
        if cohort is not None:
            require_whole("cohort", cohort, least)
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
        self._forget = frozenset(forget)
        self._recorded: Recorded | None = None
        self._state: ServerState | None = None
        self.dropped: list[tuple[int, int, str]] = []
        """Round, node and reason of each reply that was not taken."""

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
        self._folder.mkdir(parents=True, exist_ok=True)
        with held(self._folder):
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
            result = self.start(prompt(grid), first, num_rounds=left, timeout=self._deadline)
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
            self._state = ServerState.begun(arrays)
            return self._state
        self._state = ServerState.restored(arrays, self._folder / CHECKPOINT)
        for node in self._forget:
            self._state.models.pop(node, None)
        if self._state.done:
            log(INFO, "Going on after round %s, from %s", self._state.done, self._folder)
        self._recorded = Recorded(self._folder, self._about, self._state.done)
        return self._state

    @override
    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        state = self._state or self._begin(from_record(arrays))
        nodes = self._connected(grid)
        if len(nodes) < self._least:
            return []
        if self._method.over == "all":
            for node in nodes:  # Alg. 1, l. 1
                state.models.setdefault(node, state.first)
        asked = self._sampled(nodes)
        content: dict[str, Any] = {
            ARRAYS: to_record(state.shapes.arrays(state.w_global)),
            CONFIG: ConfigRecord({
                **config, **sent(self._method.local), ROUND: state.done + 1,
                FEDERATION: state.federation,
            }),
        }  # fmt: skip
        log(INFO, "Round %s: %s of %s parties", state.done + 1, len(asked), len(nodes))
        return [
            Message(
                RecordDict(content), node, MessageType.TRAIN, ttl=2 * self._deadline,
                group_id=str(state.done + 1),
            )
            for node in asked
        ]  # fmt: skip

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
            state.models[reply.node] = reply.w
        over = state.models if self._method.over == "all" else {r.node: r.w for r in good}
        stacked = np.stack([over[node] for node in sorted(over)])
        aggregate = self._method.aggregate or Moreau(self._method.local.psi)
        result = aggregate(stacked, start=state.w_global)  # l. 10
        state.w_global = np.asarray(result.w)
        if self._method.over == "active":
            state.models = {}
        self._save()
        if self._recorded is not None:
            dropped = sum(round_ == state.done for round_, _, _ in self.dropped)
            self._recorded.round(state.done, good, *self._figures(good), result, dropped)
        told: dict[str, Any] = {
            "replies": len(good), "parties": len(over), "skipped": state.skipped,
            "dropped": len(self.dropped), "iterations": int(result.iterations),
            "converged": int(result.converged), **_averaged(good),
        }  # fmt: skip
        return to_record(state.shapes.arrays(state.w_global)), MetricRecord(told)

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
        """The good replies, one a party."""
        good: dict[int, Reply] = {}
        for message in replies:
            found = checked(message, self.state.shapes)
            if isinstance(found, Reply) and found.node in good:
                found = Refusal(found.node, "a second reply of the same party")
            if isinstance(found, Reply):
                good[found.node] = found
                continue
            self.dropped.append((self.state.done + 1, found.node, found.reason))
            log(WARNING, "Round %s: dropped the reply of node %s: %s", *self.dropped[-1])
        return list(good.values())

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
    """The mean over the parties of each number that all of them report."""
    shared = set.intersection(*(set(reply.metrics) for reply in good))
    return {f"mean-{n}": float(np.mean([r.metrics[n] for r in good])) for n in sorted(shared)}
