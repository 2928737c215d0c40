"""Train specifications into run folders, several at a time; what is finished is left alone."""

import shutil
import tomllib
import warnings
from collections.abc import Mapping
from pathlib import Path

from papers.fed_plus.jobs import Job, carry_out
from papers.fed_plus.study import Asked

from fedplus.check import SettingError
from fedplus.experiments.run_folder import CHECKPOINT, MODELS, SPEC, RunFolder, is_run
from fedplus.experiments.runner import run_all, run_paths, slug
from fedplus.experiments.spec import Spec, parse_spec, to_toml
from fedplus.experiments.toml_source import TomlSource
from fedplus.files import make_folder, write_atomically
from fedplus.kappa import KappaWarning

ENDED = ("finished", "failed")


def trained(
    asked: Asked, specs: Mapping[str, Spec], *, slim: bool = False
) -> dict[str, list[RunFolder]]:
    """Train each specification into the folder of its name, a job for each of its seeds.

    ``slim``, for large models: a job for each run, which keeps no party's model.
    """
    jobs = []
    for name, spec in specs.items():
        make_folder(asked.folder / name)
        for place, seed in enumerate(spec.seeds):
            of_seed = (_runs if slim else _seed)(name, _of(spec, seed), asked.folder / name)
            jobs += [(place, job) for job in of_seed]
    jobs.sort(key=lambda one: one[0])  # Everything with one seed comes first.
    carry_out(asked, [job for _, job in jobs])
    for name, spec in specs.items():  # All seeds: each job wrote its own.
        write_atomically(asked.folder / name / SPEC, to_toml(spec).encode())
    return {name: runs_of(spec, asked.folder / name) for name, spec in specs.items()}


def _seed(name: str, spec: Spec, folder: Path) -> list[Job]:
    """One job for all methods, which reads the data once; none where all runs are finished."""
    states = [_finished(spec.one(i, seed), at) for (i, seed), at in places(spec, folder).items()]
    told = f"{name}, seed {spec.seeds[0]}"
    return [] if all(states) else [Job(told, _train, (str(folder), to_toml(spec)))]


def _runs(name: str, spec: Spec, folder: Path) -> list[Job]:
    """A job for each run that is not finished."""
    return [
        Job(f"{name}, {spec.methods[i].label}, seed {seed}", _train_slim,
            (str(folder), to_toml(spec.one(i, seed))))
        for (i, seed), at in places(spec, folder).items()
        if not _finished(spec.one(i, seed), at)
    ]  # fmt: skip


def places(spec: Spec, folder: Path) -> dict[tuple[int, int], Path]:
    """Where the run of each method (by number) and seed goes: always a folder below this one."""
    if len(spec.methods) > 1:
        return run_paths(spec, folder)
    name = slug(str(spec.methods[0].label))
    return {(0, seed): folder / f"{name}-{seed}" for seed in spec.seeds}


def runs_of(spec: Spec, folder: Path) -> list[RunFolder]:
    """The runs of a specification that have come to their end."""
    there = [RunFolder(at) for at in places(spec, folder).values() if is_run(at)]
    return [run for run in there if run.status["state"] in ENDED]


def _train(folder: str, toml: str) -> list[RunFolder]:
    """All methods with the one seed."""
    spec = parse_spec(tomllib.loads(toml), TomlSource())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KappaWarning)  # The paper's own settings are outside (D8).
        (seed,) = spec.seeds
        alone = len(spec.methods) == 1  # Then the folder that is given is the run's own.
        place = places(spec, Path(folder))[0, seed] if alone else Path(folder)
        return run_all(spec, place, resume=True, on_progress=lambda label, round_, score: None)


def _train_slim(folder: str, toml: str) -> None:
    """Train, and keep no party's model, nor a checkpoint, which has them all."""
    for run in _train(folder, toml):
        for large in (CHECKPOINT, MODELS):
            shutil.rmtree(run.path / large, ignore_errors=True)


def _of(spec: Spec, seed: int) -> Spec:
    return spec.model_copy(update={"seeds": [seed]})


def _finished(spec: Spec, at: Path) -> bool:
    """Whether this run is; refused if there is another in its place."""
    if not is_run(at):
        return False
    run = RunFolder(at)
    if run.spec != tomllib.loads(to_toml(spec)):
        raise SettingError(
            f"{at} must be a run of what is asked for now, got one with other settings. "
            "Give another --out, or remove it."
        )
    return run.status["state"] in ENDED
