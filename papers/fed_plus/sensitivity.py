"""How the answer of Table 2 depends on δ, σ, the noise and the share of outliers."""

from collections.abc import Mapping
from typing import Any

from papers.fed_plus.results import csv_of
from papers.fed_plus.specs import chosen, spec, wanted
from papers.fed_plus.study import Asked, Files, Study
from papers.fed_plus.training import runs_of, trained

from fedplus.experiments.run_folder import RunFolder
from fedplus.experiments.spec import Spec, to_toml
from fedplus.report.table_formats import as_records
from fedplus.report.tables import comparison_table
from papers.fed_plus import sensitivity_plot, sensitivity_text

OF_DATA: dict[str, tuple[str, tuple[float, ...]]] = {
    "noise": ("data.scale", (0.25, 0.5, 1.0, 2.0, 4.0)),
    "outliers": ("data.outliers", (0.0, 0.1, 0.2, 0.3, 0.4)),
}
"""Sweeps over a setting of the data: a study a value."""
OF_METHOD = ("delta", "sigma")
"""Sweeps over a setting of the methods: in the specification itself."""
MOST_SEEDS = 3
TRY: dict[str, Any] = {"train.rounds": 5, "train.evaluate_every": 5}
SMALL = dict.fromkeys((*OF_METHOD, "outliers"), "digits-robust") | {"noise": "digits-personal"}
"""The same recipes on small images, for a try."""


def specs_of(asked: Asked) -> dict[str, Spec]:
    """All specifications by folder; the sweep's name comes first."""

    def of(sweep: str, settings: dict[str, Any]) -> Spec:
        quick = TRY | {"data.name": SMALL[sweep]} if asked.quick else {}
        return spec(f"sensitivity-{sweep}", quick | settings, asked.seeds[:MOST_SEEDS])

    found = {sweep: of(sweep, {}) for sweep in OF_METHOD}
    for sweep, (setting, values) in OF_DATA.items():
        for value in values:
            found[f"{sweep}-{value:g}"] = of(sweep, {setting: value})
    return {name: wanted(one, asked) for name, one in chosen(found, asked).items()}


def train(asked: Asked) -> None:
    """All of them."""
    trained(asked, specs_of(asked))


def collect(asked: Asked) -> Files:
    """``sensitivity.csv``: a row a sweep, value and method."""
    rows: list[dict[str, Any]] = []
    specs = specs_of(asked)
    for name, one in specs.items():
        runs = runs_of(one, asked.folder / name)
        if runs:
            rows += _of_method(name, runs) if name in OF_METHOD else _of_data(name, runs)
    if not rows:
        return {}
    return {"sensitivity.csv": csv_of(rows)} | {
        f"sensitivity-{name}.toml": to_toml(one) for name, one in specs.items() if name in OF_METHOD
    }


def _of_data(name: str, runs: list[RunFolder]) -> list[dict[str, Any]]:
    sweep, _, value = name.partition("-")
    return [_row(sweep, float(value), record) for record in as_records(comparison_table(runs))]


def _of_method(sweep: str, runs: list[RunFolder]) -> list[dict[str, Any]]:
    """The value is the method's own setting; local training and FedAvg have none."""
    values = {run.status["label"]: run.spec["methods"][0].get(sweep) for run in runs}
    return [
        _row(sweep, values.get(record["label"]), record)
        for record in as_records(comparison_table(runs))
    ]


def _row(sweep: str, value: float | None, record: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("seeds", "mean", "mean_std", "the_others", "outliers", "outliers_std", "worst_party")
    return {
        "sweep": sweep, "value": value, "method": record["method"] or "majority",
        **{key: record.get(key) for key in kept},
    }  # fmt: skip


STUDY = Study(
    "sensitivity", "how Table 2 depends on δ, σ, the noise and the share of outliers",
    train, collect, sensitivity_plot.draw, sensitivity_text.blocks,
)  # fmt: skip
