"""Figure 3: how good a party's model is on the way from its own to the aggregate."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from papers.fed_plus.panels import per_method, read
from papers.fed_plus.plot import colour
from papers.fed_plus.results import csv_of
from papers.fed_plus.study import Asked, Files, Study

from fedplus.report.table_formats import markdown_table
from papers.fed_plus import failure

FILE = "figure3.csv"


def collect(asked: Asked) -> Files:
    """A row a setting, method, λ: of the last aggregation, means over parties, in basis points a day.

    ``before`` is the aggregate at the evaluation before (the paper's dashed line).
    """
    records = []
    for group in failure.grouped(failure.runs(asked)).values():
        ends = [run.lines[-2:] for run in group if len(run.lines) > 1]
        if not ends:
            continue
        before = [np.mean(first["global_score"]) for first, _ in ends]
        for i, lam in enumerate(ends[0][1]["path"]["lambda"]):
            of = failure.BASIS_POINTS * np.array(
                [np.mean(last["path"]["score"][i]) for _, last in ends]
            )
            records.append(
                failure.about(group)
                | {
                    "round": ends[0][1]["round"], "lambda": lam, "mean": float(of.mean()),
                    "least": float(of.min()), "most": float(of.max()),
                    "before": failure.BASIS_POINTS * float(np.mean(before)),
                }
            )  # fmt: skip
    return {FILE: csv_of(records)}


def draw(results: Path) -> Mapping[str, Any]:
    """A panel a setting and method, as the paper has it: λ = 0 before, λ = 1 after."""
    records = read(results / FILE)
    if not records:
        return {}

    def panel(axes: Any, mine: list[dict[str, Any]]) -> None:
        lam, mean, least, most = (
            np.array([one[name] for one in mine]) for name in ("lambda", "mean", "least", "most")
        )
        of = colour(mine[0]["method"])
        axes.fill_between(lam, least, most, color=of, alpha=0.2, linewidth=0)
        axes.plot(lam, mean, color=of, marker="o")
        axes.axhline(mine[0]["before"], color="black", linestyle="--", linewidth=0.9)

    figure = per_method(
        records, panel, "basis points a day",
        "Return on training days from a party's own model (λ = 0) to the aggregate (λ = 1), last "
        "aggregation; dashed: the aggregate one evaluation before",
        xlabel="λ",
    )  # fmt: skip
    return {"figure3": figure}


def blocks(results: Path) -> Mapping[str, str]:
    """Both ends of the way, and the aggregate before."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in read(results / FILE):
        groups.setdefault((one["setting"], one["method"]), []).append(one)
    rows = [
        [
            f"{mine[0]['label']}, {mine[0]['steps']:g} steps", f"{mine[0]['before']:.1f}",
            *(f"{one['mean']:.1f}" for one in mine),
        ]
        for mine in groups.values()
    ]  # fmt: skip
    if not rows:
        return {}
    lams = [f"λ = {one['lambda']:g}" for one in next(iter(groups.values()))]
    return {"figure3": markdown_table(["", "aggregate before", *lams], rows)}


STUDY = Study(
    "figure3", "Figure 3: performance along λ between local and global, portfolio management",
    failure.train, collect, draw, blocks,
)  # fmt: skip
