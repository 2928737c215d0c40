"""The theory of section 4.5 as figures: F_σ over rounds, the O(1/t) rate, Theorem 2's residuals."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedplus.experiments.running import Prepared, prepared
from fedplus.experiments.spec import Spec, to_toml
from fedplus.paper import theory_text
from fedplus.paper.measured import Course, course, lipschitz
from fedplus.paper.results import csv_of
from fedplus.paper.specs import chosen, spec, wanted
from fedplus.paper.study import Asked, Files, Study
from fedplus.paper.training import runs_of, trained

NAME = "theory"
EXACT = 50
"""Steps a round that solve F_k as good as exactly, which is what Theorem 2 assumes."""
ACTIVE = 3
"""Parties a round where not all take part."""


def specification(asked: Asked) -> Spec:
    """The one of this study."""
    quick = {"train.rounds": 200, "train.evaluate_every": 20}
    return wanted(spec(NAME, quick if asked.quick else None, [0]), asked)


def train(asked: Asked) -> None:
    """Ordinary runs, which record F_σ."""
    trained(asked, chosen({NAME: specification(asked)}, asked))


def collect(asked: Asked) -> Files:
    """Curves and a table, in float64, beside what the runs recorded in float32."""
    if asked.only not in NAME:
        return {}
    one = specification(asked)
    ready, rounds = prepared(one, 0), int(one.train.rounds or 1)
    recorded = {run.status["method"]: run.lines for run in runs_of(one, asked.folder / NAME)}
    curves: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    for i, method in enumerate(one.methods):
        found = course(ready, i, rounds=rounds)
        exact = course(ready, i, rounds=max(rounds // 4, 50), steps=EXACT)
        least = min(found.f_sigma.min(), exact.f_sigma.min())
        curves += _curve(method.name, found, exact, least)
        rows.append(
            {
                "method": method.name, "label": method.label,
                "L_f": lipschitz(ready.federation), "eta": method.settings["eta"],
                **_row(ready, i, rounds, found, exact, least),
                "recorded": _apart(found, recorded.get(method.name, [])),
            }
        )  # fmt: skip
    return {
        "theory.csv": csv_of(rows), "theory-curves.csv": csv_of(curves),
        "theory.toml": to_toml(one),
    }  # fmt: skip


def _row(
    ready: Prepared, i: int, rounds: int, found: Course, exact: Course, least: float
) -> dict[str, Any]:
    t = np.arange(rounds + 1)
    gap = found.f_sigma - least
    some = course(ready, i, rounds=rounds, active=ACTIVE)
    alone = course(ready, i, rounds=rounds, active=ACTIVE, over="active")
    return {
        "rounds": rounds, "first": found.f_sigma[0], "least": least, "last_gap": gap[-1],
        "rises": rises(found), "rises_some": rises(some), "rises_active": rises(alone),
        "t_gap": float((t * gap).max()), "t_gap_at": int((t * gap).argmax()),
        "t_gap_last": float(t[-1] * gap[-1]),
        "gradient_first": found.gradient[0], "gradient_last": found.gradient[-1],
        "gradient_some": some.gradient[-1],
        "consensus": exact.consensus[-1], "local": exact.local[-1],
        "exact_rounds": len(exact.f_sigma) - 1,
    }  # fmt: skip


def rises(found: Course) -> int:
    """In how many rounds F_σ rose, beyond rounding."""
    return int((np.diff(found.f_sigma) > 1e-12 * found.f_sigma[0]).sum())


def _curve(name: str, found: Course, exact: Course, least: float) -> list[dict[str, Any]]:
    """At rounds that are even on a logarithmic axis."""
    return [
        {
            "method": name, "solve": kind, "round": int(t), "f_sigma": seen.f_sigma[t],
            "gap": max(seen.f_sigma[t] - least, 0.0), "gradient": seen.gradient[t],
            "consensus": seen.consensus[t], "local": seen.local[t],
        }
        for kind, seen in (("one step", found), ("exact", exact))
        for t in np.unique(np.geomspace(1, len(seen.f_sigma) - 1, 30).round().astype(int))
    ]  # fmt: skip


def _apart(found: Course, lines: list[dict[str, Any]]) -> float | None:
    """The largest relative difference to F_σ as the runs recorded it."""
    apart = [abs(1 - line["objective"] / found.f_sigma[line["round"]]) for line in lines]
    return max(apart) if apart else None


def draw(results: Path) -> Mapping[str, Any]:
    """One figure of three."""
    from fedplus.paper import theory_plot

    return theory_plot.draw(results)


STUDY = Study(
    NAME, "Theorems 1 and 2: F_σ over rounds, the O(1/t) rate, residuals of fixed points",
    train, collect, draw, theory_text.blocks,
)  # fmt: skip
