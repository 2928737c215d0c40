"""A run folder, written while the run goes on: see docs/runs.md for what is in it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedplus._types import Host
from fedplus.data.federation import Federation
from fedplus.experiments.constant_answer import warn_below_constant_answer
from fedplus.experiments.environment import describe_environment
from fedplus.experiments.files import append_round, truncate_rounds, write_json
from fedplus.experiments.round_lines import json_numbers, round_line
from fedplus.experiments.run_folder import (
    ENV,
    GLOBAL,
    MODELS,
    PARTIES,
    ROUNDS,
    SPEC,
    RunFolder,
    party_file_name,
)  # fmt: skip
from fedplus.experiments.spec import Spec, to_toml
from fedplus.experiments.status import Status
from fedplus.files import make_folder, write_atomically, write_folder_atomically
from fedplus.models.ravel import named_arrays
from fedplus.models.task import Task
from fedplus.simulation import Run
from fedplus.simulation.recorder import NewEvaluation


class Writer:
    """Keeps one run's folder up to date."""

    def __init__(
        self, folder: Path, spec: Spec, federation: Federation, task: Task, done: int = 0
    ) -> None:
        """Begin the folder, or go on with it: ``done`` rounds are kept by a checkpoint."""
        self.folder = folder
        self._federation, self._task, self._path = federation, task, tuple(spec.train.path)
        self._standardised = spec.data.standardise
        self._round = 0
        (method,), (seed,) = spec.methods, spec.seeds
        about = {
            "label": method.label, "method": method.name, "data": federation.name,
            "model": spec.model.name, "seed": seed, "parties": federation.parties, "round": 0,
            "rounds": spec.train.rounds, "score_name": task.score_name, "better": task.better,
        }  # fmt: skip
        self._status = Status(folder, about)
        make_folder(folder)
        write_atomically(folder / SPEC, to_toml(spec).encode())
        write_json(folder / ENV, describe_environment() | self._first_command())
        self._begin_rounds(done)
        self.tell("running")

    def _first_command(self) -> dict[str, Any]:
        """What began the run, where it only goes on now."""
        known = (self.folder / ENV).is_file()
        return {"command": RunFolder(self.folder).env.get("command")} if known else {}

    def _begin_rounds(self, done: int) -> None:
        """Keep the lines that the checkpoint vouches for; the others will be written again."""
        kept = truncate_rounds(self.folder / ROUNDS, done)
        self._round = int(kept[-1]["round"]) if kept else 0

    def parties(self, references: Mapping[str, Host | None]) -> None:
        """Who takes part, and scores to compare with."""
        write_json(self.folder / PARTIES, _parties(self._federation, references))

    def observe(self, evaluated: NewEvaluation) -> dict[str, Any]:
        """Another line, which is returned, and how far the run is."""
        line = round_line(evaluated, self._federation.test.size, self._task.better, self._path)
        if evaluated.round > self._round:
            append_round(self.folder / ROUNDS, line)
            self._round = evaluated.round
        self._status.evaluated(line)
        return line

    def finish(self, run: Run, constant: Host | None) -> None:
        """Say that the run has ended; warn if always the same answer would have been better."""
        warning = ""
        if constant is not None:
            mean = float(run.evaluations["personal_score"][-1].mean())
            known = float(np.mean(constant))
            told = self._task.score_name, self._task.better, mean, known, self._standardised
            warning = warn_below_constant_answer(*told)
        self.tell("finished", f"The run {warning}" if warning else "")

    def tell(self, state: str, message: str = "") -> None:
        """Replace ``status.json``."""
        self._status.tell(state, message)

    def models(self, run: Run) -> None:
        """Each party's model and the global one, as safetensors by parameter name."""
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


def _tensors(w: Host, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Host]:
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes.values()])
    parts = np.split(w, ends[:-1])
    return {
        name: np.ascontiguousarray(part.reshape(shape))
        for (name, shape), part in zip(shapes.items(), parts, strict=True)
    }


def _parties(federation: Federation, references: Mapping[str, Host | None]) -> dict[str, Any]:
    scores = {name: None if of is None else json_numbers(of) for name, of in references.items()}
    return {
        "names": list(federation.names),
        "train": federation.train.size.tolist(),
        "test": federation.test.size.tolist(),
        "outliers": list(federation.info.outliers),
        **scores,
        "stand_in_for": federation.info.stand_in_for,
    }
