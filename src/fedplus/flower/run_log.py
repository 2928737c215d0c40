"""A deployment's rounds in a run folder, so that ``fedplus board`` and ``fedplus report`` show it.

Parties report scores with their replies, under the names in ``SCORES``; a party that has not replied
counts with its last scores. Parties are called by their node ids, in the order of their first accepted
replies; the server's checkpoint keeps that order.
"""

from collections.abc import Iterable, Mapping, Sequence
from logging import WARNING
from pathlib import Path
from typing import Any

import numpy as np
from flwr.common import log

from fedplus._types import Host
from fedplus.check import SettingError
from fedplus.experiments.files import append_round, truncate_rounds, write_json
from fedplus.experiments.round_lines import json_numbers, summarise_scores
from fedplus.experiments.run_folder import PARTIES, ROUNDS, RunFolder
from fedplus.experiments.status import Status
from fedplus.files import make_folder
from fedplus.flower.replies import Reply

SCORES = {
    "personal-score": "personal_score", "personal-loss": "personal_loss",
    "global-score": "global_score", "global-loss": "global_loss",
}  # fmt: skip
SAMPLES = "num-examples"


class DeploymentLog:
    """Keeps the run folder of one deployment."""

    def __init__(
        self, folder: Path, about: Mapping[str, Any], done: int, nodes: Sequence[int]
    ) -> None:
        """Begin the folder, or go on with it.

        Args:
            folder: The run folder.
            about: For the list of runs.
            done: Rounds that the checkpoint has.
            nodes: The parties so far, in the order of the records; those of a checkpoint that does
                not have them are read from ``parties.json``.
        """
        self._folder = folder
        make_folder(folder)
        self._last: dict[int, dict[str, float]] = {}
        self._better = str(about["better"])
        self._status = Status(folder, {"seed": 0, "parties": 0, "round": done, **about})
        kept = truncate_rounds(folder / ROUNDS, done)
        if kept:
            self._restore(kept[-1], nodes)
        self.tell("running")

    def _restore(self, line: Mapping[str, Any], nodes: Sequence[int]) -> None:
        """Read the parties' last scores and numbers of samples; go without what is damaged."""
        names, samples = self._known()
        for k, node in enumerate(nodes or names):
            found = {name: _entry(line.get(key), k) for name, key in SCORES.items()}
            found[SAMPLES] = samples.get(node)
            self._last[node] = {name: value for name, value in found.items() if value is not None}

    def _known(self) -> tuple[list[int], dict[int, float]]:
        """The nodes and their numbers of samples by ``parties.json``; none if it is damaged."""
        try:
            known = RunFolder(self._folder).parties
            names = [int(name) for name in known["names"]]
            return names, {n: float(s) for n, s in zip(names, known["train"], strict=True)}
        except (SettingError, LookupError, TypeError, ValueError) as error:
            log(
                WARNING, "%s cannot be read (%s: %s); it is written anew",
                self._folder / PARTIES, type(error).__name__, error,
            )  # fmt: skip
            return [], {}

    @property
    def nodes(self) -> list[int]:
        """The parties, in the order of the records."""
        return list(self._last)

    def rename(self, old: int, new: int) -> None:
        """Go on with a party under the node of its new key."""
        self._last = {new if node == old else node: v for node, v in self._last.items()}

    def forget(self, nodes: Iterable[int]) -> None:
        """Leave out the last scores of these nodes."""
        for node in nodes:
            if node in self._last:
                self._last[node] = {}

    def round(
        self, round_: int, replies: Sequence[Reply], norms: Mapping[int, float],
        change: Host, aggregate: Any, dropped: int,
    ) -> None:  # fmt: skip
        """Another line.

        Args:
            round_: From 1.
            replies: The good ones.
            norms: ‖v_k‖ of each party.
            change: (K,): standard deviation, over the parameters, of what the aggregation does to a
                party's model when it starts from w̃ (0 where it keeps its own).
            aggregate: With iterations, residual and converged.
            dropped: Replies that were not taken.
        """
        for reply in replies:
            told = {n: v for n, v in reply.metrics.items() if n in SCORES or n == SAMPLES}
            self._last.setdefault(reply.node, {}).update(told)
        nodes = self.nodes
        lists = {key: _of(self._last, nodes, name) for name, key in SCORES.items()}
        v_norm = [norms.get(node, np.nan) for node in nodes]
        line: dict[str, Any] = {"round": round_}
        for which in ("personal", "global"):
            line[which] = _of_the_known(lists[f"{which}_score"], self._better)
        line |= {key: json_numbers(values) for key, values in lists.items()}
        line["v_norm"] = json_numbers(v_norm)
        line["figures"] = {
            "round": [round_], "change_mean": [0.0], "change_std": json_numbers([change.mean()]),
            "change_most": json_numbers([change.max()]), "iterations": [int(aggregate.iterations)],
            "residual": json_numbers([aggregate.residual]), "converged": [bool(aggregate.converged)],
            "dropped": [dropped], "cohort": [len(replies)],
        }  # fmt: skip
        self._name_parties(nodes)
        append_round(self._folder / ROUNDS, line)
        self._status.evaluated(line, parties=len(nodes))

    def _name_parties(self, nodes: Sequence[int]) -> None:
        """Before the line that has them: a reader never finds more scores than names."""
        samples = [int(self._last[node].get(SAMPLES, 0)) for node in nodes]
        write_json(
            self._folder / PARTIES,
            {
                "names": list(map(str, nodes)), "train": samples, "test": samples, "outliers": [],
                "local": None, "majority": None, "stand_in_for": "",
            },
        )  # fmt: skip

    def tell(self, state: str, message: str = "") -> None:
        """Replace ``status.json``."""
        self._status.tell(state, message)


def _entry(values: Any, k: int) -> float | None:
    """One party's number in a line that may be damaged."""
    known = isinstance(values, list) and k < len(values)
    return float(values[k]) if known and isinstance(values[k], (int, float)) else None


def _of(last: Mapping[int, Mapping[str, float]], nodes: Sequence[int], name: str) -> list[float]:
    return [last[node].get(name, np.nan) for node in nodes]


def _of_the_known(scores: Sequence[float], better: str) -> dict[str, float | None]:
    """Of the parties that have told a score; how to pool them only they know."""
    known = np.array([score for score in scores if np.isfinite(score)])
    if not known.size:
        return dict.fromkeys(("mean", "pooled", "worst_decile", "worst", "std"))
    return summarise_scores(known, np.ones(known.size), better) | {"pooled": None}
