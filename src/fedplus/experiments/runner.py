"""Trains the methods of an experiment, one run folder for each method and seed.

``run_all`` runs a whole experiment: every method with every seed. ``run_one`` trains one of them.

How a stopped run is resumed: while a run trains, ``simulate`` saves checkpoints in its run folder.
``fedplus run --resume FOLDER`` reads ``FOLDER/spec.toml`` and calls ``run_all(..., resume=True)``.
That skips runs whose ``status.json`` says "finished". For every other run, ``run_one`` continues from
the latest checkpoint: it removes the lines of ``rounds.jsonl`` after that checkpoint, reads the
reference scores from ``parties.json``, and trains the remaining rounds. The result is the same, bit by
bit, as that of an uninterrupted run. ``fedplus run --resume FOLDER --rounds T`` extends a finished run
in the same way, and trains the references anew, with as many rounds.
"""

import contextlib
import math
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedplus import presets
from fedplus._checkpoint_file import latest_round
from fedplus._types import NumpyArray
from fedplus.algorithm import AbstractAlgorithm, FedPlus
from fedplus.check import SettingError
from fedplus.data.federation import Federation
from fedplus.experiments.build import (
    build_federation,
    build_method,
    make_model,
    model_arguments,
    require_known_model,
    simulate_arguments,
)
from fedplus.experiments.compilation_cache import limit_compiled_programs
from fedplus.experiments.lock import folder_lock
from fedplus.experiments.model_file import ModelFile, write_model_file
from fedplus.experiments.new_parties import hold_out, join_new_parties
from fedplus.experiments.party_metrics import choose_metrics, party_metrics
from fedplus.experiments.run_folder import CHECKPOINT, PARTIES, SPEC, RunFolder, is_run
from fedplus.experiments.spec import Spec, to_toml
from fedplus.experiments.toml_source import TomlSource
from fedplus.experiments.trackers import lookup_tracker, run_trackers
from fedplus.experiments.writer import RunWriter
from fedplus.files import make_folder, write_atomically
from fedplus.models import Model
from fedplus.schedules import at_round, constant_from
from fedplus.simulation import DivergedError, Run, simulate
from fedplus.simulation.divergence import DivergenceWarning
from fedplus.simulation.evaluate import constant_answer_scores
from fedplus.simulation.recorder import NewEvaluation
from fedplus.simulation.setup import set_up
from fedplus.simulation.validate import require_fit

Progress = Callable[[str, int, float], None]
"""Callback ``(label, rounds done by this run, mean score)``, for a progress bar over several runs."""


class PreparedRun(NamedTuple):
    """The checked data, model and methods of an experiment for one seed, before training."""

    spec: Spec
    federation: Federation
    """The parties that train."""
    new_parties: Federation | None
    """The parties that are held out and join after the training."""
    model: Model
    model_file: ModelFile
    """Model, classes and preprocessing, for predictions."""
    methods: list[AbstractAlgorithm[Any]]
    arguments: dict[str, Any]
    """Keyword arguments of ``simulate``."""


def prepare(spec: Spec, seed: int, source: TomlSource = TomlSource()) -> PreparedRun:  # noqa: B008
    """Build the data, the model and all methods of an experiment, and check that they fit together.

    Nothing is trained or written.

    Args:
        spec: The experiment, with its defaults filled in.
        seed: Seed of the run; it also seeds the data unless the specification gives ``data.seed``.
        source: The TOML file that the specification comes from, for error messages.

    Returns:
        The prepared run. In its specification, the model "auto" is replaced by the chosen model.

    Raises:
        SettingError: A setting is not valid. The message names the file and the line.
    """
    require_known_model(spec.model, source)
    data = spec.for_run(0, seed).data
    federation = build_federation(data, source)
    name, model_settings = model_arguments(spec.model, federation, source)
    with source.locate_errors("model"):
        model = make_model(name, model_settings)
    with source.locate_errors("evaluation"):
        choose_metrics(spec.evaluation.metrics, model.task)
    new_parties = None
    if spec.new_parties is not None:
        federation, new_parties = hold_out(spec, federation, seed, source)
        require_fit(new_parties, model)
    methods = [build_method(method, model, source, i) for i, method in enumerate(spec.methods)]
    arguments = simulate_arguments(spec, source)
    not_checked = ("evaluate_every", "path", "objective", "checkpoint_every")
    checked = {name: value for name, value in arguments.items() if name not in not_checked}
    for i, algorithm in enumerate(methods):
        label = spec.methods[i].label if len(methods) > 1 else None
        with source.locate_errors("train"), _name_method_in_errors(label):
            set_up([algorithm], federation, model, seeds=[seed], **checked)
    spec = spec.model_copy(update={"model": spec.model.model_copy(update={"name": name})})
    info = federation.info
    model_file = ModelFile(
        name, model_settings, federation.train.x.shape[1:], info.classes, info.preprocessing
    )
    return PreparedRun(spec, federation, new_parties, model, model_file, methods, arguments)


