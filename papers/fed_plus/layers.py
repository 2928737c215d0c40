"""Layer-specific ψ, the paper's outlook: which layers want which ψ and δ, against one ψ for all."""

from collections.abc import Mapping
from typing import Any

from papers.fed_plus.results import csv_of, json_of
from papers.fed_plus.specs import names, spec, wanted
from papers.fed_plus.study import Asked, Files, Study
from papers.fed_plus.training import runs_of

from fedplus.experiments.spec import Spec, to_toml
from fedplus.report.table_formats import as_records
from fedplus.report.tables import comparison_table
from papers.fed_plus import layers_plot, layers_text, tuning

PREFIX = "layers-"
BY = "tuning-layers"
LARGE = "layers-sent140"
"""For a GPU: elsewhere it has to be asked for by name."""
MOST_SEEDS = 3
QUICK = {"train.rounds": 10, "train.evaluate_every": 10}
QUICKLY = ("local", "fedgeomed+", "hybrid")
KEPT = ("seeds", "mean", "mean_std", "the_others", "outliers", "worst_party", "p", "best", "note")
PARTS = {"head/*": "head", "*": "rest"}
"""Patterns of the grid and what they are called in the files."""


def specs_of(asked: Asked) -> dict[str, Spec]:
    """A federation each; of a quick try the first."""
    large = asked.device == "gpu" or "sent140" in asked.only
    listed = [one for one in names(PREFIX) if asked.only in one and (large or one != LARGE)]
    if asked.quick:
        listed = listed[:1]
        asked = asked._replace(methods=asked.methods or QUICKLY)
    quick, seeds = (QUICK if asked.quick else {}), asked.seeds[:MOST_SEEDS]
    return {name: wanted(spec(name, quick, seeds), asked) for name in listed}


def train(asked: Asked) -> None:
    """Tune, the hybrid over all pairs of ψ; then train what was chosen."""
    tuning.trained_as_chosen(asked, specs_of(asked), BY)


def collect(asked: Asked) -> Files:
    """Of each federation that has runs: a row a method, the hybrid's trials, what was chosen.

    Files of its own each, so that what was made on another machine stays as it is.
    """
    specs = specs_of(asked)
    told = tuning.told(asked, specs)
    files: dict[str, str] = {}
    for name, one in tuning.chosen_specs(asked, specs, BY).items():
        runs = runs_of(one, asked.folder / name)
        if not runs:
            continue
        rows = [
            {
                "method": record["method"] or "majority", "label": record["label"],
                **{key: record.get(key) for key in KEPT}, "best": record["leads"],
            }
            for record in as_records(comparison_table(runs))
        ]  # fmt: skip
        of = told[name]
        short = {key: {**found, "trials": len(found["trials"])} for key, found in of.items()}
        files |= {
            f"{name}.csv": csv_of(rows), f"{name}-tuned.toml": to_toml(one),
            f"{name}-tuning.json": json_of(short),
        }  # fmt: skip
        if trials := trials_of(of):
            files[f"{name}-trials.csv"] = csv_of(trials)
    return files


def trials_of(told: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row a trial of the hybrid: ψ and δ of each part, and how it did on validation samples."""
    rows = []
    for trial in told.get("hybrid", {"trials": []})["trials"]:
        row: dict[str, Any] = {}
        for pattern, part in PARTS.items():
            psi = trial["settings"]["parts"][pattern]
            row |= {f"{part}_psi": psi["psi"], f"{part}_delta": psi.get("delta")}
        rest = {key: trial["settings"][key] for key in ("eta", "sigma")}
        rows.append(row | rest | {"validation": trial["mean"]})
    return rows


STUDY = Study(
    "layers", "a ψ and δ for each layer, found on validation samples, against one for all",
    train, collect, layers_plot.draw, layers_text.blocks,
)  # fmt: skip
