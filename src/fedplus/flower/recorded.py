"""A deployment's rounds in a run folder, so that ``fedplus board`` and ``fedplus report`` show it.

Parties report scores with their replies, under the names in ``SCORES``; a party that has not replied
counts with its last scores. Parties are called by their node ids, in the order in which they came.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedplus._types import Host
from fedplus.experiments.files import append_line, keep_lines, write_json
from fedplus.experiments.folder import PARTIES, ROUNDS
from fedplus.experiments.lines import numbers, summed_up
from fedplus.experiments.status import Status
from fedplus.flower.replies import Reply

SCORES = {
    "personal-score": "personal_score", "personal-loss": "personal_loss",
    "global-score": "global_score", "global-loss": "global_loss",
}  # fmt: skip
SAMPLES = "num-examples"


class Recorded:
    """Keeps the run folder of one deployment."""

    def __init__(self, folder: Path, about: Mapping[str, Any], done: int) -> None:
        """Begin the folder, or go on after so many rounds; ``about`` is for the list of runs."""
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._last: dict[int, dict[str, float]] = {}
        self._better = str(about["better"])
        self._status = Status(folder, {"seed": 0, "parties": 0, "round": done, **about})
        kept = keep_lines(folder / ROUNDS, done)
        if kept:
            self._restore(kept[-1])
        self.tell("running")

    def _restore(self, line: Mapping[str, Any]) -> None:
        """The parties' last scores, for those that do not reply at once."""
        known = json.loads((self._folder / PARTIES).read_bytes())
        for k, node in enumerate(map(int, known["names"])):
            found = {name: line[key][k] for name, key in SCORES.items() if k < len(line[key])}
            found[SAMPLES] = known["train"][k]
            self._last[node] = {name: value for name, value in found.items() if value is not None}

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
        nodes = list(self._last)
        lists = {key: _of(self._last, nodes, name) for name, key in SCORES.items()}
        v_norm = [norms.get(node, np.nan) for node in nodes]
        line: dict[str, Any] = {"round": round_}
        for which in ("personal", "global"):
            line[which] = _of_the_known(lists[f"{which}_score"], self._better)
        line |= {key: numbers(values) for key, values in lists.items()}
        line["v_norm"] = numbers(v_norm)
        line["figures"] = {
            "round": [round_], "change_mean": [0.0], "change_std": numbers([change.mean()]),
            "change_most": numbers([change.max()]), "iterations": [int(aggregate.iterations)],
            "residual": numbers([aggregate.residual]), "converged": [bool(aggregate.converged)],
            "dropped": [dropped], "cohort": [len(replies)],
        }  # fmt: skip
        self._name_parties(nodes)
        append_line(self._folder / ROUNDS, line)
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


def _of(last: Mapping[int, Mapping[str, float]], nodes: Sequence[int], name: str) -> list[float]:
    return [last[node].get(name, np.nan) for node in nodes]


def _of_the_known(scores: Sequence[float], better: str) -> dict[str, float | None]:
    """Of the parties that have told a score; how to pool them only they know."""
    known = np.array([score for score in scores if np.isfinite(score)])
    if not known.size:
        return dict.fromkeys(("mean", "pooled", "worst_decile", "worst", "std"))
    return summed_up(known, np.ones(known.size), better) | {"pooled": None}
