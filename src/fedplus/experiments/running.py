"""From a specification to run folders."""

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedplus import presets
from fedplus._check import SettingError
from fedplus._write import write_atomically
from fedplus.algorithm import AbstractAlgorithm, FedPlus
from fedplus.data.federation import Federation
from fedplus.data.split import Host
from fedplus.experiments.build import arguments_of, federation_of, method_of, model_of, natural
from fedplus.experiments.folder import CHECKPOINT, PARTIES, SPEC, RunFolder, is_run
from fedplus.experiments.source import Source
from fedplus.experiments.spec import Spec, to_toml
from fedplus.experiments.trackers import Tracker, tracker, tracking
from fedplus.experiments.written import Writer, line_of
from fedplus.models import Model
from fedplus.simulation import DivergedError, Run, simulate
from fedplus.simulation.evaluate import constant_answer
from fedplus.simulation.record import Evaluated
from fedplus.simulation.setup import set_up

Told = Callable[[str, int, float], None]
"""(label, rounds done by this run, mean score): for a progress bar over several runs."""


class Prepared(NamedTuple):
    """All of an experiment with one seed, built and checked; nothing is trained or written yet."""

    spec: Spec
    federation: Federation
    model: Model
    methods: list[AbstractAlgorithm[Any]]
    arguments: dict[str, Any]


def prepared(spec: Spec, seed: int, source: Source = Source()) -> Prepared:  # noqa: B008
    """Build and check.

    Raises:
        SettingError: Something does not fit, and where in the file it is.
    """
    federation = federation_of(spec.one(0, seed).data, source)
    model = model_of(spec.model, federation, source)
    methods = [method_of(one, model, source, i) for i, one in enumerate(spec.methods)]
    arguments = arguments_of(spec, source)
    ignored = ("evaluate_every", "path", "objective", "checkpoint_every")
    shaping = {name: value for name, value in arguments.items() if name not in ignored}
    for i, algorithm in enumerate(methods):
        with source.at("train"), _about(spec.methods[i].label if len(methods) > 1 else None):
            set_up([algorithm], federation, model, seeds=[seed], **shaping)
    name = natural(federation) if spec.model.name == "auto" else spec.model.name
    spec = spec.model_copy(update={"model": spec.model.model_copy(update={"name": name})})
    return Prepared(spec, federation, model, methods, arguments)


@contextlib.contextmanager
def _about(label: str | None) -> Iterator[None]:
    try:
        yield
    except SettingError as error:
        raise SettingError(f"{error} (with {label})" if label else str(error)) from error


def folders_of(spec: Spec, folder: Path) -> dict[tuple[int, int], Path]:
    """Where the run of each method (by number) and seed goes."""
    if len(spec.methods) == len(spec.seeds) == 1:
        return {(0, spec.seeds[0]): folder}
    return {
        (i, seed): folder / f"{slug(str(one.label))}-{seed}"
        for seed in spec.seeds
        for i, one in enumerate(spec.methods)
    }


def slug(label: str) -> str:
    """A label as a part of a file's name."""
    return re.sub(r"[^a-z0-9+.=-]+", "-", label.lower()).strip("-.") or "run"


def run_all(
    spec: Spec, folder: Path, source: Source = Source(), *, resume: bool = False,  # noqa: B008
    trackers: Sequence[str] = (), told: Told | None = None,
) -> list[RunFolder]:  # fmt: skip
    """Train every method with every seed, each into its run folder.

    A run that diverges is kept as ``failed``, and the others go on. With ``resume`` runs that are
    finished are left as they are, and others go on from their last checkpoint.
    """
    places = folders_of(spec, folder)
    _require_unlike(places.values())
    for name in trackers:
        tracker(name)  # Refused before anything is trained.
    made = {seed: prepared(spec, seed, source) for seed in spec.seeds[:1]}
    folder.mkdir(parents=True, exist_ok=True)
    if len(places) > 1:
        write_atomically(folder / SPEC, to_toml(made[spec.seeds[0]].spec).encode())
    for seed in spec.seeds:
        ready = made.pop(seed, None) or prepared(spec, seed, source)
        order = sorted(range(len(spec.methods)), key=lambda i: spec.methods[i].name != "local")
        local: Host | None = None
        for i in order:
            at = places[i, seed]
            if not (resume and is_run(at) and RunFolder(at).status["state"] == "finished"):
                run_one(ready, i, seed, at, local, resume=resume, trackers=trackers, told=told)
            if spec.methods[i].name == "local" and (lines := RunFolder(at).lines):
                local = lines[-1]["personal_score"]
    return [RunFolder(path) for path in places.values()]


