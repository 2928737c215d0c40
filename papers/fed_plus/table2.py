"""Table 2: personalised data sets, with the stated settings and with every method tuned alike."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from papers.fed_plus.jobs import read_durations
from papers.fed_plus.results import to_csv, to_json
from papers.fed_plus.specs import (
    load_spec,
    published_results,
    published_table2,
    select_methods,
    spec_names,
)
from papers.fed_plus.study import Files, Study, StudyOptions
from papers.fed_plus.training import ended_runs, train_specs

from fedplus.experiments.spec import Spec, to_toml
from fedplus.report.table_formats import as_records
from fedplus.report.tables import comparison_table
from papers.fed_plus import table2_report, tuning

PREFIX = "table2-"
QUICK_SETTINGS = {"train.rounds": 20, "train.evaluate_every": 20}
QUICK_SPECS = ("table2-mnist-robust-n10", "table2-synthetic-regression")
"""The specifications of a quick trial."""
COMPLETE_JOB_COUNT = 25
"""Number of jobs with the stated settings: five data sets with five seeds."""
COLUMNS = (
    "seeds", "mean", "mean_std", "the_others", "the_others_std", "outliers", "outliers_std",
    "worst_party", "p", "best", "note",
)  # fmt: skip


def stated_specs(options: StudyOptions) -> dict[str, Spec]:
    """Return the specifications by name, one per row of the table; two in a quick trial."""
    specs = {}
    for name in spec_names(PREFIX):
        if options.only in name and (name in QUICK_SPECS or not options.quick):
            settings: dict[str, Any] = dict(QUICK_SETTINGS) if options.quick else {}
            if options.quick and "mnist" in name:
                settings["data.samples"] = 6000
            specs[name] = select_methods(load_spec(name, settings, options.seeds), options)
    return specs


def train(options: StudyOptions) -> None:
    """Train with the stated settings; then tune, and train with the chosen settings."""
    specs = stated_specs(options)
    train_specs(options, specs)
    tuning.tune_methods(options, specs)
    train_specs(options, tuned_specs(options, specs))


def tuned_specs(options: StudyOptions, specs: Mapping[str, Spec]) -> dict[str, Spec]:
    """Return the specifications with the chosen settings of the tuned methods, as ``NAME-tuned``."""
    tuned = tuning.specs_with_chosen_settings(options, specs)
    return {f"{name}-tuned": spec for name, spec in tuned.items()}


def collect(options: StudyOptions) -> Files:
    """Return ``table2.csv``, the tuning results and the times.

    The table has one row per data set, kind of settings and method.
    """
    specs = stated_specs(options)
    tuned = tuned_specs(options, specs)
    records: list[dict[str, Any]] = []
    published = dict(published_table2())
    for name, spec in (specs | tuned).items():
        runs = ended_runs(spec, options.folder / name)
        if not runs:
            continue
        data = name.removeprefix(PREFIX).removesuffix("-tuned")
        kind = "tuned" if name in tuned else "stated"
        records += [
            {
                "data": data, "settings": kind, "method": record["method"] or "majority",
                "label": record["label"], **{column: record.get(column) for column in COLUMNS},
                "best": record["leads"],
                "paper": published.get(data, {}).get(record["method"]),
            }
            for record in as_records(comparison_table(runs))
        ]  # fmt: skip
    if not records:
        return {}
    durations = to_json(_summarise_durations(options))
    files = {"table2.csv": to_csv(records), "table2-times.json": durations}
    files |= {f"{name}.toml": to_toml(spec) for name, spec in tuned.items()}
    if tuned:
        files["table2-tuning.json"] = to_json(tuning.all_trials(options, specs))
    return files


def _summarise_durations(options: StudyOptions) -> dict[str, Any]:
    by_kind: dict[str, list[dict[str, float]]] = {"stated": [], "tuning": [], "tuned": []}
    for name, duration in read_durations(options.folder).items():
        kind = "tuning" if name.startswith("tune ") else "tuned" if "-tuned" in name else "stated"
        by_kind[kind].append(duration)
    sums = {
        kind: {
            "jobs": len(durations),
            "seconds": sum(duration["seconds"] for duration in durations),
            "processor": sum(duration["processor"] for duration in durations),
        }
        for kind, durations in by_kind.items()
    }
    is_complete = len(by_kind["stated"]) == COMPLETE_JOB_COUNT
    return sums | {"processes": options.jobs, "whole": is_complete}


def draw(results: Path) -> Mapping[str, Any]:
    """Return no figures: those of Table 2 are in the sensitivity study."""
    return {}


STUDY = Study(
    "table2",
    f"{published_results()['table2']['where']}: 13 methods on 5 data sets, stated and tuned",
    train, collect, draw, table2_report.blocks,
)  # fmt: skip
