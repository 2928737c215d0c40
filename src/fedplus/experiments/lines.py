"""The lines of ``rounds.jsonl``, which is what simulated runs and deployments have in common."""

from typing import Any

import numpy as np

from fedplus._types import Host
from fedplus.simulation.evaluate import summary
from fedplus.simulation.record import Evaluated


def line_of(
    evaluated: Evaluated, size: Host, better: str, path: tuple[float, ...] = ()
) -> dict[str, Any]:
    """One line of ``rounds.jsonl``."""
    found, figures = evaluated.evaluation, evaluated.figures
    line: dict[str, Any] = {"round": evaluated.round}
    for which in ("personal", "global"):
        line[which] = summed_up(found[f"{which}_score"], size, better)
    for name in ("personal_score", "personal_loss", "global_score", "global_loss", "v_norm"):
        line[name] = numbers(found[name])
    if "objective" in found:
        line["objective"] = _number(found["objective"])
    if "path_score" in found:
        line["path"] = {"lambda": list(path), "score": [numbers(s) for s in found["path_score"]]}
    rounds = len(figures["dropped"])
    line["figures"] = {
        "round": list(range(evaluated.round - rounds + 1, evaluated.round + 1)),
        "change_mean": numbers(figures["change_mean"].mean(axis=1)),
        "change_std": numbers(figures["change_std"].mean(axis=1)),
        "change_most": numbers(figures["change_std"].max(axis=1)),
        "iterations": figures["iterations"].astype(int).tolist(),
        "residual": numbers(figures["residual"]),
        "converged": figures["converged"].astype(bool).tolist(),
        "dropped": figures["dropped"].astype(int).tolist(),
        "cohort": [int(figures["cohort"].shape[1])] * rounds,
    }
    return line


def summed_up(score: Host, size: Host, better: str) -> dict[str, float | None]:
    """Scores of all parties in a few numbers."""
    worst = score.min() if better == "higher" else score.max()
    told = {**summary(score, size, better)._asdict(), "worst": worst}
    return {name: _number(value) for name, value in told.items()}


def numbers(values: Any) -> list[float | None]:
    """As JSON has them: no more digits than float32 has, null for NaN and Inf."""
    return [_number(value) for value in np.asarray(values, float).ravel().tolist()]


def _number(value: Any) -> float | None:
    return float(f"{value:.8g}") if np.isfinite(value) else None
