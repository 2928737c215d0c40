"""Writes the rounds of a deployment to a run folder, for ``fedplus board`` and ``fedplus report``.

Parties report scores with their replies, under the names in ``SCORES``. For a party that has not
replied, its last scores are used. Parties are named by their node ids, in the order of their first
accepted replies; the server's checkpoint stores that order.
"""

from collections.abc import Iterable, Mapping, Sequence
from logging import WARNING
from pathlib import Path
from typing import Any

import numpy as np
from flwr.common import log

from fedplus._types import NumpyArray
from fedplus.check import SettingError
from fedplus.experiments.round_lines import json_numbers, summarise_scores
from fedplus.experiments.run_folder import PARTIES, ROUNDS, RunFolder
from fedplus.experiments.run_folder_files import append_round, truncate_rounds, write_json
from fedplus.experiments.status import Status
from fedplus.files import make_folder
from fedplus.flower.replies import Reply

SCORES = {
    "personal-score": "personal_score", "personal-loss": "personal_loss",
    "global-score": "global_score", "global-loss": "global_loss",
}  # fmt: skip
SAMPLES = "num-examples"


class RunLog:
    """The run folder of a deployment, created or continued.

    Args:
        folder: The run folder.
        about: Entries of ``status.json`` that do not change, such as the label and the method.
        rounds_done: The number of rounds in the server's checkpoint; later ones are removed.
        nodes: The parties so far, in the order of the checkpoint. If the checkpoint does not have
            them, they are read from ``parties.json``.
    """

    def __init__(
        self, folder: Path, about: Mapping[str, Any], rounds_done: int, nodes: Sequence[int]
    ) -> None:
        self._folder = folder
        make_folder(folder)
        self._last_metrics: dict[int, dict[str, float]] = {}
        self._better = str(about["better"])
        self._status = Status(folder, {"seed": 0, "parties": 0, "round": rounds_done, **about})
        lines = truncate_rounds(folder / ROUNDS, rounds_done)
        if lines:
            self._restore_metrics(lines[-1], nodes)
        self.write_status("running")

    def _restore_metrics(self, line: Mapping[str, Any], nodes: Sequence[int]) -> None:
        """Read the parties' last scores and numbers of samples, as far as they are not damaged."""
        named_nodes, samples = self._read_parties()
        for k, node in enumerate(nodes or named_nodes):
            metrics = {name: _number_at(line.get(key), k) for name, key in SCORES.items()}
            metrics[SAMPLES] = samples.get(node)
            self._last_metrics[node] = {n: v for n, v in metrics.items() if v is not None}

    def _read_parties(self) -> tuple[list[int], dict[int, float]]:
        """Return the nodes in ``parties.json`` and their numbers of samples; none if it is damaged."""
        try:
            parties = RunFolder(self._folder).parties
            nodes = [int(name) for name in parties["names"]]
            return nodes, {n: float(s) for n, s in zip(nodes, parties["train"], strict=True)}
        except (SettingError, LookupError, TypeError, ValueError) as error:
            log(
                WARNING, "%s cannot be read (%s: %s) and will be replaced",
                self._folder / PARTIES, type(error).__name__, error,
            )  # fmt: skip
            return [], {}

    @property
    def nodes(self) -> list[int]:
        """The parties, in the order in which the run folder lists them."""
        return list(self._last_metrics)

    def rename_party(self, old: int, new: int) -> None:
        """Continue a party under another node, after its key was replaced."""
        self._last_metrics = {new if n == old else n: m for n, m in self._last_metrics.items()}

    def forget_metrics(self, nodes: Iterable[int]) -> None:
        """Remove the last scores of these nodes."""
        for node in nodes:
            if node in self._last_metrics:
                self._last_metrics[node] = {}

    def add_round(
        self, round_: int, replies: Sequence[Reply], norms: Mapping[int, float],
        change: NumpyArray, aggregate: Any, dropped: int,
    ) -> None:  # fmt: skip
        """Append a round to ``rounds.jsonl``.

        Args:
            round_: The number of the round, from 1.
            replies: The accepted replies.
            norms: ‖v_k‖ of each party that replied, by node.
            change: (K,) standard deviation, over the parameters, of how the aggregation moves the
                model from which a party starts (0 if it starts from its own).
            aggregate: The result of the aggregation, with iterations, residual and converged.
            dropped: The number of replies that were not accepted.
        """
        for reply in replies:
            metrics = {n: v for n, v in reply.metrics.items() if n in SCORES or n == SAMPLES}
            self._last_metrics.setdefault(reply.node, {}).update(metrics)
        nodes = self.nodes
        lists = {
            key: [metrics.get(name, np.nan) for metrics in self._last_metrics.values()]
            for name, key in SCORES.items()
        }
        v_norm = [norms.get(node, np.nan) for node in nodes]
        line: dict[str, Any] = {"round": round_}
        for which in ("personal", "global"):
            line[which] = _summarise_known(lists[f"{which}_score"], self._better)
        line |= {key: json_numbers(values) for key, values in lists.items()}
        line["v_norm"] = json_numbers(v_norm)
        line["figures"] = {
            "round": [round_], "change_mean": [0.0], "change_std": json_numbers([change.mean()]),
            "change_most": json_numbers([change.max()]), "iterations": [int(aggregate.iterations)],
            "residual": json_numbers([aggregate.residual]), "converged": [bool(aggregate.converged)],
            "dropped": [dropped], "cohort": [len(replies)],
        }  # fmt: skip
        self._write_parties(nodes)
        append_round(self._folder / ROUNDS, line)
        self._status.record_evaluation(line, parties=len(nodes))

    def _write_parties(self, nodes: Sequence[int]) -> None:
        """Write ``parties.json``, before the line: a reader must not find more scores than names."""
        samples = [int(self._last_metrics[node].get(SAMPLES, 0)) for node in nodes]
        write_json(
            self._folder / PARTIES,
            {
                "names": list(map(str, nodes)), "train": samples, "test": samples, "outliers": [],
                "local": None, "majority": None, "stand_in_for": "",
            },
        )  # fmt: skip

    def write_status(self, state: str, message: str = "") -> None:
        """Write ``status.json`` with this state ("running", "finished", "failed") and message."""
        self._status.write(state, message)


def _number_at(values: Any, k: int) -> float | None:
    """Return a party's number in a list that may be damaged, or None."""
    has_entry = isinstance(values, list) and k < len(values)
    return float(values[k]) if has_entry and isinstance(values[k], (int, float)) else None


def _summarise_known(scores: Sequence[float], better: str) -> dict[str, float | None]:
    """Summarise the scores that parties have reported; their pooled score is not known."""
    known = np.array([score for score in scores if np.isfinite(score)])
    if not known.size:
        return dict.fromkeys(("mean", "pooled", "worst_decile", "worst", "std"))
    return summarise_scores(known, np.ones(known.size), better) | {"pooled": None}