def run_one(
    ready: Prepared, number: int, seed: int, folder: Path, local: Host | None = None, *,
    resume: bool = False, trackers: Sequence[str] = (), told: Told | None = None,
) -> None:  # fmt: skip
    """Train one method with one seed into a run folder."""
    spec = ready.spec.one(number, seed)
    algorithm, label = ready.methods[number], str(spec.methods[0].label)
    arguments = ready.arguments | {
        "objective": ready.arguments["objective"] and isinstance(algorithm, FedPlus)
    }
    references = _references(ready, spec, folder, local, resume)
    path = tuple(arguments["path"])
    task, size = ready.model.task, ready.federation.test.size
    writer = Writer(folder, spec, ready.federation, task, references, path)
    with _state_of(writer), tracking(trackers, folder, spec) as observers:

        def observe(evaluated: Evaluated) -> None:
            writer.observe(evaluated)
            _track(observers, line_of(evaluated, size, task.better, path))
            if told is not None:
                told(label, evaluated.round, float(evaluated.evaluation["personal_score"].mean()))

        run: Run = simulate(
            algorithm, ready.federation, ready.model, **arguments, seed=seed,
            checkpoint=folder / CHECKPOINT, resume=resume, observe=observe,
            progress=None if told is None else False,
        )  # fmt: skip
        writer.models(run)


def _track(observers: Sequence[Tracker], line: dict[str, Any]) -> None:
    for observer in observers:
        observer.observe(line)


@contextlib.contextmanager
def _state_of(writer: Writer) -> Iterator[None]:
    """Say in ``status.json`` how the run ended."""
    try:
        yield
    except DivergedError as error:
        writer.tell("failed", str(error))
    except KeyboardInterrupt as stop:
        writer.tell("stopped", "stopped by Ctrl-C")
        raise KeyboardInterrupt(f"Go on with: fedplus run --resume {writer.folder}") from stop
    except BaseException as error:
        with contextlib.suppress(OSError):
            writer.tell("failed", f"{type(error).__name__}: {error}")
        raise
    else:
        writer.tell("finished")


def _references(
    ready: Prepared, spec: Spec, folder: Path, local: Host | None, resume: bool
) -> dict[str, Host | None]:
    """Scores to compare with: each party on its own, and always the same answer."""
    if resume and (folder / PARTIES).exists():
        known = RunFolder(folder).parties
        return {"local": known["local"], "majority": known["majority"]}
    task = ready.model.task
    majority = constant_answer(ready.federation, task)
    if local is None and spec.reference.local and spec.methods[0].name != "local":
        keep = {"path": (), "objective": False, "evaluate_every": spec.train.rounds, "faults": ()}
        alone = simulate(
            presets.local_sgd(eta=spec.reference.eta or 0.0), ready.federation, ready.model,
            **{k: v for k, v in ready.arguments.items() if k != "checkpoint_every"} | keep,
            seed=spec.seeds[0], progress=False,
        )  # fmt: skip
        local = alone.evaluations["personal_score"][-1]
    return {"local": local, "majority": majority}


def _require_unlike(folders: Any) -> None:
    paths = list(folders)
    if len(set(paths)) < len(paths):
        raise SettingError(
            "methods must have different labels, got two of the same. Give each its label, "
            'e.g. label = "FedAvg+ δ=0.1".'
        )
