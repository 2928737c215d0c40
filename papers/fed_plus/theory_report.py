"""Table and figure for Theorems 1 and 2, from the committed results."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from papers.fed_plus.plot import method_colour, method_marker, pyplot
from papers.fed_plus.results import read_csv

from fedplus.experiments.defaults import LABELS
from fedplus.report.table_formats import markdown_table


def blocks(results: Path) -> Mapping[str, str]:
    """Return the table of the theorems' numbers."""
    if not (results / "theory.csv").exists():
        return {}
    rows = read_csv(results / "theory.csv")
    rounds = int(rows[0]["rounds"])
    headings = [
        "variant", f"rises of F_σ in {rounds:,} rounds", "rises, 3 of 10 active",
        "rises, 3 of 10 active and aggregated (D1)", "F_σ: first", "last − min",
        "t(F_σ − min): largest", "at t", "at the end", "Σ‖∇F_k‖²: first", "last",
        "Theorem 2: ‖mean ∇f̂_k‖", "largest ‖∇F_k‖", "recorded in float32, off by",
    ]  # fmt: skip
    cells = [
        [
            row["label"], f"{row['rises']:.0f}", f"{row['rises_some']:.0f}",
            f"{row['rises_active']:.0f}", f"{row['first']:.4g}", f"{row['last_gap']:.1e}",
            f"{row['t_gap']:.3g}", f"{row['t_gap_at']:.0f}", f"{row['t_gap_last']:.2g}",
            f"{row['gradient_first']:.3g}", f"{row['gradient_last']:.1e}",
            f"{row['consensus']:.0e}", f"{row['local']:.0e}", f"{row['recorded']:.0e}",
        ]
        for row in rows
    ]  # fmt: skip
    return {"theory": markdown_table(headings, cells)}


TINY = 1e-15
"""A smaller gap is rounding error and is not drawn."""


def draw(results: Path) -> Mapping[str, Any]:
    """Return a figure of F_σ − min, of t times that, and of the residuals of Theorem 2, over rounds."""
    if not (results / "theory-curves.csv").exists():
        return {}
    rows = read_csv(results / "theory-curves.csv")
    plt = pyplot()
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    for name in dict.fromkeys(row["method"] for row in rows):
        style = {"color": method_colour(name), "marker": method_marker(name), "markevery": 3}
        one_step = [r for r in rows if r["method"] == name and r["solve"] == "one step"]
        exact = [r for r in rows if r["method"] == name and r["solve"] == "exact"]
        shown = [r for r in one_step if r["gap"] > TINY]
        label = LABELS[name]
        left.loglog([r["round"] for r in shown], [r["gap"] for r in shown], label=label, **style)
        middle.loglog([r["round"] for r in shown], [r["round"] * r["gap"] for r in shown], **style)
        right.loglog([r["round"] for r in exact], [max(r["local"], 1e-17) for r in exact], **style)
        right.loglog(
            [r["round"] for r in exact], [max(r["consensus"], 1e-17) for r in exact],
            color=method_colour(name), linestyle=":",
        )  # fmt: skip
    left.set(title="F_σ − min F_σ, one step a round", xlabel="round t")
    middle.set(title="t · (F_σ − min F_σ): bounded, so O(1/t)", xlabel="round t")
    right.set(title="residuals of Theorem 2, exact local solve", xlabel="round t")
    right.plot([], [], color="0.3", label="largest ‖∇F_k‖ of a party")
    right.plot([], [], color="0.3", linestyle=":", label="‖mean of ∇f̂_k‖")
    left.legend()
    right.legend(loc="center left")
    return {"theory": figure}
