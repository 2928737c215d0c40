"""Figure 4: eight methods on FedProx's federations with 90% stragglers."""

from typing import Any

import numpy as np
from papers.fed_plus.evaluation import average_over_seeds, score_curve, summarise_scores
from papers.fed_plus.fedprox_federations import (
    PREFIX,
    data_sets,
    finished_runs,
    specs_by_folder,
    train_data_sets,
    with_shared_folder,
)
from papers.fed_plus.jobs import read_durations
from papers.fed_plus.results import to_csv, to_json
from papers.fed_plus.specs import published_results
from papers.fed_plus.study import Files, Study, StudyOptions

from fedplus.experiments.run_folder import RunFolder
from papers.fed_plus import figure4_report


def train(options: StudyOptions) -> None:
    """Train all data sets."""
    specs = [(data, specs_by_folder(options, data)) for data in data_sets(options)]
    train_data_sets(options, specs)


def collect(options: StudyOptions) -> Files:
    """Return ``figure4-NAME.csv`` for each data set with runs: one row per method and evaluated round.

    Each data set has files of its own, so that those from another machine stay as they are.
    """
    files: dict[str, str] = {}
    for data in data_sets(options):
        methods = list(finished_runs(options, specs_by_folder(options, data)))
        records = [
            record
            for method, label, runs in methods
            for record in _method_records(method, label, runs)
        ]
        if records:
            _, _, runs = methods[0]
            records += _majority_records(runs)
            files[f"{PREFIX}{data}.csv"] = to_csv(records)
            about = describe_data_set(options, data, runs[0])
            files[f"{PREFIX}{data}-about.json"] = to_json(about)
    return files


def describe_data_set(options: StudyOptions, data: str, run: RunFolder) -> dict[str, Any]:
    """Return the title, size and processor time of a data set's runs."""
    folders = specs_by_folder(options, data)
    durations = [
        duration
        for name, duration in read_durations(with_shared_folder(options).folder).items()
        if name.split(", ")[0] in folders
    ]
    return {
        "data": data, "title": run.spec["title"], "stand_in_for": run.parties["stand_in_for"],
        "parties": run.status["parties"], "rounds": run.status["rounds"],
        "processor_seconds": sum(duration["processor"] for duration in durations),
        "jobs": len(durations),
    }  # fmt: skip


def _method_records(method: str, label: str, runs: list[RunFolder]) -> list[dict[str, Any]]:
    curves = zip(*(list(score_curve(run)) for run in runs), strict=True)
    return [{"method": method, "label": label, **average_over_seeds(lines)} for lines in curves]


def _majority_records(runs: list[RunFolder]) -> list[dict[str, Any]]:
    """Return the score of always answering with a party's most frequent label.

    Deviation D10 in docs/deviations.md.
    """
    summaries = []
    for run in runs:
        scores = {"own": np.array(run.parties["majority"])}
        averages = summarise_scores(scores, run.parties["test"])
        summaries.append({"round": run.lines[-1]["round"], "active": 1.0, **averages})
    return [{"method": "majority", "label": "majority class", **average_over_seeds(summaries)}]


STUDY = Study(
    "figure4",
    f"{published_results()['figure4']['where']}: 8 methods, 90% stragglers, FedProx's federations",
    train, collect, figure4_report.draw, figure4_report.blocks,
)  # fmt: skip
