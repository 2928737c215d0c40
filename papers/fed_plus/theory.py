"""The theory of section 4.5 as figures: F_σ over rounds, the O(1/t) rate, Theorem 2's residuals."""

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
from papers.fed_plus.jobs import Job, carry_out
from papers.fed_plus.measured import Course, course, lipschitz
from papers.fed_plus.results import csv_of, read_json
from papers.fed_plus.specs import spec, wanted
from papers.fed_plus.study import Asked, Files, Study
from papers.fed_plus.training import runs_of, trained

from fedplus.experiments.files import write_json
from fedplus.experiments.runner import PreparedRun, prepare
from fedplus.experiments.spec import Method, Spec, parse_spec, to_toml
from fedplus.experiments.toml_source import TomlSource
from papers.fed_plus import theory_plot, theory_text

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
    """Ordinary runs, which record F_σ; then the same in float64, where residuals can be told."""
    one = specification(asked)
    if asked.only not in NAME:
        return
    trained(asked, {NAME: one})
    jobs = [
        Job(f"measure {method.name}", _measure, (str(_place(asked, method)), to_toml(one), i))
        for i, method in enumerate(one.methods)
        if not _place(asked, method).exists()
    ]
    carry_out(asked, jobs)


def _place(asked: Asked, method: Method) -> Path:
    return asked.folder / "measured" / f"{method.name}.json"


def _measure(place: str, toml: str, i: int) -> None:
    """One variant: its row of the table and its curves go into a file."""
    one = parse_spec(tomllib.loads(toml), TomlSource())
    ready, rounds, method = prepare(one, 0), int(one.train.rounds or 1), one.methods[i]
    found = course(ready, i, rounds=rounds)
    exact = course(ready, i, rounds=max(rounds // 4, 50), steps=EXACT)
    least = float(min(found.f_sigma.min(), exact.f_sigma.min()))
    row = {
        "method": method.name, "label": method.label,
        "L_f": lipschitz(ready.federation), "eta": method.settings["eta"],
        **_row(ready, i, rounds, found, exact, least),
    }  # fmt: skip
    Path(place).parent.mkdir(parents=True, exist_ok=True)
    curves = _curve(method.name, found, exact, least)
    every = found.f_sigma[:: one.train.evaluate_every].tolist()
    write_json(Path(place), {"row": row, "curves": curves, "f_sigma": every})


def collect(asked: Asked) -> Files:
    """Curves and a table, in float64, beside what the runs recorded in float32."""
    one = specification(asked)
    there = [method for method in one.methods if _place(asked, method).exists()]
    if asked.only not in NAME or not there:
        return {}
    recorded = {run.status["method"]: run.lines for run in runs_of(one, asked.folder / NAME)}
    found = {method.name: read_json(_place(asked, method)) for method in there}
    rows = [
        of["row"] | {"recorded": _apart(of["f_sigma"][1:], recorded.get(name, []))}
        for name, of in found.items()
    ]
    return {
        "theory.csv": csv_of(rows), "theory.toml": to_toml(one),
        "theory-curves.csv": csv_of([point for of in found.values() for point in of["curves"]]),
    }  # fmt: skip


def _row(
    ready: PreparedRun, i: int, rounds: int, found: Course, exact: Course, least: float
) -> dict[str, Any]:
    t = np.arange(rounds + 1)
    gap = found.f_sigma - least
    some = course(ready, i, rounds=rounds, active=ACTIVE)
    alone = course(ready, i, rounds=rounds, active=ACTIVE, over="active")
    return {
        "rounds": rounds, "first": float(found.f_sigma[0]), "least": least,
        "last_gap": float(gap[-1]),
        "rises": rises(found), "rises_some": rises(some), "rises_active": rises(alone),
        "t_gap": float((t * gap).max()), "t_gap_at": int((t * gap).argmax()),
        "t_gap_last": float(t[-1] * gap[-1]),
        "gradient_first": float(found.gradient[0]), "gradient_last": float(found.gradient[-1]),
        "gradient_some": float(some.gradient[-1]),
        "consensus": float(exact.consensus[-1]), "local": float(exact.local[-1]),
        "exact_rounds": len(exact.f_sigma) - 1,
    }  # fmt: skip


def rises(found: Course) -> int:
    """In how many rounds F_σ rose, beyond rounding."""
    return int((np.diff(found.f_sigma) > 1e-12 * found.f_sigma[0]).sum())


def _curve(name: str, found: Course, exact: Course, least: float) -> list[dict[str, Any]]:
    """At rounds that are even on a logarithmic axis."""
    return [
        {
            "method": name, "solve": kind, "round": int(t), "f_sigma": float(seen.f_sigma[t]),
            "gap": max(float(seen.f_sigma[t]) - least, 0.0),
            "gradient": float(seen.gradient[t]), "consensus": float(seen.consensus[t]),
            "local": float(seen.local[t]),
        }
        for kind, seen in (("one step", found), ("exact", exact))
        for t in np.unique(np.geomspace(1, len(seen.f_sigma) - 1, 30).round().astype(int))
    ]  # fmt: skip


def _apart(f_sigma: list[float], lines: list[dict[str, Any]]) -> float | None:
    """The largest relative difference to F_σ as the runs recorded it, at the evaluated rounds."""
    pairs = zip(f_sigma, lines, strict=True)
    return max((abs(1 - line["objective"] / value) for value, line in pairs), default=None)


STUDY = Study(
    NAME, "Theorems 1 and 2: F_σ over rounds, the O(1/t) rate, residuals of fixed points",
    train, collect, theory_plot.draw, theory_text.blocks,
)  # fmt: skip
