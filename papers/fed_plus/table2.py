"""Table 2: personalised data sets, as stated and with every method tuned alike."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from papers.fed_plus.jobs import times
from papers.fed_plus.results import csv_of, json_of
from papers.fed_plus.specs import names, published, spec, table2_rows, wanted
from papers.fed_plus.study import Asked, Files, Study
from papers.fed_plus.training import runs_of, trained

from fedplus.experiments.spec import Spec, to_toml
from fedplus.report.table_formats import as_records
from fedplus.report.tables import comparison_table
from papers.fed_plus import table2_text, tuning

PREFIX = "table2-"
QUICK = {"train.rounds": 20, "train.evaluate_every": 20}
TRIED = ("table2-mnist-robust-n10", "table2-synthetic-regression")
"""The data sets of a quick try."""
WHOLE = 25
"""Jobs of the stated half: five data sets, five seeds."""
KEPT = (
    "seeds", "mean", "mean_std", "the_others", "the_others_std", "outliers", "outliers_std",
    "worst_party", "p", "best", "note",
)  # fmt: skip


def stated(asked: Asked) -> dict[str, Spec]:
    """The specifications, a row of the table each; of a quick try two."""
    found = {}
    for name in names(PREFIX):
        if asked.only in name and (name in TRIED or not asked.quick):
            settings: dict[str, Any] = dict(QUICK) if asked.quick else {}
            if asked.quick and "mnist" in name:
                settings["data.samples"] = 6000
            found[name] = wanted(spec(name, settings, asked.seeds), asked)
    return found


def train(asked: Asked) -> None:
    """As stated; then tune, and train what was chosen."""
    specs = stated(asked)
    trained(asked, specs)
    tuning.tuned(asked, specs)
    trained(asked, tuned_specs(asked, specs))


def tuned_specs(asked: Asked, specs: Mapping[str, Spec]) -> dict[str, Spec]:
    """The same with the settings that were chosen, for the methods that have been tuned."""
    return {f"{name}-tuned": one for name, one in tuning.chosen_specs(asked, specs).items()}


def collect(asked: Asked) -> Files:
    """``table2.csv``, a row a data set, kind of settings and method; and how it was made."""
    specs = stated(asked)
    tuned = tuned_specs(asked, specs)
    records: list[dict[str, Any]] = []
    paper = dict(table2_rows())
    for name, one in (specs | tuned).items():
        runs = runs_of(one, asked.folder / name)
        if not runs:
            continue
        row = name.removeprefix(PREFIX).removesuffix("-tuned")
        kind = "tuned" if name in tuned else "stated"
        records += [
            {
                "data": row, "settings": kind, "method": record["method"] or "majority",
                "label": record["label"], **{key: record.get(key) for key in KEPT},
                "best": record["leads"],
                "paper": paper.get(row, {}).get(record["method"]),
            }
            for record in as_records(comparison_table(runs))
        ]  # fmt: skip
    if not records:
        return {}
    files = {"table2.csv": csv_of(records), "table2-times.json": json_of(_times(asked))}
    files |= {f"{name}.toml": to_toml(one) for name, one in tuned.items()}
    if tuned:
        files["table2-tuning.json"] = json_of(tuning.told(asked, specs))
    return files


def _times(asked: Asked) -> dict[str, Any]:
    kinds: dict[str, list[dict[str, float]]] = {"stated": [], "tuning": [], "tuned": []}
    for name, took in times(asked.folder).items():
        kind = "tuning" if name.startswith("tune ") else "tuned" if "-tuned" in name else "stated"
        kinds[kind].append(took)
    return {
        kind: {
            "jobs": len(all_), "seconds": sum(one["seconds"] for one in all_),
            "processor": sum(one["processor"] for one in all_),
        }
        for kind, all_ in kinds.items()
    } | {"processes": asked.jobs, "whole": len(kinds["stated"]) == WHOLE}  # fmt: skip


def draw(results: Path) -> Mapping[str, Any]:
    """Nothing: the sensitivity study draws."""
    return {}


STUDY = Study(
    "table2", f"{published()['table2']['where']}: 13 methods on 5 data sets, stated and tuned",
    train, collect, draw, table2_text.blocks,
)  # fmt: skip
