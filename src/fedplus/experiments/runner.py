"""From a specification to run folders."""

import contextlib
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedplus import presets
from fedplus._checkpoint import latest_round
from fedplus._types import Host
from fedplus.algorithm import AbstractAlgorithm, FedPlus
from fedplus.check import SettingError
from fedplus.data.federation import Federation
from fedplus.experiments.build import (
    build_federation,
    build_method,
    build_model,
    default_model,
    simulate_arguments,
)
from fedplus.experiments.compilation_cache import limit_compiled_programs
from fedplus.experiments.lock import locked
from fedplus.experiments.run_folder import CHECKPOINT, PARTIES, SPEC, RunFolder, is_run
from fedplus.experiments.spec import Spec, to_toml
from fedplus.experiments.toml_source import TomlSource
from fedplus.experiments.trackers import make_tracker, track
from fedplus.experiments.writer import Writer
from fedplus.files import make_folder, write_atomically
from fedplus.models import Model
from fedplus.simulation import DivergedError, Run, simulate
from fedplus.simulation.evaluate import constant_answer
from fedplus.simulation.recorder import NewEvaluation
from fedplus.simulation.setup import set_up

Progress = Callable[[str, int, float], None]
"""(label, rounds done by this run, mean score): for a progress bar over several runs."""


class PreparedRun(NamedTuple):
    """All of an experiment with one seed, built and checked; nothing is trained or written yet."""

    spec: Spec
    federation: Federation
    model: Model
    methods: list[AbstractAlgorithm[Any]]
    arguments: dict[str, Any]


def prepare(spec: Spec, seed: int, source: TomlSource = TomlSource()) -> PreparedRun:  # noqa: B008
    """Build and check.

    Raises:
        SettingError: Something does not fit, and where in the file it is.
    """
    federation = build_federation(spec.one(0, seed).data, source)
    model = build_model(spec.model, federation, source)
    methods = [build_method(one, model, source, i) for i, one in enumerate(spec.methods)]
    arguments = simulate_arguments(spec, source)
    ignored = ("evaluate_every", "path", "objective", "checkpoint_every")
    shaping = {name: value for name, value in arguments.items() if name not in ignored}
    for i, algorithm in enumerate(methods):
        with source.at("train"), _about(spec.methods[i].label if len(methods) > 1 else None):
            set_up([algorithm], federation, model, seeds=[seed], **shaping)
    name = default_model(federation) if spec.model.name == "auto" else spec.model.name
    spec = spec.model_copy(update={"model": spec.model.model_copy(update={"name": name})})
    return PreparedRun(spec, federation, model, methods, arguments)


@contextlib.contextmanager
def _about(label: str | None) -> Iterator[None]:
    try:
        yield
    except SettingError as error:
        raise SettingError(f"{error} (with {label})" if label else str(error)) from error


def run_paths(spec: Spec, folder: Path) -> dict[tuple[int, int], Path]:
    """Where the run of each method (by number) and seed goes."""
    if len(spec.methods) == len(spec.seeds) == 1:
        return {(0, spec.seeds[0]): folder}
    names: list[str] = []
    for one in spec.methods:
        name = slug(str(one.label))
        names.append(name if name not in names else f"{name}-{len(names)}")
    return {
        (i, seed): folder / f"{name}-{seed}" for seed in spec.seeds for i, name in enumerate(names)
    }


def slug(label: str) -> str:
    """A label as a part of a file's name."""
    return re.sub(r"[^\w+.=-]+", "-", label.lower()).strip("-.") or "run"


def run_all(
    spec: Spec, folder: Path, source: TomlSource = TomlSource(), *, resume: bool = False,  # noqa: B008
    trackers: Sequence[str] = (), on_progress: Progress | None = None,
) -> list[RunFolder]:  # fmt: skip
    """Train every method with every seed, each into its run folder.

    A run that diverges is kept as ``failed``, and the others go on. With ``resume`` runs that are
    finished are left as they are, and others go on from their last checkpoint.
    """
    _require_unlike(spec, source)
    for name in trackers:
        make_tracker(name)  # Refused before anything is trained.
    places = run_paths(spec, folder)
    ready: PreparedRun | None = prepare(spec, spec.seeds[0], source)
    make_folder(folder)
    if len(places) > 1:
        assert ready is not None
        write_atomically(folder / SPEC, to_toml(ready.spec).encode())
    for seed in spec.seeds:
        ready = ready or prepare(spec, seed, source)
        order = sorted(range(len(spec.methods)), key=lambda i: spec.methods[i].name != "local")
        local: Host | None = None
        for i in order:
            at = places[i, seed]
            if not (resume and is_run(at) and RunFolder(at).status["state"] == "finished"):
                run_one(
                    ready,
                    i,
                    seed,
                    at,
                    local,
                    resume=resume,
                    trackers=trackers,
                    on_progress=on_progress,
                )
            local = _known_local(RunFolder(at)) if local is None else local
        ready = None
    return [RunFolder(path) for path in places.values()]


