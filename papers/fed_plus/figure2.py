"""Figure 2: training curves, and whether training collapses."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from papers.fed_plus.held_out import held_out
from papers.fed_plus.panels import read
from papers.fed_plus.plot import colour, marker, pyplot
from papers.fed_plus.results import csv_of
from papers.fed_plus.study import Asked, Files, Study

from fedplus.report.table_formats import markdown_table
from papers.fed_plus import failure

FILE, HELD_OUT = "figure2.csv", "figure2-held-out.csv"
UNIFORM = "uniform"


def collect(asked: Asked) -> Files:
    """A row a setting, method and evaluated round, in basis points a day; and days not trained on."""
    records, aside = [], []
    for group in failure.grouped(failure.runs(asked)).values():
        curves = [[line["personal"]["mean"] for line in run.lines] for run in group]
        uniform = float(np.mean([run.folder.parties["majority"] for run in group]))
        aside.append(failure.about(group) | held_out(group))
        for i, line in enumerate(group[0].lines):
            of = failure.BASIS_POINTS * np.array([one[i] for one in curves if i < len(one)], float)
            records.append(
                failure.about(group)
                | {
                    "round": line["round"], "mean": float(of.mean()), "least": float(of.min()),
                    "most": float(of.max()), UNIFORM: failure.BASIS_POINTS * uniform,
                }
            )  # fmt: skip
    return {FILE: csv_of(records), HELD_OUT: csv_of(aside)}


def draw(results: Path) -> Mapping[str, Any]:
    """A panel a setting, a curve a method; the band is from the worst to the best seed."""
    records = read(results / FILE)
    if not records:
        return {}
    plt = pyplot()
    settings = list(dict.fromkeys(one["setting"] for one in records))
    figure, grid = plt.subplots(
        1, len(settings), figsize=(4.8 * len(settings), 3.6), squeeze=False, sharey=True,
        layout="constrained",
    )  # fmt: skip
    for axes, setting in zip(grid[0], settings, strict=True):
        here = [one for one in records if one["setting"] == setting]
        for method in dict.fromkeys(one["method"] for one in here):
            mine = [one for one in here if one["method"] == method]
            rounds, mean, least, most = (
                np.array([one[name] for one in mine]) for name in ("round", "mean", "least", "most")
            )
            done = rounds * mine[0]["steps"]
            style = {"color": colour(method), "label": mine[0]["label"]}
            axes.fill_between(done, least, most, color=colour(method), alpha=0.15, linewidth=0)
            axes.plot(done, mean, marker=marker(method), markevery=max(1, len(mine) // 8), **style)
        axes.axhline(here[0][UNIFORM], color="black", linewidth=0.8, linestyle=":")
        axes.set(
            xlabel="steps of a party", title=f"{here[0]['steps']:g} steps between aggregations"
        )
    grid[0, 0].set_ylabel("return on training days\n(basis points a day, mean over parties)")
    grid[0, -1].legend(fontsize=8, ncols=2, loc="upper left")
    figure.suptitle("Dotted: the uniform portfolio", fontsize=8)
    plt.close(figure)
    return {"figure2": figure}


def blocks(results: Path) -> Mapping[str, str]:
    """Where each curve begins, its top and its end; beside it, days that nobody trained on."""
    aside = {(one["setting"], one["method"]): one for one in read(results / HELD_OUT)}
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in read(results / FILE):
        groups.setdefault((one["setting"], one["method"]), []).append(one)
    rows = []
    for key, mine in groups.items():
        curve = [one["mean"] for one in mine]
        low = min(mine, key=lambda one: one["least"])
        rows.append([
            f"{mine[0]['label']}, {mine[0]['steps']:g} steps", f"{curve[0]:.1f}", f"{max(curve):.1f}",
            f"{low['least']:.1f} in round {low['round']:g}",
            f"{curve[-1]:.1f} ({mine[-1]['least']:.1f} to {mine[-1]['most']:.1f})",
            f"{aside[key]['validation']:.1f}", f"{aside[key]['test']:.1f}",
        ])  # fmt: skip
    if not rows:
        return {}
    one = next(iter(groups.values()))[0]
    other = next(iter(aside.values()))
    rows.append([
        "uniform portfolio", "", "", "", f"{one[UNIFORM]:.1f}", f"{other['uniform_validation']:.1f}",
        f"{other['uniform_test']:.1f}",
    ])  # fmt: skip
    heads = [
        "", "first evaluation", "best", "lowest of a seed", "last (over seeds)", "validation days",
        "test days",
    ]  # fmt: skip
    return {"figure2": markdown_table(heads, rows)}


STUDY = Study(
    "figure2", "Figure 2: training curves and collapse, portfolio management",
    failure.train, collect, draw, blocks,
)  # fmt: skip
