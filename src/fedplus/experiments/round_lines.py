"""Builds the lines of ``rounds.jsonl``, the format that simulated runs and deployments share."""

from typing import Any

import numpy as np

from fedplus._types import NumpyArray
from fedplus.simulation.evaluate import summary
from fedplus.simulation.recorder import NewEvaluation
from fedplus.work import RETRIES


def round_line(
    evaluated: NewEvaluation, size: NumpyArray, better: str, path: tuple[float, ...] = ()
) -> dict[str, Any]:
    """Return the line of ``rounds.jsonl`` for one evaluation.

    Args:
        evaluated: The evaluation, and the figures of the rounds since the previous one.
        size: (N,) number of test samples of each party.
        better: "higher" or "lower", the direction of the score.
        path: The values λ whose models are evaluated, if any.

    Returns:
        The line, as in docs/runs.md.
    """
    evaluation, figures = evaluated.evaluation, evaluated.figures
    line: dict[str, Any] = {"round": evaluated.round}
    for which in ("personal", "global"):
        line[which] = summarise_scores(evaluation[f"{which}_score"], size, better)
    for name in ("personal_score", "personal_loss", "global_score", "global_loss", "v_norm"):
        line[name] = json_numbers(evaluation[name])
    if "objective" in evaluation:
        line["objective"] = _json_number(evaluation["objective"])
        line["theorem_1"] = bool(evaluation["theorem_1"])
    if "path_score" in evaluation:
        line["path"] = {
            "lambda": list(path),
            "score": [json_numbers(scores) for scores in evaluation["path_score"]],
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
    n = len(size)
    adaptation = evaluation.get("adaptation_diverged", np.zeros(n, int))
    if figures["diverged"].any() or adaptation.any():
        counts = count_divergence(figures["cohort"], figures["diverged"], n)
        more = count_divergence(np.arange(n), adaptation, n)
        line["diverged"] = {
            name: np.add(counts[name], more[name]).tolist() for name in ("repeated", "given_up")
        }
    return line


def count_divergence(
    cohort: NumpyArray, diverged: NumpyArray, parties: int
) -> dict[str, list[int]]:
    """Return in how many rounds each party's local steps were repeated, and in how many given up.

    Args:
        cohort: (T, K), the active parties of each round.
        diverged: (T, K), how often their steps diverged.
        parties: N.

    >>> count_divergence(np.array([[0, 2]]), np.array([[1, 4]]), parties=3)
    {'repeated': [1, 0, 1], 'given_up': [0, 0, 1]}
    """
    counts = {"repeated": diverged > 0, "given_up": diverged > RETRIES}
    return {
        name: np.bincount(cohort[mask].ravel(), minlength=parties).tolist()
        for name, mask in counts.items()
    }


def summarise_scores(score: NumpyArray, size: NumpyArray, better: str) -> dict[str, float | None]:
    """Return the mean, the worst score and other summary statistics of all parties' scores.

    Args:
        score: (N,) score of each party.
        size: (N,) number of test samples of each party.
        better: "higher" or "lower", the direction of the score.
    """
    worst = score.min() if better == "higher" else score.max()
    statistics = {**summary(score, size, better)._asdict(), "worst": worst}
    return {name: _json_number(value) for name, value in statistics.items()}


def json_numbers(values: Any) -> list[float | None]:
    """Return numbers for JSON: with 8 significant digits, and None for NaN and Inf."""
    return [_json_number(value) for value in np.asarray(values, float).ravel().tolist()]


def _json_number(value: Any) -> float | None:
    return float(f"{value:.8g}") if np.isfinite(value) else None
