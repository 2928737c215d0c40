"""Figure 4: eight methods on FedProx's federations with 90% stragglers."""

from typing import Any

import numpy as np
from papers.fed_plus.benchmarks import PREFIX
from papers.fed_plus.jobs import times
from papers.fed_plus.judging import added_up, curve, over_seeds
from papers.fed_plus.results import csv_of, json_of
from papers.fed_plus.specs import published
from papers.fed_plus.study import Asked, Files, Study

from fedplus.experiments.run_folder import RunFolder
from papers.fed_plus import benchmarks, figure4_plot, figure4_text


def train(asked: Asked) -> None:
    """All data sets."""
    sets = benchmarks.sets(asked)
    benchmarks.train(asked, [(data, benchmarks.specs_of(asked, data)) for data in sets])


def collect(asked: Asked) -> Files:
    """``figure4-NAME.csv`` for each data set that has runs, a row a method and evaluated round.

    A file each, so that what was made on another machine stays as it is.
    """
    files: dict[str, str] = {}
    for data in benchmarks.sets(asked):
        found = list(benchmarks.runs(asked, benchmarks.specs_of(asked, data)))
        records = [
            record for method, label, runs in found for record in _records(method, label, runs)
        ]
        if records:
            records += _majority(found[0][2])
            files[f"{PREFIX}{data}.csv"] = csv_of(records)
            files[f"{PREFIX}{data}-about.json"] = json_of(about(asked, data, found[0][2][0]))
    return files


def about(asked: Asked, data: str, run: RunFolder) -> dict[str, Any]:
    """What the files of a data set have to say of it."""
    took = {
        name: one for name, one in times(benchmarks.shared(asked).folder).items()
        if name.split(", ")[0] in benchmarks.specs_of(asked, data)
    }  # fmt: skip
    return {
        "data": data, "title": run.spec["title"], "stand_in_for": run.parties["stand_in_for"],
        "parties": run.status["parties"], "rounds": run.status["rounds"],
        "processor_seconds": sum(one["processor"] for one in took.values()),
        "jobs": len(took),
    }  # fmt: skip


def _records(method: str, label: str, runs: list[RunFolder]) -> list[dict[str, Any]]:
    curves = zip(*(list(curve(run)) for run in runs), strict=True)
    return [{"method": method, "label": label, **over_seeds(lines)} for lines in curves]


def _majority(runs: list[RunFolder]) -> list[dict[str, Any]]:
    """Always the label that a party has most often: all there is to know where it has one (D10)."""
    found = []
    for run in runs:
        parties, last = run.parties, run.lines[-1]["round"]
        of = {"own": np.array(parties["majority"])}
        found.append({"round": last, "active": 1.0, **added_up(of, parties["test"])})
    return [{"method": "majority", "label": "majority class", **over_seeds(found)}]


STUDY = Study(
    "figure4", f"{published()['figure4']['where']}: 8 methods, 90% stragglers, FedProx's federations",
    train, collect, figure4_plot.draw, figure4_text.blocks,
)  # fmt: skip