def _known_local(run: RunFolder) -> Host | None:
    """What each party reaches on its own, from the run of it or from a run that has it beside."""
    if run.status["method"] != "local":
        beside: Host | None = run.parties["local"]
        return beside
    if run.status["state"] != "finished":
        return None
    found: Host = run.lines[-1]["personal_score"]
    return found


def run_one(
    ready: PreparedRun, number: int, seed: int, folder: Path, local: Host | None = None, *,
    resume: bool = False, trackers: Sequence[str] = (), on_progress: Progress | None = None,
) -> None:  # fmt: skip
    """Train one method with one seed into a run folder."""
    limit_compiled_programs()
    spec = ready.spec.one(number, seed)
    algorithm, label = ready.methods[number], str(spec.methods[0].label)
    make_folder(folder)
    with locked(folder):
        done = latest_round(folder / CHECKPOINT) if resume else 0
        known = _earlier(folder) if done else None
        writer = Writer(folder, spec, ready.federation, ready.model.task, done)
        with _state_of(writer), track(trackers, folder, spec) as observers:
            references = known or _references(ready, spec, local, on_progress)
            writer.parties(references)

            def observe(evaluated: NewEvaluation) -> None:
                line = writer.observe(evaluated)
                for observer in observers:
                    observer.observe(line)
                if on_progress is not None:
                    on_progress(
                        label, evaluated.round, float(evaluated.evaluation["personal_score"].mean())
                    )

            run: Run = simulate(
                algorithm, ready.federation, ready.model, **_recording(ready, algorithm), seed=seed,
                checkpoint=folder / CHECKPOINT, resume=resume, observe=observe,
                progress=label if on_progress is None else False,
            )  # fmt: skip
            writer.models(run)
            writer.finish(run, references["majority"])


def _recording(ready: PreparedRun, algorithm: AbstractAlgorithm[Any]) -> dict[str, Any]:
    """The arguments; F_σ is recorded for the methods that minimise it, those with λ = 0."""
    personal = isinstance(algorithm, FedPlus) and algorithm.local.lam == 0
    return ready.arguments | {"objective": ready.arguments["objective"] and personal}


@contextlib.contextmanager
def _state_of(writer: Writer) -> Iterator[None]:
    """Say in ``status.json`` why a run did not end as it should."""
    try:
        yield
    except DivergedError as error:
        writer.tell("failed", str(error))
    except KeyboardInterrupt:
        writer.tell("stopped", "stopped by Ctrl-C")
        raise
    except BaseException as error:
        with contextlib.suppress(OSError):
            writer.tell("failed", f"{type(error).__name__}: {error}")
        raise


def _references(
    ready: PreparedRun, spec: Spec, local: Host | None, on_progress: Progress | None
) -> dict[str, Host | None]:
    """Scores to compare with: each party on its own, and always the same answer."""
    majority = constant_answer(ready.federation, ready.model.task)
    if local is None and spec.reference.local and spec.methods[0].name != "local":
        local = _alone(ready, spec, on_progress)
    return {"local": local, "majority": majority}


def _earlier(folder: Path) -> dict[str, Host | None] | None:
    """The references that an earlier part of the run has found."""
    if not (folder / PARTIES).exists():
        return None
    known = RunFolder(folder).parties
    return {"local": known["local"], "majority": known["majority"]}


def _alone(ready: PreparedRun, spec: Spec, on_progress: Progress | None) -> Host | None:
    """(N,): what each party reaches on its own; None if that diverges."""
    eta = spec.reference.eta or 0.0
    apart = {"path": (), "objective": False, "evaluate_every": spec.train.rounds, "faults": ()}
    given = {k: v for k, v in ready.arguments.items() if k != "checkpoint_every"}
    try:
        alone = simulate(
            presets.local_sgd(eta=eta), ready.federation, ready.model, **given | apart,
            seed=spec.seeds[0], progress="each party alone" if on_progress is None else False,
        )  # fmt: skip
    except DivergedError:
        warnings.warn(
            f"Each party alone diverges with eta = {eta:g}, so there is nothing to compare with. "
            "Set reference.eta lower.",
            stacklevel=2,
        )
        return None
    found: Host = alone.evaluations["personal_score"][-1]
    return found


def _require_unlike(spec: Spec, source: TomlSource) -> None:
    labels = [str(one.label) for one in spec.methods]
    twice = [i for i, label in enumerate(labels) if label in labels[:i]]
    if twice:
        raise SettingError(
            f"{source.where(('methods', twice[0]))}methods must have different labels, got "
            f'{labels[twice[0]]!r} twice. Give each its own, e.g. label = "FedAvg+ δ=0.1".'
        )
