"""Every method tuned alike: as many candidates, the same rounds, judged on validation samples.

The grid is in ``tuning.toml``, most of it in multiples of what the paper states.
"""

import tomllib
import warnings
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from fedplus.experiments.build import arguments_of, federation_of, model_of
from fedplus.experiments.files import write_json
from fedplus.experiments.source import Source
from fedplus.experiments.spec import Method, Spec, checked, to_toml
from fedplus.local import KappaWarning
from fedplus.methods import method
from fedplus.paper.results import read_json
from fedplus.paper.study import Asked
from fedplus.paper.training import Job, carry_out

GRID = Path(__file__).with_name("tuning.toml")
FOLDER = "tuning"


@cache
def rules() -> dict[str, Any]:
    """The grid: see ``tuning.toml``."""
    return tomllib.loads(GRID.read_text(encoding="utf-8"))


def grid_of(name: str, stated: Mapping[str, Any]) -> dict[str, list[float]]:
    """Values to try for each setting: multiples of what is stated, or values."""
    found = {}
    for setting, rule in rules()["grid"][name].items():
        factors = rule.get("times")
        found[setting] = [stated[setting] * f for f in factors] if factors else rule["values"]
    return found


def tuned(asked: Asked, specs: Mapping[str, Spec]) -> None:
    """Choose settings for every method on every data set, where that is not done yet."""
    quick = asked.quick
    jobs = [
        Job(
            f"tune {name}, {one.name}",
            _tune,
            (str(_place(asked, name, one)), toml, one.name, quick),
        )
        for name, spec in specs.items()
        for toml in [to_toml(spec)]
        for one in spec.methods
        if not _place(asked, name, one).exists()
    ]
    carry_out(asked, jobs)


def chosen_for(asked: Asked, name: str) -> dict[str, dict[str, Any]]:
    """Method ↦ its chosen settings."""
    folder = asked.folder / FOLDER / name
    return {path.stem: read_json(path)["settings"] for path in sorted(folder.glob("*.json"))}


def is_complete(asked: Asked, name: str, spec: Spec) -> bool:
    """Whether every method has been tuned."""
    return all(_place(asked, name, one).exists() for one in spec.methods)


def with_chosen(spec: Spec, chosen: Mapping[str, Mapping[str, Any]]) -> Spec:
    """The specification with those settings."""
    methods = [
        Method.model_validate({**one.model_dump(exclude_none=True), **chosen[one.name]})
        for one in spec.methods
    ]
    title = spec.title.replace("stated settings", "tuned on validation samples")
    rounds = rounds_of(spec)
    train = spec.train.model_copy(update={"rounds": rounds, "evaluate_every": max(1, rounds // 10)})
    return spec.model_copy(update={"methods": methods, "title": title, "train": train})


def rounds_of(spec: Spec) -> int:
    """How long candidates are trained, and what is chosen: settings are chosen for that length."""
    return int(min(rules()["budget"]["rounds"], spec.train.rounds or 1))


def told(asked: Asked, specs: Mapping[str, Spec]) -> dict[str, Any]:
    """All trials of all methods, by data set."""
    return {
        name: {
            one.name: read_json(_place(asked, name, one))
            for one in spec.methods
            if _place(asked, name, one).exists()
        }
        for name, spec in specs.items()
    }


def _place(asked: Asked, name: str, one: Method) -> Path:
    return asked.folder / FOLDER / name / f"{one.name}.json"


def _tune(place: str, toml: str, name: str, quick: bool) -> None:
    """One method on one data set; all trials go into a file."""
    from fedplus.simulation import tune

    spec, source = checked(tomllib.loads(toml), Source()), Source()
    budget = rules()["budget"]
    rounds = rounds_of(spec)
    (of,) = [one for one in spec.methods if one.name == name]
    data = spec.one(0, budget["seed"]).data
    data = data.model_copy(update={"validation_share": budget["validation_share"]})
    federation = federation_of(data, source)
    model = model_of(spec.model, federation, source)
    given = arguments_of(spec, source)
    how = {k: given[k] for k in ("cohort", "steps", "batch_size")}
    made = method(name).make
    grid = grid_of(name, of.settings)
    fixed = {k: [v] for k, v in of.settings.items() if k not in grid}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KappaWarning)
        found = tune(
            made, fixed | grid, federation, model, rounds=rounds, seeds=(budget["seed"],),
            samples=2 if quick else budget["candidates"], seed=0, **how,
        )  # fmt: skip
    trials = [
        {"settings": {k: t.settings[k] for k in grid}, "mean": None if t.diverged else t.mean}
        for t in found.trials
    ]
    Path(place).parent.mkdir(parents=True, exist_ok=True)
    write_json(
        Path(place),
        {
            "settings": {k: found.settings[k] for k in grid}, "score": found.score,
            "at_edge": list(found.at_edge), "rounds": rounds, "trials": trials,
        },
    )  # fmt: skip
