"""A method's candidates judged on several splits: what fails on one of them is not taken."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedplus.check import require
from fedplus.simulation.tune import is_at_edge


def merged(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One method's candidates over all splits: the best mean; none that diverged on any split.

    >>> on = lambda *scores: {"rounds": 5, "better": "higher", "trials": [
    ...     {"settings": {"eta": eta}, "mean": mean} for eta, mean in zip((0.1, 1.0), scores)]}
    >>> merged([on(0.5, 0.9), on(0.5, None)])["settings"]
    {'eta': 0.1}
    """
    by_settings: dict[str, list[float | None]] = {}
    for part in parts:
        for trial in part["trials"]:
            key = json.dumps(trial["settings"])  # In their order: of patterns the first match wins.
            by_settings.setdefault(key, []).append(trial["mean"])
    trials = [
        {"settings": json.loads(key), "mean": _mean(means)} for key, means in by_settings.items()
    ]
    sign = 1.0 if parts[0]["better"] == "lower" else -1.0
    trials.sort(key=lambda one: (one["mean"] is None, sign * (one["mean"] or 0.0)))
    best = trials[0]
    require(
        best["mean"] is not None, "grid", f"{len(trials)} candidates that all diverged",
        "settings of which one trains",
    )  # fmt: skip
    edge = [
        name
        for name, value in best["settings"].items()
        if is_at_edge(value, [one["settings"][name] for one in trials])
    ]
    return {
        "settings": best["settings"], "score": best["mean"], "at_edge": edge,
        "rounds": parts[0]["rounds"], "splits": len(parts), "trials": trials,
    }  # fmt: skip


def _mean(scores: Sequence[float | None]) -> float | None:
    known = [score for score in scores if score is not None and np.isfinite(score)]
    return float(np.mean(known)) if len(known) == len(scores) else None
