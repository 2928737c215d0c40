"""Figure 3: the score of a party's model on the line from its own model to the aggregate."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from papers.fed_plus.plot import method_colour, plot_per_method
from papers.fed_plus.portfolio_runs import BASIS_POINTS
from papers.fed_plus.results import Record, group_records, read_csv_if_exists, to_csv
from papers.fed_plus.study import Files, Study, StudyOptions

from fedplus.report.table_formats import markdown_table
from papers.fed_plus import portfolio_runs

FILE = "figure3.csv"


def collect(options: StudyOptions) -> Files:
    """Return one row per setting, method and λ, for the last aggregation.

    Scores are means over the parties, in basis points per day. ``before`` is the score of the aggregate
    at the evaluation before (the paper's dashed line).
    """
    records = []
    for group in portfolio_runs.group_by_method(portfolio_runs.runs(options)).values():
        last_two = [run.lines[-2:] for run in group if len(run.lines) > 1]
        if not last_two:
            continue
        before = [np.mean(line["global_score"]) for line, _ in last_two]
        last = last_two[0][1]
        for i, lam in enumerate(last["path"]["lambda"]):
            scores = BASIS_POINTS * np.array(
                [np.mean(line["path"]["score"][i]) for _, line in last_two]
            )
            records.append(
                portfolio_runs.identifying_columns(group)
                | {
                    "round": last["round"], "lambda": lam, "mean": float(scores.mean()),
                    "least": float(scores.min()), "most": float(scores.max()),
                    "before": BASIS_POINTS * float(np.mean(before)),
                }
            )  # fmt: skip
    return {FILE: to_csv(records)}


def draw(results: Path) -> Mapping[str, Any]:
    """Return one panel per setting and method, as in the paper: λ = 0 is before, λ = 1 after."""
    records = read_csv_if_exists(results / FILE)
    if not records:
        return {}

    def panel(axes: Any, of_method: list[Record]) -> None:
        lam, mean, least, most = (
            np.array([record[name] for record in of_method])
            for name in ("lambda", "mean", "least", "most")
        )
        colour = method_colour(of_method[0]["method"])
        axes.fill_between(lam, least, most, color=colour, alpha=0.2, linewidth=0)
        axes.plot(lam, mean, color=colour, marker="o")
        axes.axhline(of_method[0]["before"], color="black", linestyle="--", linewidth=0.9)

    figure = plot_per_method(
        records, panel, "basis points a day",
        "Return on training days from a party's own model (λ = 0) to the aggregate (λ = 1), last "
        "aggregation; dashed: the aggregate one evaluation before",
        xlabel="λ",
    )  # fmt: skip
    return {"figure3": figure}


def blocks(results: Path) -> Mapping[str, str]:
    """Return a table of the scores along the line, and of the aggregate before."""
    groups = group_records(read_csv_if_exists(results / FILE), "setting", "method")
    rows = [
        [
            f"{group[0]['label']}, {group[0]['steps']:g} steps", f"{group[0]['before']:.1f}",
            *(f"{record['mean']:.1f}" for record in group),
        ]
        for group in groups.values()
    ]  # fmt: skip
    if not rows:
        return {}
    lams = [f"λ = {record['lambda']:g}" for record in next(iter(groups.values()))]
    return {"figure3": markdown_table(["", "aggregate before", *lams], rows)}


STUDY = Study(
    "figure3", "Figure 3: performance along λ between local and global, portfolio management",
    portfolio_runs.train, collect, draw, blocks,
)  # fmt: skip
