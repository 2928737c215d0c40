"""Figure 1: what each aggregation does to the parties' parameters."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from papers.fed_plus.jobs import times
from papers.fed_plus.panels import per_method, read
from papers.fed_plus.plot import colour
from papers.fed_plus.results import csv_of, json_of
from papers.fed_plus.study import Asked, Files, Study

from fedplus.report.table_formats import markdown_table
from papers.fed_plus import failure

FILE, TIMES = "figure1.csv", "figures-1-to-3-times.json"


def collect(asked: Asked) -> Files:
    """A row a setting, method and round: means over parties and seeds, and the largest seed's."""
    records = []
    for group in failure.grouped(failure.runs(asked)).values():
        figures = [_figures(run.lines) for run in group]
        rounds = min(len(one["round"]) for one in figures)
        for i in range(rounds):
            std = [one["change_std"][i] for one in figures]
            records.append(
                failure.about(group)
                | {
                    "round": figures[0]["round"][i],
                    "change_mean": float(np.mean([one["change_mean"][i] for one in figures])),
                    "change_std": float(np.mean(std)),
                    "change_std_most": float(np.max(std)),
                }
            )
    return {FILE: csv_of(records), TIMES: json_of(times(failure.shared(asked).folder))}


def _figures(lines: list[dict[str, Any]]) -> dict[str, list[float]]:
    names = ("round", "change_mean", "change_std")
    return {name: [v for line in lines for v in line["figures"][name]] for name in names}


def draw(results: Path) -> Mapping[str, Any]:
    """A panel a setting and method: mean ± standard deviation over the parameters."""
    records = read(results / FILE)
    if not records:
        return {}

    def panel(axes: Any, mine: list[dict[str, Any]]) -> None:
        rounds, mean, std = (
            np.array([one[name] for one in mine]) for name in ("round", "change_mean", "change_std")
        )
        of = colour(mine[0]["method"])
        axes.fill_between(rounds, mean - std, mean + std, color=of, alpha=0.35, linewidth=0)
        axes.plot(rounds, mean, color=of, linewidth=1.2)
        if not std.any():
            axes.text(0.5, 0.6, "0: it keeps\nits own model", ha="center", fontsize=8,
                      transform=axes.transAxes)  # fmt: skip

    figure = per_method(
        records, panel, "change of a parameter",
        "What each aggregation does to the parameters of a party's model: mean ± standard deviation",
    )  # fmt: skip
    return {"figure1": figure}


def blocks(results: Path) -> Mapping[str, str]:
    """The change in the first rounds, in the last ones and at its largest."""
    rows = []
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in read(results / FILE):
        groups.setdefault((one["setting"], one["method"]), []).append(one)
    for mine in groups.values():
        std = np.array([one["change_std"] for one in mine])
        tenth = max(1, len(std) // 10)
        most = np.array([one["change_std_most"] for one in mine])
        top = int(most.argmax())
        rows.append([
            f"{mine[0]['label']}, {mine[0]['steps']:g} steps", f"{std[:tenth].mean():.4f}",
            f"{std[-tenth:].mean():.4f}", f"{most[top]:.4f}" if most[top] else "–",
            f"{mine[top]['round']:g}" if most[top] else "–",
        ])  # fmt: skip
    heads = ["", "first tenth of the rounds", "last tenth", "largest of a seed", "in round"]
    return {"figure1": markdown_table(heads, rows)} if rows else {}


STUDY = Study(
    "figure1", "Figure 1: weight change before and after each aggregation, portfolio management",
    failure.train, collect, draw, blocks,
)  # fmt: skip
