"""Train specifications into run folders, several at a time. Runs that have ended are not repeated."""

import shutil
import tomllib
import warnings
from collections.abc import Mapping
from pathlib import Path

from papers.fed_plus.jobs import Job, run_jobs
from papers.fed_plus.study import StudyOptions

from fedplus.check import SettingError
from fedplus.experiments.run_folder import CHECKPOINT, MODELS, SPEC, RunFolder, is_run
from fedplus.experiments.runner import run_all, run_paths, slug
from fedplus.experiments.spec import Spec, parse_spec, to_toml
from fedplus.experiments.toml_source import TomlSource
from fedplus.files import make_folder, write_atomically
from fedplus.kappa import KappaWarning

ENDED = ("finished", "failed")


def train_specs(
    options: StudyOptions, specs: Mapping[str, Spec], *, slim: bool = False
) -> dict[str, list[RunFolder]]:
    """Train each specification into the folder of its name, with one job per seed.

    Args:
        options: The study's folder, number of processes and device.
        specs: Folder name ↦ specification.
        slim: For large models: one job per run, and the parties' models are deleted when it ends.

    Returns:
        Folder name ↦ the runs that have ended.
    """
    jobs = []
    for name, spec in specs.items():
        folder = options.folder / name
        make_folder(folder)
        for position, seed in enumerate(spec.seeds):
            of_seed = _with_seed(spec, seed)
            make_jobs = _job_for_each_run if slim else _job_for_all_methods
            jobs += [(position, job) for job in make_jobs(name, of_seed, folder)]
    jobs.sort(key=lambda item: item[0])  # The first seed of every specification comes first.
    run_jobs(options, [job for _, job in jobs])
    for name, spec in specs.items():  # Each job wrote only its own seed; this one has all.
        write_atomically(options.folder / name / SPEC, to_toml(spec).encode())
    return {name: ended_runs(spec, options.folder / name) for name, spec in specs.items()}


def _job_for_all_methods(name: str, spec: Spec, folder: Path) -> list[Job]:
    """Return one job for all methods, which loads the data once; none if all runs have ended."""
    paths = run_folder_paths(spec, folder)
    if all(_is_ended(spec.for_run(i, seed), path) for (i, seed), path in paths.items()):
        return []
    return [Job(f"{name}, seed {spec.seeds[0]}", _train, (str(folder), to_toml(spec)))]


def _job_for_each_run(name: str, spec: Spec, folder: Path) -> list[Job]:
    """Return one job for each run that has not ended."""
    return [
        Job(
            f"{name}, {spec.methods[i].label}, seed {seed}",
            _train_without_models,
            (str(folder), to_toml(spec.for_run(i, seed))),
        )
        for (i, seed), path in run_folder_paths(spec, folder).items()
        if not _is_ended(spec.for_run(i, seed), path)
    ]


def run_folder_paths(spec: Spec, folder: Path) -> dict[tuple[int, int], Path]:
    """Return the path of each run, by the method's index and the seed: always a subfolder."""
    if len(spec.methods) > 1:
        return run_paths(spec, folder)
    name = slug(str(spec.methods[0].label))
    return {(0, seed): folder / f"{name}-{seed}" for seed in spec.seeds}


def ended_runs(spec: Spec, folder: Path) -> list[RunFolder]:
    """Return the runs of a specification that have finished or failed."""
    runs = [RunFolder(path) for path in run_folder_paths(spec, folder).values() if is_run(path)]
    return [run for run in runs if run.status["state"] in ENDED]


def _train(folder: str, toml: str) -> list[RunFolder]:
    """Train all methods of a specification with its only seed."""
    spec = parse_spec(tomllib.loads(toml), TomlSource())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KappaWarning)  # The paper's own settings are outside (D8).
        (seed,) = spec.seeds
        is_single = len(spec.methods) == 1  # Then run_all writes into the given folder itself.
        path = run_folder_paths(spec, Path(folder))[0, seed] if is_single else Path(folder)
        return run_all(spec, path, resume=True, on_progress=lambda label, round_, score: None)


def _train_without_models(folder: str, toml: str) -> None:
    """Train, then delete the parties' models and the checkpoint, which contains them."""
    for run in _train(folder, toml):
        for subfolder in (CHECKPOINT, MODELS):
            shutil.rmtree(run.path / subfolder, ignore_errors=True)


def _with_seed(spec: Spec, seed: int) -> Spec:
    return spec.model_copy(update={"seeds": [seed]})


def _is_ended(spec: Spec, path: Path) -> bool:
    """Return whether the run has ended; reject a folder that holds a run with other settings."""
    if not is_run(path):
        return False
    run = RunFolder(path)
    if run.spec != tomllib.loads(to_toml(spec)):
        raise SettingError(
            f"{path} must be a run of the present specification, got one with other settings. "
            "Give another --out, or remove it."
        )
    return run.status["state"] in ENDED
