"""Trackers log a run to another program: TensorBoard, MLflow, or one of your own.

A tracker is a class that is called with the run folder and the specification. To add your own, name
it in the entry-point group ``fedplus.trackers`` of its package, and use ``fedplus run --track NAME``.
"""

import contextlib
import importlib.metadata
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from fedplus.check import lookup
from fedplus.experiments.spec import Spec
from fedplus.extras import import_extra
from fedplus.files import write_atomically

GROUP = "fedplus.trackers"
MAX_PARTY_CURVES = 100
"""Federations of up to this many parties get one curve per party."""


class Tracker(Protocol):
    """Logs one run."""

    def __init__(self, folder: Path, spec: Spec) -> None:
        """Start logging a new run, or continue with a resumed one."""

    def observe(self, line: dict[str, Any]) -> None:
        """Log an evaluated round. A resumed run sends its earlier rounds again first.

        Args:
            line: The line of ``rounds.jsonl``, as a dictionary.
        """

    def finish(self, state: str) -> None:
        """Stop logging.

        Args:
            state: How the run ended, as in ``status.json``: "finished", "stopped" or "failed".
        """


def line_scalars(line: dict[str, Any]) -> dict[str, float]:
    """Return the numbers of a line of ``rounds.jsonl`` that are logged, by name of the curve."""
    scalars: dict[str, float | None] = {
        f"{which}/{name}": value
        for which in ("personal", "global")
        for name, value in line[which].items()
    }
    figures = line["figures"]
    scalars["objective"] = line.get("objective")
    for name in ("change_std", "iterations", "residual", "dropped"):
        scalars[f"aggregation/{name}"] = figures[name][-1] if figures[name] else None
    if len(line["personal_score"]) <= MAX_PARTY_CURVES:
        scalars |= {f"party/{k}": value for k, value in enumerate(line["personal_score"])}
    return {name: float(value) for name, value in scalars.items() if value is not None}


class TensorBoard:
    """Writes event files into the run folder; view them with ``tensorboard --logdir RUN``."""

    def __init__(self, folder: Path, spec: Spec) -> None:
        from tensorboard.summary import Writer

        logs = folder / "tensorboard"
        for old in logs.glob("events.*"):
            old.unlink()  # A resumed run sends its earlier lines again.
        self._writer = Writer(str(logs))

    def observe(self, line: dict[str, Any]) -> None:
        """Write one point of every curve."""
        for name, value in line_scalars(line).items():
            self._writer.add_scalar(name, value, line["round"])
        self._writer.flush()

    def finish(self, state: str) -> None:
        """Close the file."""
        self._writer.close()


class MLflow:
    """Logs to ``MLFLOW_TRACKING_URI``, or to ``mlflow.db`` (SQLite) next to the run folder."""

    def __init__(self, folder: Path, spec: Spec) -> None:
        from mlflow import MlflowClient

        database = f"sqlite:///{(folder.parent / 'mlflow.db').resolve()}"
        self._client = MlflowClient(os.environ.get("MLFLOW_TRACKING_URI") or database)
        run_id_file = folder / "mlflow.txt"
        if run_id_file.exists():
            self._run_id = run_id_file.read_text().strip()
            self._client.update_run(self._run_id, "RUNNING")
            history = self._client.get_metric_history(self._run_id, "personal/mean")
            self._last_round = max((metric.step for metric in history), default=-1)
            return
        name = spec.title or str(spec.data.name or "fedplus")
        experiment = self._client.get_experiment_by_name(name)
        experiment_id = (
            experiment.experiment_id if experiment else self._client.create_experiment(name)
        )
        (method,), (seed,) = spec.methods, spec.seeds
        run = self._client.create_run(experiment_id, run_name=f"{method.label} seed {seed}")
        self._run_id, self._last_round = run.info.run_id, -1
        write_atomically(run_id_file, f"{self._run_id}\n".encode())
        settings = {f"method.{k}": v for k, v in method.settings.items()}
        train = spec.train.model_dump(exclude_none=True)
        for key, value in {"method": method.name, "seed": seed, **settings, **train}.items():
            self._client.log_param(self._run_id, key, value)

    def observe(self, line: dict[str, Any]) -> None:
        """Log the line, unless an earlier part of the run has logged it."""
        from mlflow.entities import Metric

        if line["round"] <= self._last_round:
            return
        now = int(time.time() * 1000)
        points = [
            Metric(name, value, now, line["round"]) for name, value in line_scalars(line).items()
        ]
        self._client.log_batch(self._run_id, metrics=points)

    def finish(self, state: str) -> None:
        """Set the final status of the MLflow run."""
        statuses = {"finished": "FINISHED", "stopped": "KILLED"}
        self._client.set_terminated(self._run_id, statuses.get(state, "FAILED"))


TRACKERS: dict[str, Callable[[Path, Spec], Tracker]] = {
    "tensorboard": TensorBoard,
    "mlflow": MLflow,
}


def lookup_tracker(name: str) -> Callable[[Path, Spec], Tracker]:
    """Return the tracker class with this name, built-in or from another package.

    Raises:
        SettingError: The name is unknown, or the package that the tracker needs is not installed.
    """
    plugins = {point.name: point for point in importlib.metadata.entry_points(group=GROUP)}
    if name not in TRACKERS and name in plugins:
        plugin: Callable[[Path, Spec], Tracker] = plugins[name].load()
        return plugin
    tracker = lookup(name, TRACKERS, "tracker")
    import_extra(name, name, f"--track {name}")
    return tracker


@contextlib.contextmanager
def run_trackers(names: Sequence[str], folder: Path, spec: Spec) -> Iterator[list[Tracker]]:
    """Start the trackers of a run, and finish them at the end of the ``with`` block."""
    trackers = [lookup_tracker(name)(folder, spec) for name in names]
    state = "failed"
    try:
        yield trackers
        state = "finished"
    except KeyboardInterrupt:
        state = "stopped"
        raise
    finally:
        for tracker in trackers:
            tracker.finish(state)
