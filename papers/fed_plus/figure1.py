"""Figure 1: how much each aggregation changes the parties' parameters."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from papers.fed_plus.jobs import read_durations
from papers.fed_plus.plot import method_colour, plot_per_method
from papers.fed_plus.results import Record, group_records, read_csv_if_exists, to_csv, to_json
from papers.fed_plus.study import Files, Study, StudyOptions

from fedplus.report.table_formats import markdown_table
from papers.fed_plus import portfolio_runs

FILE, DURATIONS = "figure1.csv", "figures-1-to-3-times.json"


def collect(options: StudyOptions) -> Files:
    """Return one row per setting, method and round: means over parties and seeds, and the maximum."""
    records = []
    for group in portfolio_runs.group_by_method(portfolio_runs.runs(options)).values():
        changes = [_changes_per_round(run.lines) for run in group]
        rounds = min(len(of_run["round"]) for of_run in changes)
        for i in range(rounds):
            means = [of_run["change_mean"][i] for of_run in changes]
            stds = [of_run["change_std"][i] for of_run in changes]
            records.append(
                portfolio_runs.identifying_columns(group)
                | {
                    "round": changes[0]["round"][i],
                    "change_mean": float(np.mean(means)),
                    "change_std": float(np.mean(stds)),
                    "change_std_most": float(np.max(stds)),
                }
            )
    durations = read_durations(portfolio_runs.with_shared_folder(options).folder)
    return {FILE: to_csv(records), DURATIONS: to_json(durations)}


def _changes_per_round(lines: list[dict[str, Any]]) -> dict[str, list[float]]:
    names = ("round", "change_mean", "change_std")
    return {name: [v for line in lines for v in line["figures"][name]] for name in names}


def draw(results: Path) -> Mapping[str, Any]:
    """Return one panel per setting and method: mean ± standard deviation over the parameters."""
    records = read_csv_if_exists(results / FILE)
    if not records:
        return {}

    def panel(axes: Any, of_method: list[Record]) -> None:
        rounds, mean, std = (
            np.array([record[name] for record in of_method])
            for name in ("round", "change_mean", "change_std")
        )
        colour = method_colour(of_method[0]["method"])
        axes.fill_between(rounds, mean - std, mean + std, color=colour, alpha=0.35, linewidth=0)
        axes.plot(rounds, mean, color=colour, linewidth=1.2)
        if not std.any():
            axes.text(0.5, 0.6, "0: it keeps\nits own model", ha="center", fontsize=8,
                      transform=axes.transAxes)  # fmt: skip

    figure = plot_per_method(
        records, panel, "change of a parameter",
        "What each aggregation does to the parameters of a party's model: mean ± standard deviation",
    )  # fmt: skip
    return {"figure1": figure}


def blocks(results: Path) -> Mapping[str, str]:
    """Return a table of the change in the first and last rounds, and at its largest."""
    rows = []
    groups = group_records(read_csv_if_exists(results / FILE), "setting", "method")
    for group in groups.values():
        std = np.array([record["change_std"] for record in group])
        tenth = max(1, len(std) // 10)
        largest = np.array([record["change_std_most"] for record in group])
        peak = int(largest.argmax())
        rows.append([
            f"{group[0]['label']}, {group[0]['steps']:g} steps", f"{std[:tenth].mean():.4f}",
            f"{std[-tenth:].mean():.4f}", f"{largest[peak]:.4f}" if largest[peak] else "–",
            f"{group[peak]['round']:g}" if largest[peak] else "–",
        ])  # fmt: skip
    headings = ["", "first tenth of the rounds", "last tenth", "largest of a seed", "in round"]
    return {"figure1": markdown_table(headings, rows)} if rows else {}


STUDY = Study(
    "figure1", "Figure 1: weight change before and after each aggregation, portfolio management",
    portfolio_runs.train, collect, draw, blocks,
)  # fmt: skip