@contextlib.contextmanager
def _name_method_in_errors(label: str | None) -> Iterator[None]:
    try:
        yield
    except SettingError as error:
        raise SettingError(f"{error} (with {label})" if label else str(error)) from error


def run_paths(spec: Spec, folder: Path) -> dict[tuple[int, int], Path]:
    """Return the run folder of each (index of the method, seed).

    An experiment with one method and one seed is one run and uses ``folder`` itself. Otherwise each
    run gets a sub-folder ``LABEL-SEED``; ``slug`` makes the label suitable for a file name.
    """
    if len(spec.methods) == len(spec.seeds) == 1:
        return {(0, spec.seeds[0]): folder}
    names: list[str] = []
    for method in spec.methods:
        name = slug(str(method.label))
        names.append(name if name not in names else f"{name}-{len(names)}")
    return {
        (i, seed): folder / f"{name}-{seed}" for seed in spec.seeds for i, name in enumerate(names)
    }


def slug(label: str) -> str:
    """Return a label in lower case, without characters that are unsuitable for a file name.

    >>> slug("FedAvg+ (δ = 0.1)")
    'fedavg+-δ-=-0.1'
    """
    return re.sub(r"[^\w+.=-]+", "-", label.lower()).strip("-.") or "run"


def run_all(
    spec: Spec, folder: Path, source: TomlSource = TomlSource(), *, resume: bool = False,  # noqa: B008
    trackers: Sequence[str] = (), on_progress: Progress | None = None,
) -> list[RunFolder]:  # fmt: skip
    """Train every method with every seed, each into its own run folder.

    A run that diverges gets the state "failed", and the other runs continue. For each seed, local
    training runs first, so that its scores serve as the reference for the other methods.

    Args:
        spec: The experiment, with its defaults filled in.
        folder: The folder for the results; see ``run_paths``.
        source: The TOML file that the specification comes from, for error messages.
        resume: Skip finished runs, and continue the others from their latest checkpoint.
        trackers: Names of trackers that follow each run, such as "tensorboard".
        on_progress: Called after each evaluation. By default each run shows its own progress bar.

    Returns:
        The run folders, seed by seed, methods in the order of the specification.

    Raises:
        SettingError: A setting is not valid, or another process uses a run folder.
    """
    _require_different_labels(spec, source)
    for name in trackers:
        lookup_tracker(name)  # An unknown tracker is an error before training begins.
    paths = run_paths(spec, folder)
    prepared: PreparedRun | None = prepare(spec, spec.seeds[0], source)
    make_folder(folder)
    if len(paths) > 1:
        assert prepared is not None
        write_atomically(folder / SPEC, to_toml(prepared.spec).encode())
    for seed in spec.seeds:
        prepared = prepared or prepare(spec, seed, source)
        local_first = sorted(
            range(len(spec.methods)), key=lambda i: spec.methods[i].name != "local"
        )
        local_scores: NumpyArray | None = None
        for i in local_first:
            path = paths[i, seed]
            if not (resume and _is_finished(path, spec)):
                run_one(
                    prepared,
                    i,
                    seed,
                    path,
                    local_scores,
                    resume=resume,
                    trackers=trackers,
                    on_progress=on_progress,
                )
            if local_scores is None:
                local_scores = _read_local_scores(RunFolder(path))
        prepared = None
    return [RunFolder(path) for path in paths.values()]


def _is_finished(path: Path, spec: Spec) -> bool:
    """Return whether a run folder has a finished run with all rounds of the specification."""
    status = RunFolder(path).status if is_run(path) else {}
    return status.get("state") == "finished" and status.get("rounds") == spec.train.rounds


def _read_local_scores(run: RunFolder) -> NumpyArray | None:
    """Return each party's score with local training, if this run folder has it."""
    if run.status["method"] != "local":
        reference: NumpyArray | None = run.parties["local"]
        return reference
    if run.status["state"] != "finished":
        return None
    final_scores: NumpyArray = run.lines[-1]["personal_score"]
    return final_scores


