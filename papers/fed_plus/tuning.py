"""Every method tuned alike: as many candidates, the same rounds, judged on validation samples."""

import inspect
import tomllib
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from papers.fed_plus.grids import (
    TABLE2,
    candidates_of,
    grid_of,
    key_of,
    rounds_of,
    rules,
    splits_of,
)
from papers.fed_plus.jobs import Job, carry_out
from papers.fed_plus.results import read_json
from papers.fed_plus.splits import merged
from papers.fed_plus.study import Asked
from papers.fed_plus.training import trained

from fedplus.algorithm import AbstractAlgorithm
from fedplus.check import require
from fedplus.experiments.build import (
    build_federation,
    build_method,
    build_model,
    simulate_arguments,
)
from fedplus.experiments.files import write_json
from fedplus.experiments.spec import Method, Spec, parse_spec, to_toml
from fedplus.experiments.toml_source import TomlSource
from fedplus.kappa import KappaWarning
from fedplus.methods import lookup_method
from fedplus.models import Model

FOLDER = "tuning"
QUICK = 2
"""Candidates of a quick try."""


def tuned(asked: Asked, specs: Mapping[str, Spec], by: str = TABLE2) -> None:
    """Choose settings for every method on every data set, where that is not done yet."""
    parts: dict[Path, list[Path]] = {}
    jobs = []
    for name, spec in specs.items():
        toml = to_toml(spec)
        for number, one in enumerate(spec.methods):
            place = _place(asked, name, one)
            if place.exists():
                _require_of_grid(place, grid_of(key_of(one), one.settings, by))
                continue
            for split in splits_of(by, asked.quick):
                part = place.parent / f"split-{split}" / place.name
                parts.setdefault(place, []).append(part)
                if not part.exists():
                    told = f"tune {name}, {key_of(one)}, split {split}"
                    given = (str(part), toml, number, by, asked.quick, split)
                    jobs.append(Job(told, _tune, given))
    carry_out(asked, jobs)
    for place, of in parts.items():
        write_json(place, merged([read_json(part) for part in of]))


def _require_of_grid(place: Path, grid: Mapping[str, list[Any]]) -> None:
    """What was chosen before is taken only if it was chosen from the grid as it is now."""
    for trial in read_json(place)["trials"]:
        of_grid = trial["settings"].keys() == grid.keys() and all(
            value in grid[name] for name, value in trial["settings"].items()
        )
        require(
            of_grid, str(place), f"one with {trial['settings']}", "chosen from the grid as it is now",
            "Give another --out, or remove it.",
        )  # fmt: skip


def chosen_for(asked: Asked, name: str) -> dict[str, dict[str, Any]]:
    """Method ↦ its chosen settings."""
    folder = asked.folder / FOLDER / name
    return {path.stem: read_json(path)["settings"] for path in sorted(folder.glob("*.json"))}


def with_chosen(spec: Spec, chosen: Mapping[str, Mapping[str, Any]], by: str = TABLE2) -> Spec:
    """The specification with those settings, and with those methods alone."""
    methods = [
        Method.model_validate({**one.model_dump(exclude_none=True), **chosen[key_of(one)]})
        for one in spec.methods
        if key_of(one) in chosen
    ]
    title = spec.title.replace("stated settings", "tuned on validation samples")
    rounds = rounds_of(spec, by)
    train = spec.train.model_copy(update={"rounds": rounds, "evaluate_every": max(1, rounds // 10)})
    return spec.model_copy(update={"methods": methods, "title": title, "train": train})


def chosen_specs(asked: Asked, specs: Mapping[str, Spec], by: str = TABLE2) -> dict[str, Spec]:
    """Those with a method that has been tuned, each with what was chosen, by the same names."""
    chosen = {name: chosen_for(asked, name) for name in specs}
    return {
        name: with_chosen(one, chosen[name], by)
        for name, one in specs.items()
        if any(key_of(lookup_method) in chosen[name] for lookup_method in one.methods)
    }


def trained_as_chosen(asked: Asked, specs: Mapping[str, Spec], by: str) -> None:
    """Tune, then train what was chosen."""
    tuned(asked, specs, by)
    trained(asked, chosen_specs(asked, specs, by))


def told(asked: Asked, specs: Mapping[str, Spec]) -> dict[str, Any]:
    """All trials of all methods, by data set."""
    return {
        name: {
            key_of(one): read_json(_place(asked, name, one))
            for one in spec.methods
            if _place(asked, name, one).exists()
        }
        for name, spec in specs.items()
    }


def _place(asked: Asked, name: str, one: Method) -> Path:
    return asked.folder / FOLDER / name / f"{key_of(one)}.json"


class _Made:
    """Makes a method of its settings as a specification has them; ``tune`` reads what it takes."""

    def __init__(self, of: Method, model: Model) -> None:
        self.of, self.model = of, model
        taken = inspect.signature(lookup_method(of.name).make)
        kept = [p for p in taken.parameters.values() if p.name != "layout"]
        self.__signature__ = taken.replace(parameters=kept)

    def __call__(self, **settings: Any) -> AbstractAlgorithm[Any]:
        one = Method.model_validate({"name": self.of.name, **settings})
        return build_method(one, self.model, TomlSource())


def _tune(place: str, toml: str, number: int, by: str, quick: bool, split: int) -> None:
    """One method on one split of one data set; all trials go into a file."""
    from fedplus.simulation import tune

    spec, source = parse_spec(tomllib.loads(toml), TomlSource()), TomlSource()
    budget, of = rules(by)["budget"], spec.methods[number]
    rounds = rounds_of(spec, by)
    data = spec.one(0, split).data
    data = data.model_copy(update={"validation_share": budget["validation_share"]})
    federation = build_federation(data, source)
    model = build_model(spec.model, federation, source)
    given = simulate_arguments(spec, source)
    how = {k: given[k] for k in ("cohort", "steps", "epochs", "batch_size") if k in given}
    grid = grid_of(key_of(of), of.settings, by)
    fixed = {k: [v] for k, v in of.settings.items() if k not in grid}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KappaWarning)
        found = tune(
            _Made(of, model), fixed | grid, federation, model, rounds=rounds, seeds=[split],
            samples=QUICK if quick else candidates_of(key_of(of), by), seed=0, **how,
        )  # fmt: skip
    trials = [
        {"settings": {k: t.settings[k] for k in grid}, "mean": None if t.diverged else t.mean}
        for t in found.trials
    ]
    Path(place).parent.mkdir(parents=True, exist_ok=True)
    write_json(Path(place), {"rounds": rounds, "better": model.task.better, "trials": trials})
