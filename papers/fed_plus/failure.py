"""Figures 1 to 3: one set of runs, policies that trade the stocks of ten sectors."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from papers.fed_plus.specs import chosen, names, spec, wanted
from papers.fed_plus.study import Asked
from papers.fed_plus.training import runs_of, trained

from fedplus.experiments.run_folder import RunFolder
from fedplus.experiments.spec import Spec

PREFIX = "failure-"
QUICK = {"train.rounds": 4, "train.steps": 10, "train.evaluate_every": 1}
BASIS_POINTS = 1e4
"""Of a log return: how a day's return is shown."""


class FailureRun(NamedTuple):
    """One run of the set."""

    setting: str
    """The specification's name without its prefix."""
    method: str
    label: str
    steps: int
    """Between aggregations."""
    seed: int
    folder: RunFolder

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The evaluated rounds."""
        return self.folder.lines


def shared(asked: Asked) -> Asked:
    """The same with the folder that the three studies have together."""
    return asked._replace(folder=asked.folder.parent / "failure")


def specifications(asked: Asked) -> dict[str, Spec]:
    """Parties long and shortly apart; of a quick try, where both are the same program, the first."""
    settings = QUICK if asked.quick else {}
    listed = names(PREFIX)[: 1 if asked.quick else None]
    found = {name: wanted(spec(name, settings, asked.seeds), asked) for name in listed}
    return chosen(found, asked)


def train(asked: Asked) -> None:
    """Both specifications, once for the three figures."""
    folder = shared(asked)
    folder.folder.mkdir(parents=True, exist_ok=True)
    trained(folder, specifications(asked))


def runs(asked: Asked) -> Iterator[FailureRun]:
    """All that are there, setting by setting, method by method."""
    folder = shared(asked).folder
    for name, one in specifications(asked).items():
        order = [method.label for method in one.methods]
        found = [
            FailureRun(
                name.removeprefix(PREFIX), run.status["method"], run.status["label"],
                run.spec["train"]["steps"], run.status["seed"], run,
            )
            for run in runs_of(one, folder / name)
        ]  # fmt: skip
        yield from sorted(found, key=lambda run: (order.index(run.label), run.seed))


def grouped(found: Iterator[FailureRun]) -> dict[tuple[str, str], list[FailureRun]]:
    """The seeds of each setting and method together."""
    groups: dict[tuple[str, str], list[FailureRun]] = {}
    for run in found:
        groups.setdefault((run.setting, run.method), []).append(run)
    return groups


def about(group: list[FailureRun]) -> dict[str, Any]:
    """The columns that every record begins with."""
    one = group[0]
    return {
        "setting": one.setting, "steps": one.steps, "method": one.method, "label": one.label,
        "seeds": len(group),
    }  # fmt: skip