def run_one(
    prepared: PreparedRun, number: int, seed: int, folder: Path,
    local_scores: NumpyArray | None = None, *,
    resume: bool = False, trackers: Sequence[str] = (), on_progress: Progress | None = None,
) -> None:  # fmt: skip
    """Train one method with one seed into a run folder.

    Args:
        prepared: The data, the model and the methods.
        number: Index of the method.
        seed: Seed of the run.
        folder: The run folder.
        local_scores: Each party's score with local training, if known. Otherwise local training
            runs first, unless the specification turns it off.
        resume: Continue from the latest checkpoint in the folder, if there is one.
        trackers: Names of trackers that follow the run.
        on_progress: Called after each evaluation. By default the run shows a progress bar.

    Raises:
        SettingError: Another process uses the folder.
    """
    limit_compiled_programs()
    spec = prepared.spec.for_run(number, seed)
    algorithm, label = prepared.methods[number], str(spec.methods[0].label)
    make_folder(folder)
    with folder_lock(folder):
        rounds_done = latest_round(folder / CHECKPOINT) if resume else 0
        references = _read_references(folder, spec) if rounds_done else None
        writer = RunWriter(folder, spec, prepared.federation, prepared.model.task, rounds_done)
        with _record_failure(writer), run_trackers(trackers, folder, spec) as observers:
            references = references or _reference_scores(prepared, spec, local_scores, on_progress)
            writer.write_parties(references)
            write_model_file(folder, prepared.model_file)

            def observe(evaluated: NewEvaluation) -> None:
                line = writer.observe(evaluated)
                for observer in observers:
                    observer.observe(line)
                if on_progress is not None:
                    mean = float(evaluated.evaluation["personal_score"].mean())
                    on_progress(label, evaluated.round, mean)

            with warnings.catch_warnings():
                # The table and the report name the parties whose steps diverged.
                warnings.simplefilter("ignore", DivergenceWarning)
                run: Run = simulate(
                    algorithm, prepared.federation, prepared.model,
                    **_arguments(prepared, algorithm), seed=seed, checkpoint=folder / CHECKPOINT,
                    resume=resume, observe=observe,
                    progress=label if on_progress is None else False,
                )  # fmt: skip
            writer.write_models(run)
            metrics = party_metrics(run, prepared.spec.evaluation)
            if metrics is not None:
                writer.write_metrics(metrics)
            if prepared.new_parties is not None:
                writer.write_new_parties(join_new_parties(run, prepared.new_parties, spec))
            writer.finish(run, references, metrics)


def _arguments(prepared: PreparedRun, algorithm: AbstractAlgorithm[Any]) -> dict[str, Any]:
    """Return the arguments of ``simulate``; F_σ is recorded for methods whose λ ends at 0."""
    minimises_objective = False
    if isinstance(algorithm, FedPlus):
        last = constant_from(algorithm.local.lam)
        minimises_objective = last < math.inf and at_round(algorithm.local.lam, int(last)) == 0
    objective = prepared.arguments["objective"] and minimises_objective
    return prepared.arguments | {"objective": objective}


@contextlib.contextmanager
def _record_failure(writer: RunWriter) -> Iterator[None]:
    """Write to ``status.json`` why a run did not finish. A diverged run raises no further error."""
    try:
        yield
    except DivergedError as error:
        writer.write_status("failed", str(error))
    except KeyboardInterrupt:
        writer.write_status("stopped", "stopped by Ctrl-C")
        raise
    except BaseException as error:
        with contextlib.suppress(OSError):
            writer.write_status("failed", f"{type(error).__name__}: {error}")
        raise


def _reference_scores(
    prepared: PreparedRun, spec: Spec, local_scores: NumpyArray | None, on_progress: Progress | None
) -> dict[str, NumpyArray | None]:
    """Return each party's scores to compare with: local training, and a constant answer."""
    majority = constant_answer_scores(prepared.federation, prepared.model.task)
    if local_scores is None and spec.reference.local and spec.methods[0].name != "local":
        local_scores = _train_locally(prepared, spec, on_progress)
    return {"local": local_scores, "majority": majority}


def _read_references(folder: Path, spec: Spec) -> dict[str, NumpyArray | None] | None:
    """Return the reference scores that the run wrote before it was stopped, if there are any.

    Those of a run with fewer rounds do not count.
    """
    if not (folder / PARTIES).exists():
        return None
    parties = RunFolder(folder).parties
    if parties.get("rounds", spec.train.rounds) != spec.train.rounds:
        return None
    return {"local": parties["local"], "majority": parties["majority"]}


def _train_locally(
    prepared: PreparedRun, spec: Spec, on_progress: Progress | None
) -> NumpyArray | None:
    """Train each party alone; return the (N,) scores, or None if that diverges."""
    eta = spec.reference.eta or 0.0
    overrides = {
        "path": (), "objective": False, "evaluate_every": spec.train.rounds, "faults": (),
    }  # fmt: skip
    arguments = {k: v for k, v in prepared.arguments.items() if k != "checkpoint_every"}
    try:
        run = simulate(
            presets.local_sgd(eta=eta), prepared.federation, prepared.model,
            **arguments | overrides, seed=spec.seeds[0],
            progress="local SGD" if on_progress is None else False,
        )  # fmt: skip
    except DivergedError:
        warnings.warn(
            f"Local SGD, which trains each party alone, diverges with eta = {eta:g}, so the report has "
            "no scores of it. Set reference.eta lower.",
            stacklevel=2,
        )
        return None
    scores: NumpyArray = run.evaluations["personal_score"][-1]
    return scores


def _require_different_labels(spec: Spec, source: TomlSource) -> None:
    labels = [str(method.label) for method in spec.methods]
    repeated = [i for i, label in enumerate(labels) if label in labels[:i]]
    if repeated:
        raise SettingError(
            f"{source.location(('methods', repeated[0]))}methods must have different labels, got "
            f'{labels[repeated[0]]!r} twice. Give each its own, e.g. label = "FedAvg+ δ=0.1".'
        )
