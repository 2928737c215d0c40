"""Layer-specific ψ, the paper's outlook: a ψ and δ for each layer, compared with one for all."""

from collections.abc import Mapping
from typing import Any

from papers.fed_plus.results import to_csv, to_json
from papers.fed_plus.specs import load_spec, select_methods, spec_names
from papers.fed_plus.study import Files, Study, StudyOptions
from papers.fed_plus.training import ended_runs

from fedplus.experiments.spec import Spec, to_toml
from fedplus.report.table_formats import as_records
from fedplus.report.tables import comparison_table
from papers.fed_plus import layers_report, tuning

PREFIX = "layers-"
TUNING_RULES = "tuning-layers"
GPU_SPEC = "layers-sent140"
"""The specification for a GPU: on a CPU it is trained only if ``--only`` names it."""
MAX_SEEDS = 3
QUICK_SETTINGS = {"train.rounds": 10, "train.evaluate_every": 10}
QUICK_METHODS = ("local", "fedgeomed+", "hybrid")
COLUMNS = (
    "seeds",
    "mean",
    "mean_std",
    "the_others",
    "outliers",
    "worst_party",
    "p",
    "best",
    "note",
)
PARTS = {"head/*": "head", "*": "rest"}
"""Patterns of the grid ↦ names of the parts in the files."""


def study_specs(options: StudyOptions) -> dict[str, Spec]:
    """Return the specifications by name, one per federation; a quick trial has the first."""
    with_large = options.device == "gpu" or "sent140" in options.only
    names = [name for name in spec_names(PREFIX) if options.only in name]
    names = [name for name in names if with_large or name != GPU_SPEC]
    if options.quick:
        names = names[:1]
        options = options._replace(methods=options.methods or QUICK_METHODS)
    settings, seeds = (QUICK_SETTINGS if options.quick else {}), options.seeds[:MAX_SEEDS]
    return {name: select_methods(load_spec(name, settings, seeds), options) for name in names}


def train(options: StudyOptions) -> None:
    """Tune every method (the hybrid over all pairs of ψ), then train with the chosen settings."""
    tuning.tune_and_train(options, study_specs(options), TUNING_RULES)


def collect(options: StudyOptions) -> Files:
    """Return for each federation with runs: one row per method, the hybrid's trials, the settings.

    Each federation has files of its own, so that those from another machine stay as they are.
    """
    specs = study_specs(options)
    trials_by_spec = tuning.all_trials(options, specs)
    files: dict[str, str] = {}
    for name, spec in tuning.specs_with_chosen_settings(options, specs, TUNING_RULES).items():
        runs = ended_runs(spec, options.folder / name)
        if not runs:
            continue
        rows = [
            {
                "method": record["method"] or "majority", "label": record["label"],
                **{column: record.get(column) for column in COLUMNS}, "best": record["leads"],
            }
            for record in as_records(comparison_table(runs))
        ]  # fmt: skip
        by_method = trials_by_spec[name]
        counts = {
            method: {**result, "trials": len(result["trials"])}
            for method, result in by_method.items()
        }
        files |= {
            f"{name}.csv": to_csv(rows), f"{name}-tuned.toml": to_toml(spec),
            f"{name}-tuning.json": to_json(counts),
        }  # fmt: skip
        if trials := hybrid_trials(by_method):
            files[f"{name}-trials.csv"] = to_csv(trials)
    return files


def hybrid_trials(by_method: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one row per trial of the hybrid: ψ and δ of each part, and its validation score."""
    rows = []
    for trial in by_method.get("hybrid", {"trials": []})["trials"]:
        row: dict[str, Any] = {}
        for pattern, part in PARTS.items():
            psi = trial["settings"]["parts"][pattern]
            row |= {f"{part}_psi": psi["psi"], f"{part}_delta": psi.get("delta")}
        row |= {name: trial["settings"][name] for name in ("eta", "sigma")}
        rows.append(row | {"validation": trial["mean"]})
    return rows


STUDY = Study(
    "layers", "a ψ and δ for each layer, found on validation samples, against one for all",
    train, collect, layers_report.draw, layers_report.blocks,
)  # fmt: skip
