"""Writes the run folder of a simulated run while it trains; docs/runs.md describes the files.

A run that is resumed keeps the lines of ``rounds.jsonl`` up to its checkpoint; see ``runner``.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedplus._types import NumpyArray
from fedplus.data.federation import Federation
from fedplus.data.notes import data_notes
from fedplus.data.preprocessing import Preprocessing
from fedplus.experiments.constant_answer_warning import constant_answer_warning
from fedplus.experiments.environment import describe_environment
from fedplus.experiments.model_card import model_card
from fedplus.experiments.round_lines import json_numbers, round_line
from fedplus.experiments.run_folder import (
    ENV,
    GLOBAL,
    METRICS,
    MODEL_CARD,
    MODELS,
    NEW_PARTIES,
    PARTIES,
    ROUNDS,
    SPEC,
    RunFolder,
    party_file_name,
)  # fmt: skip
from fedplus.experiments.run_folder_files import append_round, truncate_rounds, write_json
from fedplus.experiments.spec import Spec, to_toml
from fedplus.experiments.status import Status
from fedplus.files import make_folder, write_atomically, write_folder_atomically
from fedplus.models.ravel import named_arrays
from fedplus.models.task import Task
from fedplus.simulation import Run
from fedplus.simulation.recorder import NewEvaluation


class RunWriter:
    """Writes the files of one run folder.

    Args:
        folder: The run folder. It is created if it does not exist.
        spec: The specification, with one method and one seed.
        federation: The data.
        task: The task, which names the score.
        done: Number of rounds that the checkpoint contains, if the run is resumed.
    """

    def __init__(
        self, folder: Path, spec: Spec, federation: Federation, task: Task, done: int = 0
    ) -> None:
        self.folder = folder
        self._federation, self._task, self._path = federation, task, tuple(spec.train.path)
        self._spec, self._rounds = spec, spec.train.rounds
        self._standardised = (federation.info.preprocessing or Preprocessing()).is_standardised
        (method,), (seed,) = spec.methods, spec.seeds
        about = {
            "label": method.label, "method": method.name, "data": federation.name,
            "model": spec.model.name, "seed": seed, "parties": federation.parties, "round": 0,
            "rounds": spec.train.rounds, "score_name": task.score_name, "better": task.better,
        }  # fmt: skip
        self._status = Status(folder, about)
        make_folder(folder)
        write_atomically(folder / SPEC, to_toml(spec).encode())
        write_json(folder / ENV, describe_environment() | self._original_command())
        remaining = truncate_rounds(folder / ROUNDS, done)
        self._last_round = int(remaining[-1]["round"]) if remaining else 0
        self.write_status("running")

    def _original_command(self) -> dict[str, Any]:
        """Return the command that started the run, if this is a resumed run."""
        is_resumed = (self.folder / ENV).is_file()
        return {"command": RunFolder(self.folder).env.get("command")} if is_resumed else {}

    def write_parties(self, references: Mapping[str, NumpyArray | None]) -> None:
        """Write ``parties.json``: the parties, and the reference scores by name."""
        content = _parties(self._federation, references)
        write_json(self.folder / PARTIES, content | {"rounds": self._rounds})

    def write_new_parties(self, content: Mapping[str, Any]) -> None:
        """Write ``new_parties.json``; see ``new_parties.join_new_parties``."""
        write_json(self.folder / NEW_PARTIES, content)

    def write_metrics(self, content: Mapping[str, Any]) -> None:
        """Write ``metrics.json``; see ``party_metrics.party_metrics``."""
        write_json(self.folder / METRICS, content)

    def observe(self, evaluated: NewEvaluation) -> dict[str, Any]:
        """Append an evaluation to ``rounds.jsonl``, update ``status.json``, and return the line.

        A resumed simulation reports the evaluations before its checkpoint again. Those whose lines
        are already in the file are not appended.
        """
        line = round_line(evaluated, self._federation.test.size, self._task.better, self._path)
        if evaluated.round > self._last_round:
            append_round(self.folder / ROUNDS, line)
            self._last_round = evaluated.round
        self._status.record_evaluation(line)
        return line

    def finish(
        self, run: Run, references: Mapping[str, NumpyArray | None],
        metrics: Mapping[str, Any] | None,
    ) -> None:  # fmt: skip
        """Write the model card, and set the state "finished".

        The message of the state is a warning if a constant answer scores better.

        Args:
            run: The finished run.
            references: (N,) scores of local training and of the constant answer, if known.
            metrics: The content of ``metrics.json``, if there is one.
        """
        constant_scores = references["majority"]
        warning = ""
        if constant_scores is not None:
            warning = constant_answer_warning(
                self._task.score_name,
                self._task.better,
                float(run.evaluations["personal_score"][-1].mean()),
                float(np.mean(constant_scores)),
                self._standardised,
            )
        message = f"The run {warning}" if warning else ""
        scores = {
            "own model": run.evaluations["personal_score"][-1],
            "global model": run.evaluations["global_score"][-1],
            "training alone": references["local"],
            "constant answer": constant_scores,
        }
        card = model_card(self._spec, self._federation, self._task, scores, metrics, message)
        write_atomically(self.folder / MODEL_CARD, card.encode())
        self.write_status("finished", message)

    def write_status(self, state: str, message: str = "") -> None:
        """Write ``status.json`` with this state and message."""
        self._status.write(state, message)

    def write_models(self, run: Run) -> None:
        """Write the model of each party and the global model as safetensors files."""
        from safetensors.numpy import save

        shapes = {name: leaf.shape for name, leaf in named_arrays(run.parameters()).items()}
        parties = zip(self._federation.names, run.models, strict=True)
        write_folder_atomically(
            self.folder / MODELS,
            (
                (party_file_name(name), save(_tensors(w, shapes), {"party": name}))
                for name, w in parties
            ),
        )
        write_atomically(self.folder / GLOBAL, save(_tensors(run.w_global, shapes)))


def _tensors(w: NumpyArray, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, NumpyArray]:
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes.values()])
    parts = np.split(w, ends[:-1])
    return {
        name: np.ascontiguousarray(part.reshape(shape))
        for (name, shape), part in zip(shapes.items(), parts, strict=True)
    }


def _parties(federation: Federation, references: Mapping[str, NumpyArray | None]) -> dict[str, Any]:
    preprocessing = federation.info.preprocessing or Preprocessing()
    scores = {k: None if score is None else json_numbers(score) for k, score in references.items()}
    return {
        "names": list(federation.names),
        "train": federation.train.size.tolist(),
        "test": federation.test.size.tolist(),
        "outliers": list(federation.info.outliers),
        **scores,
        "stand_in_for": federation.info.stand_in_for,
        "inputs": preprocessing.summary,
        "standardised": preprocessing.is_standardised,
        "notes": data_notes(federation),
    }
