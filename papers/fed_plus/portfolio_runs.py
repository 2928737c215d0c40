"""The runs that Figures 1 to 3 share: policies that trade the stocks of ten sectors."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from papers.fed_plus.specs import load_spec, select_methods, select_specs, spec_names
from papers.fed_plus.study import StudyOptions
from papers.fed_plus.training import ended_runs, train_specs

from fedplus.experiments.run_folder import RunFolder
from fedplus.experiments.spec import Spec

PREFIX = "portfolio-"
QUICK = {"train.rounds": 4, "train.steps": 10, "train.evaluate_every": 1}
BASIS_POINTS = 1e4
"""Factor from a day's log return to basis points, the unit of the tables and figures."""


class PortfolioRun(NamedTuple):
    """One of the runs, with its setting, method and seed."""

    setting: str
    """Name of the specification without its prefix."""
    method: str
    label: str
    steps: int
    """Number of local steps between aggregations."""
    seed: int
    folder: RunFolder

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The log lines of the evaluated rounds."""
        return self.folder.lines


def with_shared_folder(options: StudyOptions) -> StudyOptions:
    """Return the options with the folder that the three studies share."""
    return options._replace(folder=options.folder.parent / "portfolio")


def study_specs(options: StudyOptions) -> dict[str, Spec]:
    """Return the specifications by name.

    A quick trial has only the first: with its few steps both would be the same.
    """
    settings = QUICK if options.quick else {}
    names = spec_names(PREFIX)[: 1 if options.quick else None]
    specs = {
        name: select_methods(load_spec(name, settings, options.seeds), options) for name in names
    }
    return select_specs(specs, options)


def train(options: StudyOptions) -> None:
    """Train both specifications, once for the three figures."""
    shared = with_shared_folder(options)
    shared.folder.mkdir(parents=True, exist_ok=True)
    train_specs(shared, study_specs(options))


def runs(options: StudyOptions) -> Iterator[PortfolioRun]:
    """Yield the runs that have ended, ordered by specification, method and seed."""
    folder = with_shared_folder(options).folder
    for name, spec in study_specs(options).items():
        order = [method.label for method in spec.methods]
        of_spec = [
            PortfolioRun(
                setting=name.removeprefix(PREFIX), method=run.status["method"],
                label=run.status["label"], steps=run.spec["train"]["steps"],
                seed=run.status["seed"], folder=run,
            )
            for run in ended_runs(spec, folder / name)
        ]  # fmt: skip
        yield from sorted(of_spec, key=lambda run: (order.index(run.label), run.seed))


def group_by_method(runs: Iterator[PortfolioRun]) -> dict[tuple[str, str], list[PortfolioRun]]:
    """Return the runs by setting and method: each group has one run per seed."""
    groups: dict[tuple[str, str], list[PortfolioRun]] = {}
    for run in runs:
        groups.setdefault((run.setting, run.method), []).append(run)
    return groups


def identifying_columns(group: list[PortfolioRun]) -> dict[str, Any]:
    """Return the columns that every record of a group begins with."""
    first = group[0]
    return {
        "setting": first.setting, "steps": first.steps, "method": first.method,
        "label": first.label, "seeds": len(group),
    }  # fmt: skip
