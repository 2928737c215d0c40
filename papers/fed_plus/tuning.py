"""Tuning: the same budget of candidates and rounds for every method, scored on validation samples."""

import inspect
import json
import tomllib
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from papers.fed_plus.grids import (
    TABLE2_RULES,
    candidate_count,
    load_rules,
    method_grid,
    method_key,
    split_seeds,
    tuning_rounds,
)
from papers.fed_plus.jobs import Job, run_jobs
from papers.fed_plus.results import read_json
from papers.fed_plus.study import StudyOptions
from papers.fed_plus.training import train_specs

from fedplus.algorithm import AbstractAlgorithm
from fedplus.check import require
from fedplus.experiments.build import (
    build_federation,
    build_method,
    build_model,
    simulate_arguments,
)
from fedplus.experiments.run_folder_files import write_json
from fedplus.experiments.spec import Method, Spec, parse_spec, to_toml
from fedplus.experiments.toml_source import TomlSource
from fedplus.kappa import KappaWarning
from fedplus.methods import lookup_method
from fedplus.models import Model
from fedplus.simulation.tune import is_at_edge

FOLDER = "tuning"
QUICK_CANDIDATES = 2
"""Number of candidates per method in a quick trial."""


def tune_methods(
    options: StudyOptions, specs: Mapping[str, Spec], rules_name: str = TABLE2_RULES
) -> None:
    """Choose settings for every method of every specification that has not been tuned yet.

    Args:
        options: Options of the study.
        specs: Specifications by name.
        rules_name: File of grids and budgets, without ``.toml``.

    Raises:
        SettingError: If earlier results were chosen from another grid, or all candidates diverged.
    """
    parts: dict[Path, list[Path]] = {}
    jobs = []
    for name, spec in specs.items():
        toml = to_toml(spec)
        for index, method in enumerate(spec.methods):
            path, key = _result_path(options, name, method), method_key(method)
            if path.exists():
                _require_current_grid(path, method_grid(key, method.settings, rules_name))
                continue
            for split in split_seeds(rules_name, options.quick):
                part = path.parent / f"split-{split}" / path.name
                parts.setdefault(path, []).append(part)
                if not part.exists():
                    arguments = (str(part), toml, index, rules_name, options.quick, split)
                    jobs.append(Job(f"tune {name}, {key}, split {split}", _tune, arguments))
    run_jobs(options, jobs)
    for path, parts_of_path in parts.items():
        write_json(path, merge_splits([read_json(part) for part in parts_of_path]))


def _require_current_grid(path: Path, grid: Mapping[str, list[Any]]) -> None:
    """Reject results whose candidates are not in the present grid."""
    for trial in read_json(path)["trials"]:
        is_in_grid = trial["settings"].keys() == grid.keys() and all(
            value in grid[name] for name, value in trial["settings"].items()
        )
        require(
            is_in_grid, str(path), f"one with {trial['settings']}", "chosen from the present grid",
            "Give another --out, or remove it.",
        )  # fmt: skip


