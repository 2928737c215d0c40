"""Every method tuned alike: as many candidates, the same rounds, judged on validation samples.

A study's grid is a TOML file beside this one. Table 2's is ``tuning.toml``, taken where no other is
named. Most of a grid is in multiples of what the specification states.
"""

import inspect
import itertools
import tomllib
import warnings
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from fedplus.algorithm import AbstractAlgorithm
from fedplus.experiments.build import arguments_of, federation_of, method_of, model_of
from fedplus.experiments.defaults import LABELS
from fedplus.experiments.files import write_json
from fedplus.experiments.running import slug
from fedplus.experiments.source import Source
from fedplus.experiments.spec import Method, Spec, checked, to_toml
from fedplus.local import KappaWarning
from fedplus.methods import method
from fedplus.models import Model
from fedplus.paper.results import read_json
from fedplus.paper.splits import merged
from fedplus.paper.study import Asked
from fedplus.paper.training import Job, carry_out, trained

FOLDER = "tuning"
TABLE2 = "tuning"
QUICK = 2
"""Candidates of a quick try."""


@cache
def rules(by: str = TABLE2) -> dict[str, Any]:
    """The grid: see ``tuning.toml``."""
    path = Path(__file__).with_name(f"{by}.toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))


def key_of(one: Method) -> str:
    """A method's name; one that has a label of its own goes by that."""
    return one.name if one.label in (None, LABELS[one.name]) else slug(str(one.label))


def grid_of(key: str, stated: Mapping[str, Any], by: str = TABLE2) -> dict[str, list[Any]]:
    """Values to try for each setting: multiples of what is stated, values, or all combinations."""
    return {
        setting: _values(rule, stated.get(setting))
        for setting, rule in rules(by)["grid"][key].items()
    }


def _values(rule: Mapping[str, Any], stated: Any) -> list[Any]:
    if "times" in rule:
        return [stated * factor for factor in rule["times"]]
    if "each" in rule:
        found = itertools.product(*rule["each"].values())
        return [dict(zip(rule["each"], one, strict=True)) for one in found]
    return list(rule["values"])


def candidates_of(key: str, by: str = TABLE2) -> int | None:
    """How many a method has: the budget's, but where that says otherwise; None: its whole grid."""
    budget = rules(by)["budget"]
    found = budget.get("candidates_of", {}).get(key, budget.get("candidates"))
    return None if found is None else int(found)


def splits_of(by: str = TABLE2, quick: bool = False) -> list[int]:
    """Seeds of the splits that a candidate is judged on, a run each; a try has the first."""
    found: list[int] = rules(by)["budget"]["splits"]
    return found[:1] if quick else found


def tuned(asked: Asked, specs: Mapping[str, Spec], by: str = TABLE2) -> None:
    """Choose settings for every method on every data set, where that is not done yet."""
    parts: dict[Path, list[Path]] = {}
    jobs = []
    for name, spec in specs.items():
        toml = to_toml(spec)
        for number, one in enumerate(spec.methods):
            place = _place(asked, name, one)
            if place.exists():
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
        if any(key_of(method) in chosen[name] for method in one.methods)
    }


def trained_as_chosen(asked: Asked, specs: Mapping[str, Spec], by: str) -> None:
    """Tune, then train what was chosen."""
    tuned(asked, specs, by)
    trained(asked, chosen_specs(asked, specs, by))


def rounds_of(spec: Spec, by: str = TABLE2) -> int:
    """How long candidates are trained, and what is chosen: settings are chosen for that length."""
    stated, budget = spec.train.rounds or 1, rules(by)["budget"]
    most = budget.get("rounds_of", {}).get(spec.data.name, budget.get("rounds", stated))
    return int(min(most, stated))


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
        taken = inspect.signature(method(of.name).make)
        kept = [p for p in taken.parameters.values() if p.name != "layout"]
        self.__signature__ = taken.replace(parameters=kept)

    def __call__(self, **settings: Any) -> AbstractAlgorithm[Any]:
        one = Method.model_validate({"name": self.of.name, **settings})
        return method_of(one, self.model, Source())


def _tune(place: str, toml: str, number: int, by: str, quick: bool, split: int) -> None:
    """One method on one split of one data set; all trials go into a file."""
    from fedplus.simulation import tune

    spec, source = checked(tomllib.loads(toml), Source()), Source()
    budget, of = rules(by)["budget"], spec.methods[number]
    rounds = rounds_of(spec, by)
    data = spec.one(0, split).data
    data = data.model_copy(update={"validation_share": budget["validation_share"]})
    federation = federation_of(data, source)
    model = model_of(spec.model, federation, source)
    given = arguments_of(spec, source)
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
