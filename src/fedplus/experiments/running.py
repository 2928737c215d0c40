"""From a specification to run folders."""

import contextlib
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedplus import presets
from fedplus._check import SettingError
from fedplus._checkpoint import rounds_saved
from fedplus._types import Host
from fedplus._write import make_folder, write_atomically
from fedplus.algorithm import AbstractAlgorithm, FedPlus
from fedplus.data.federation import Federation
from fedplus.experiments.build import arguments_of, federation_of, method_of, model_of, natural
from fedplus.experiments.compiled import make_room
from fedplus.experiments.folder import CHECKPOINT, PARTIES, SPEC, RunFolder, is_run
from fedplus.experiments.lock import held
from fedplus.experiments.source import Source
from fedplus.experiments.spec import Spec, to_toml
from fedplus.experiments.trackers import tracker, tracking
from fedplus.experiments.written import Writer
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
    spec: Spec, folder: Path, source: Source = Source(), *, resume: bool = False,  # noqa: B008
    trackers: Sequence[str] = (), told: Told | None = None,
) -> list[RunFolder]:  # fmt: skip
    """Train every method with every seed, each into its run folder.

    A run that diverges is kept as ``failed``, and the others go on. With ``resume`` runs that are
    finished are left as they are, and others go on from their last checkpoint.
    """
    _require_unlike(spec, source)
    for name in trackers:
        tracker(name)  # Refused before anything is trained.
    places = folders_of(spec, folder)
    ready: Prepared | None = prepared(spec, spec.seeds[0], source)
    make_folder(folder)
    if len(places) > 1:
        assert ready is not None
        write_atomically(folder / SPEC, to_toml(ready.spec).encode())
    for seed in spec.seeds:
        ready = ready or prepared(spec, seed, source)
        order = sorted(range(len(spec.methods)), key=lambda i: spec.methods[i].name != "local")
        local: Host | None = None
        for i in order:
            at = places[i, seed]
            if not (resume and is_run(at) and RunFolder(at).status["state"] == "finished"):
                run_one(ready, i, seed, at, local, resume=resume, trackers=trackers, told=told)
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
    ready: Prepared, number: int, seed: int, folder: Path, local: Host | None = None, *,
    resume: bool = False, trackers: Sequence[str] = (), told: Told | None = None,
) -> None:  # fmt: skip
    """Train one method with one seed into a run folder."""
    make_room()
    spec = ready.spec.one(number, seed)
    algorithm, label = ready.methods[number], str(spec.methods[0].label)
    make_folder(folder)
    with held(folder):
        done = rounds_saved(folder / CHECKPOINT) if resume else 0
        known = _earlier(folder) if done else None
        writer = Writer(folder, spec, ready.federation, ready.model.task, done)
        with _state_of(writer), tracking(trackers, folder, spec) as observers:
            references = known or _references(ready, spec, local, told)
            writer.parties(references)

            def observe(evaluated: Evaluated) -> None:
                line = writer.observe(evaluated)
                for observer in observers:
                    observer.observe(line)
                if told is not None:
                    told(
                        label, evaluated.round, float(evaluated.evaluation["personal_score"].mean())
                    )

            run: Run = simulate(
                algorithm, ready.federation, ready.model, **_recording(ready, algorithm), seed=seed,
                checkpoint=folder / CHECKPOINT, resume=resume, observe=observe,
                progress=label if told is None else False,
            )  # fmt: skip
            writer.models(run)
            writer.finish(run, references["majority"])


def _recording(ready: Prepared, algorithm: AbstractAlgorithm[Any]) -> dict[str, Any]:
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
    ready: Prepared, spec: Spec, local: Host | None, told: Told | None
) -> dict[str, Host | None]:
    """Scores to compare with: each party on its own, and always the same answer."""
    majority = constant_answer(ready.federation, ready.model.task)
    if local is None and spec.reference.local and spec.methods[0].name != "local":
        local = _alone(ready, spec, told)
    return {"local": local, "majority": majority}


def _earlier(folder: Path) -> dict[str, Host | None] | None:
    """The references that an earlier part of the run has found."""
    if not (folder / PARTIES).exists():
        return None
    known = RunFolder(folder).parties
    return {"local": known["local"], "majority": known["majority"]}


def _alone(ready: Prepared, spec: Spec, told: Told | None) -> Host | None:
    """(N,): what each party reaches on its own; None if that diverges."""
    eta = spec.reference.eta or 0.0
    apart = {"path": (), "objective": False, "evaluate_every": spec.train.rounds, "faults": ()}
    given = {k: v for k, v in ready.arguments.items() if k != "checkpoint_every"}
    try:
        alone = simulate(
            presets.local_sgd(eta=eta), ready.federation, ready.model, **given | apart,
            seed=spec.seeds[0], progress="each party alone" if told is None else False,
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


def _require_unlike(spec: Spec, source: Source) -> None:
    labels = [str(one.label) for one in spec.methods]
    twice = [i for i, label in enumerate(labels) if label in labels[:i]]
    if twice:
        raise SettingError(
            f"{source.where(('methods', twice[0]))}methods must have different labels, got "
            f'{labels[twice[0]]!r} twice. Give each its own, e.g. label = "FedAvg+ δ=0.1".'
        )