def merge_splits(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge one method's trials on several splits and choose the candidate with the best mean.

    A candidate that diverged on any split is not chosen.

    >>> on = lambda *scores: {"rounds": 5, "better": "higher", "trials": [
    ...     {"settings": {"eta": eta}, "mean": mean} for eta, mean in zip((0.1, 1.0), scores)]}
    >>> merge_splits([on(0.5, 0.9), on(0.5, None)])["settings"]
    {'eta': 0.1}
    """
    means_by_settings: dict[str, list[float | None]] = {}
    for part in parts:
        for trial in part["trials"]:
            key = json.dumps(trial["settings"])  # Keep the order: the first match wins.
            means_by_settings.setdefault(key, []).append(trial["mean"])
    trials = [
        {"settings": json.loads(key), "mean": _finite_mean(means)}
        for key, means in means_by_settings.items()
    ]
    sign = 1.0 if parts[0]["better"] == "lower" else -1.0
    trials.sort(key=lambda trial: (trial["mean"] is None, sign * (trial["mean"] or 0.0)))
    best = trials[0]
    require(
        best["mean"] is not None, "grid", f"{len(trials)} candidates that all diverged",
        "settings of which one trains",
    )  # fmt: skip
    edge = [
        name
        for name, value in best["settings"].items()
        if is_at_edge(value, [trial["settings"][name] for trial in trials])
    ]
    return {
        "settings": best["settings"], "score": best["mean"], "at_edge": edge,
        "rounds": parts[0]["rounds"], "splits": len(parts), "trials": trials,
    }  # fmt: skip


def _finite_mean(scores: Sequence[float | None]) -> float | None:
    """Return the mean, or None if any score is missing or not finite."""
    finite = [score for score in scores if score is not None and np.isfinite(score)]
    return float(np.mean(finite)) if len(finite) == len(scores) else None


def chosen_settings(options: StudyOptions, name: str) -> dict[str, dict[str, Any]]:
    """Return the chosen settings of each tuned method of a specification, by the method's key."""
    folder = options.folder / FOLDER / name
    return {path.stem: read_json(path)["settings"] for path in sorted(folder.glob("*.json"))}


def with_chosen_settings(
    spec: Spec, chosen: Mapping[str, Mapping[str, Any]], rules_name: str = TABLE2_RULES
) -> Spec:
    """Return the specification with the chosen settings, and without methods that have none."""
    methods = [
        Method.model_validate(
            {**method.model_dump(exclude_none=True), **chosen[method_key(method)]}
        )
        for method in spec.methods
        if method_key(method) in chosen
    ]
    title = spec.title.replace("stated settings", "tuned on validation samples")
    rounds = tuning_rounds(spec, rules_name)
    train = spec.train.model_copy(update={"rounds": rounds, "evaluate_every": max(1, rounds // 10)})
    return spec.model_copy(update={"methods": methods, "title": title, "train": train})


def specs_with_chosen_settings(
    options: StudyOptions, specs: Mapping[str, Spec], rules_name: str = TABLE2_RULES
) -> dict[str, Spec]:
    """Return the specifications that have a tuned method, with the chosen settings, by name."""
    chosen = {name: chosen_settings(options, name) for name in specs}
    return {
        name: with_chosen_settings(spec, chosen[name], rules_name)
        for name, spec in specs.items()
        if any(method_key(method) in chosen[name] for method in spec.methods)
    }


def tune_and_train(options: StudyOptions, specs: Mapping[str, Spec], rules_name: str) -> None:
    """Tune every method, then train with the chosen settings."""
    tune_methods(options, specs, rules_name)
    train_specs(options, specs_with_chosen_settings(options, specs, rules_name))


def all_trials(options: StudyOptions, specs: Mapping[str, Spec]) -> dict[str, Any]:
    """Return the tuning results, with all trials, by specification and method."""
    return {
        name: {
            method_key(method): read_json(_result_path(options, name, method))
            for method in spec.methods
            if _result_path(options, name, method).exists()
        }
        for name, spec in specs.items()
    }


def _result_path(options: StudyOptions, name: str, method: Method) -> Path:
    return options.folder / FOLDER / name / f"{method_key(method)}.json"


class _MethodFactory:
    """Builds a method from settings in a specification's format.

    ``tune`` reads the names of the settings from its signature.
    """

    def __init__(self, method: Method, model: Model) -> None:
        self.method, self.model = method, model
        kind = inspect.Parameter.KEYWORD_ONLY
        self.__signature__ = inspect.Signature([
            inspect.Parameter(name, kind, default=default)
            for name, default in lookup_method(method.name).settings.items()
            if name != "layout"
        ])  # fmt: skip

    def __call__(self, **settings: Any) -> AbstractAlgorithm[Any]:
        method = Method.model_validate({"name": self.method.name, **settings})
        return build_method(method, self.model, TomlSource())


def _tune(path: str, toml: str, index: int, rules_name: str, quick: bool, split: int) -> None:
    """Tune one method of a specification on one split, and write all trials to a file."""
    from fedplus.simulation import tune

    spec, source = parse_spec(tomllib.loads(toml), TomlSource()), TomlSource()
    budget, method = load_rules(rules_name)["budget"], spec.methods[index]
    key, rounds = method_key(method), tuning_rounds(spec, rules_name)
    data = spec.for_run(0, split).data
    data = data.model_copy(update={"validation_share": budget["validation_share"]})
    federation = build_federation(data, source)
    model = build_model(spec.model, federation, source)
    arguments = simulate_arguments(spec, source)
    names = ("cohort", "steps", "epochs", "batch_size")
    schedule = {name: arguments[name] for name in names if name in arguments}
    grid = method_grid(key, method.settings, rules_name)
    fixed = {name: [value] for name, value in method.settings.items() if name not in grid}
    samples = QUICK_CANDIDATES if quick else candidate_count(key, rules_name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KappaWarning)
        result = tune(
            _MethodFactory(method, model), fixed | grid, federation, model, rounds=rounds,
            seeds=[split], samples=samples, seed=0, **schedule,
        )  # fmt: skip
    trials = [
        {
            "settings": {name: trial.settings[name] for name in grid},
            "mean": None if trial.diverged else trial.mean,
        }
        for trial in result.trials
    ]
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_json(Path(path), {"rounds": rounds, "better": model.task.better, "trials": trials})
