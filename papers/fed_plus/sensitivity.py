"""Sensitivity: how Table 2 depends on δ, σ, the noise and the share of outliers."""

from collections.abc import Mapping
from typing import Any

from papers.fed_plus.results import to_csv
from papers.fed_plus.specs import load_spec, select_methods, select_specs
from papers.fed_plus.study import Files, Study, StudyOptions
from papers.fed_plus.training import ended_runs, train_specs

from fedplus.experiments.run_folder import RunFolder
from fedplus.experiments.spec import Spec, to_toml
from fedplus.report.table_formats import as_records
from fedplus.report.tables import comparison_table
from papers.fed_plus import sensitivity_report

DATA_SWEEPS: dict[str, tuple[str, tuple[float, ...]]] = {
    "noise": ("data.scale", (0.25, 0.5, 1.0, 2.0, 4.0)),
    "outliers": ("data.outliers", (0.0, 0.1, 0.2, 0.3, 0.4)),
}
"""Sweeps over a setting of the data, with one specification per value."""
METHOD_SWEEPS = ("delta", "sigma")
"""Sweeps over a setting of the methods, all in one specification."""
COLUMNS = ("seeds", "mean", "mean_std", "the_others", "outliers", "outliers_std", "worst_party")
MAX_SEEDS = 3
QUICK_SETTINGS: dict[str, Any] = {
    "train.rounds": 5, "train.evaluate_every": 5, "data.samples": None,  # The digits have no samples.
}  # fmt: skip
QUICK_DATA_SETS = {
    "delta": "digits-robust", "sigma": "digits-robust", "outliers": "digits-robust",
    "noise": "digits-personal",
}  # fmt: skip
"""The same recipes on small images, for a quick trial."""


def study_specs(options: StudyOptions) -> dict[str, Spec]:
    """Return all specifications by folder name, which starts with the name of the sweep."""

    def spec_of(sweep: str, settings: dict[str, Any]) -> Spec:
        quick = QUICK_SETTINGS | {"data.name": QUICK_DATA_SETS[sweep]} if options.quick else {}
        return load_spec(f"sensitivity-{sweep}", quick | settings, options.seeds[:MAX_SEEDS])

    specs = {sweep: spec_of(sweep, {}) for sweep in METHOD_SWEEPS}
    for sweep, (setting, values) in DATA_SWEEPS.items():
        for value in values:
            specs[f"{sweep}-{value:g}"] = spec_of(sweep, {setting: value})
    specs = select_specs(specs, options)
    return {name: select_methods(spec, options) for name, spec in specs.items()}


def train(options: StudyOptions) -> None:
    """Train all specifications."""
    train_specs(options, study_specs(options))


def collect(options: StudyOptions) -> Files:
    """Return ``sensitivity.csv``: one row per sweep, value and method."""
    rows: list[dict[str, Any]] = []
    specs = study_specs(options)
    for name, spec in specs.items():
        runs = ended_runs(spec, options.folder / name)
        if runs:
            rows_of = _method_sweep_rows if name in METHOD_SWEEPS else _data_sweep_rows
            rows += rows_of(name, runs)
    if not rows:
        return {}
    return {"sensitivity.csv": to_csv(rows)} | {
        f"sensitivity-{name}.toml": to_toml(spec)
        for name, spec in specs.items()
        if name in METHOD_SWEEPS
    }


def _data_sweep_rows(name: str, runs: list[RunFolder]) -> list[dict[str, Any]]:
    sweep, _, value = name.partition("-")
    return [_row(sweep, float(value), record) for record in as_records(comparison_table(runs))]


def _method_sweep_rows(sweep: str, runs: list[RunFolder]) -> list[dict[str, Any]]:
    """Return rows with the value of the method's own setting; local training and FedAvg have none."""
    values = {run.status["label"]: run.spec["methods"][0].get(sweep) for run in runs}
    return [
        _row(sweep, values.get(record["label"]), record)
        for record in as_records(comparison_table(runs))
    ]


def _row(sweep: str, value: float | None, record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "sweep": sweep, "value": value, "method": record["method"] or "majority",
        **{column: record.get(column) for column in COLUMNS},
    }  # fmt: skip


STUDY = Study(
    "sensitivity", "how Table 2 depends on δ, σ, the noise and the share of outliers",
    train, collect, sensitivity_report.draw, sensitivity_report.blocks,
)  # fmt: skip
