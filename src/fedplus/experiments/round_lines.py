"""The lines of ``rounds.jsonl``, which is what simulated runs and deployments have in common."""

from typing import Any

import numpy as np

from fedplus._types import Host
from fedplus.simulation.evaluate import summary
from fedplus.simulation.recorder import NewEvaluation


def round_line(
    evaluated: NewEvaluation, size: Host, better: str, path: tuple[float, ...] = ()
) -> dict[str, Any]:
    """One line of ``rounds.jsonl``."""
    found, figures = evaluated.evaluation, evaluated.figures
    line: dict[str, Any] = {"round": evaluated.round}
    for which in ("personal", "global"):
        line[which] = summarise_scores(found[f"{which}_score"], size, better)
    for name in ("personal_score", "personal_loss", "global_score", "global_loss", "v_norm"):
        line[name] = json_numbers(found[name])
    if "objective" in found:
        line["objective"] = _number(found["objective"])
    if "path_score" in found:
        line["path"] = {
            "lambda": list(path),
            "score": [json_numbers(s) for s in found["path_score"]],
        }
    rounds = len(figures["dropped"])
    line["figures"] = {
        "round": list(range(evaluated.round - rounds + 1, evaluated.round + 1)),
        "change_mean": json_numbers(figures["change_mean"].mean(axis=1)),
        "change_std": json_numbers(figures["change_std"].mean(axis=1)),
        "change_most": json_numbers(figures["change_std"].max(axis=1)),
        "iterations": figures["iterations"].astype(int).tolist(),
        "residual": json_numbers(figures["residual"]),
        "converged": figures["converged"].astype(bool).tolist(),
        "dropped": figures["dropped"].astype(int).tolist(),
        "cohort": [int(figures["cohort"].shape[1])] * rounds,
    }
    return line


def summarise_scores(score: Host, size: Host, better: str) -> dict[str, float | None]:
    """Scores of all parties in a few numbers."""
    worst = score.min() if better == "higher" else score.max()
    told = {**summary(score, size, better)._asdict(), "worst": worst}
    return {name: _number(value) for name, value in told.items()}


def json_numbers(values: Any) -> list[float | None]:
    """As JSON has them: no more digits than float32 has, null for NaN and Inf."""
    return [_number(value) for value in np.asarray(values, float).ravel().tolist()]


def _number(value: Any) -> float | None:
    return float(f"{value:.8g}") if np.isfinite(value) else None
