"""Other programs that follow a run: TensorBoard, MLflow, or one of your own.

A tracker is a class, called with the run's folder and its specification. Your own has a name in the
entry-point group ``fedplus.trackers`` of its package, and is then used by ``fedplus run --track NAME``.
"""

import contextlib
import importlib.metadata
import importlib.util
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from fedplus.check import SettingError, lookup
from fedplus.experiments.spec import Spec
from fedplus.files import write_atomically

GROUP = "fedplus.trackers"
FEW = 100
"""Parties up to which each has curves of its own."""


class Tracker(Protocol):
    """Follows one run."""

    def __init__(self, folder: Path, spec: Spec) -> None:
        """Begin, or go on with a run that was stopped."""

    def observe(self, line: dict[str, Any]) -> None:
        """A line of ``rounds.jsonl``; of a run that goes on, first those there were."""

    def finish(self, state: str) -> None:
        """The run has ended: "finished" or "failed"."""


def line_scalars(line: dict[str, Any]) -> dict[str, float]:
    """The numbers of a line that are worth a curve."""
    found: dict[str, float | None] = {
        f"{which}/{name}": value
        for which in ("personal", "global")
        for name, value in line[which].items()
    }
    figures = line["figures"]
    found["objective"] = line.get("objective")
    for name in ("change_std", "iterations", "residual", "dropped"):
        found[f"aggregation/{name}"] = figures[name][-1] if figures[name] else None
    if len(line["personal_score"]) <= FEW:
        found |= {f"party/{k}": value for k, value in enumerate(line["personal_score"])}
    return {name: float(value) for name, value in found.items() if value is not None}


class TensorBoard:
    """Event files in the run's folder: ``tensorboard --logdir RUN``."""

    def __init__(self, folder: Path, spec: Spec) -> None:
        from tensorboard.summary import Writer

        logs = folder / "tensorboard"
        for old in logs.glob("events.*"):
            old.unlink()  # A run that goes on tells its past again.
        self._writer = Writer(str(logs))

    def observe(self, line: dict[str, Any]) -> None:
        """Write a point on every curve."""
        for name, value in line_scalars(line).items():
            self._writer.add_scalar(name, value, line["round"])
        self._writer.flush()

    def finish(self, state: str) -> None:
        """Close the file."""
        self._writer.close()


class MLflow:
    """An MLflow run, in ``MLFLOW_TRACKING_URI`` or ``mlflow.db`` (SQLite) beside the run's folder."""

    def __init__(self, folder: Path, spec: Spec) -> None:
        from mlflow import MlflowClient

        place = f"sqlite:///{(folder.parent / 'mlflow.db').resolve()}"
        self._client = MlflowClient(os.environ.get("MLFLOW_TRACKING_URI") or place)
        kept = folder / "mlflow.txt"
        if kept.exists():
            self._run = kept.read_text().strip()
            self._client.update_run(self._run, "RUNNING")
            known = self._client.get_metric_history(self._run, "personal/mean")
            self._last = max((metric.step for metric in known), default=-1)
            return
        name = spec.title or str(spec.data.name or "fedplus")
        found = self._client.get_experiment_by_name(name)
        experiment = found.experiment_id if found else self._client.create_experiment(name)
        (method,), (seed,) = spec.methods, spec.seeds
        run = self._client.create_run(experiment, run_name=f"{method.label} seed {seed}")
        self._run, self._last = run.info.run_id, -1
        write_atomically(kept, f"{self._run}\n".encode())
        settings = {f"method.{k}": v for k, v in method.settings.items()}
        train = spec.train.model_dump(exclude_none=True)
        for key, value in {"method": method.name, "seed": seed, **settings, **train}.items():
            self._client.log_param(self._run, key, value)

    def observe(self, line: dict[str, Any]) -> None:
        """Log what is new."""
        from mlflow.entities import Metric

        if line["round"] <= self._last:
            return
        now = int(time.time() * 1000)
        points = [
            Metric(name, value, now, line["round"]) for name, value in line_scalars(line).items()
        ]
        self._client.log_batch(self._run, metrics=points)

    def finish(self, state: str) -> None:
        """Say how it ended."""
        self._client.set_terminated(self._run, "FINISHED" if state == "finished" else "FAILED")


TRACKERS: dict[str, Callable[[Path, Spec], Tracker]] = {
    "tensorboard": TensorBoard,
    "mlflow": MLflow,
}


def make_tracker(name: str) -> Callable[[Path, Spec], Tracker]:
    """The tracker of that name, ours or of another package."""
    others = {point.name: point for point in importlib.metadata.entry_points(group=GROUP)}
    if name not in TRACKERS and name in others:
        loaded: Callable[[Path, Spec], Tracker] = others[name].load()
        return loaded
    ours = lookup(name, TRACKERS, "tracker")
    if importlib.util.find_spec(name) is None:
        raise SettingError(
            f"--track {name} needs the package {name}, which is not installed. "
            f"Install it with: pip install 'fedplus[{name}]'."
        )
    return ours


@contextlib.contextmanager
def track(names: Sequence[str], folder: Path, spec: Spec) -> Iterator[list[Tracker]]:
    """The trackers of a run, told in the end how it went."""
    following = [make_tracker(name)(folder, spec) for name in names]
    state = "failed"
    try:
        yield following
        state = "finished"
    finally:
        for one in following:
            one.finish(state)
