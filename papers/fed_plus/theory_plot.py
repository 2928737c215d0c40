"""Theorems 1 and 2 as a figure."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from papers.fed_plus.plot import colour, marker, pyplot
from papers.fed_plus.results import read_csv

from fedplus.experiments.defaults import LABELS

TINY = 1e-15
"""Below this a gap is rounding."""


def draw(results: Path) -> Mapping[str, Any]:
    """F_σ − min, t times it, and the residuals of Theorem 2, over rounds."""
    if not (results / "theory-curves.csv").exists():
        return {}
    rows = read_csv(results / "theory-curves.csv")
    plt = pyplot()
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    for name in dict.fromkeys(row["method"] for row in rows):
        style = {"color": colour(name), "marker": marker(name), "markevery": 3}
        one = [r for r in rows if r["method"] == name and r["solve"] == "one step"]
        exact = [r for r in rows if r["method"] == name and r["solve"] == "exact"]
        shown = [r for r in one if r["gap"] > TINY]
        label = LABELS[name]
        left.loglog([r["round"] for r in shown], [r["gap"] for r in shown], label=label, **style)
        middle.loglog([r["round"] for r in shown], [r["round"] * r["gap"] for r in shown], **style)
        right.loglog([r["round"] for r in exact], [max(r["local"], 1e-17) for r in exact], **style)
        right.loglog(
            [r["round"] for r in exact], [max(r["consensus"], 1e-17) for r in exact],
            color=colour(name), linestyle=":",
        )  # fmt: skip
    left.set(title="F_σ − min F_σ, one step a round", xlabel="round t")
    middle.set(title="t · (F_σ − min F_σ): bounded, so O(1/t)", xlabel="round t")
    right.set(title="residuals of Theorem 2, exact local solve", xlabel="round t")
    right.plot([], [], color="0.3", label="largest ‖∇F_k‖ of a party")
    right.plot([], [], color="0.3", linestyle=":", label="‖mean of ∇f̂_k‖")
    left.legend()
    right.legend(loc="center left")
    return {"theory": figure}
