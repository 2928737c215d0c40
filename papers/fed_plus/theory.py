"""Theorems 1 and 2 (section 4.5) in numbers: F_σ over rounds, the O(1/t) rate, the residuals."""

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
from papers.fed_plus.jobs import Job, run_jobs
from papers.fed_plus.results import read_json, to_csv
from papers.fed_plus.specs import load_spec, select_methods
from papers.fed_plus.study import Files, Study, StudyOptions
from papers.fed_plus.training import ended_runs, train_specs
from papers.fed_plus.trajectory import Trajectory, largest_curvature, run_trajectory

from fedplus.experiments.run_folder_files import write_json
from fedplus.experiments.runner import PreparedRun, prepare
from fedplus.experiments.spec import Method, Spec, parse_spec, to_toml
from fedplus.experiments.toml_source import TomlSource
from papers.fed_plus import theory_report

NAME = "theory"
EXACT_STEPS = 50
"""Local steps per round that minimise F_k almost exactly, as Theorem 2 assumes."""
ACTIVE_PARTIES = 3
"""Number of active parties per round in the runs in which not all parties take part."""


def study_spec(options: StudyOptions) -> Spec:
    """Return the specification of the study."""
    quick = {"train.rounds": 200, "train.evaluate_every": 20}
    return select_methods(load_spec(NAME, quick if options.quick else None, [0]), options)


def train(options: StudyOptions) -> None:
    """Train ordinary runs, which record F_σ; then repeat them in float64, to measure the residuals."""
    spec = study_spec(options)
    if options.only not in NAME:
        return
    train_specs(options, {NAME: spec})
    paths = {i: _result_path(options, method) for i, method in enumerate(spec.methods)}
    jobs = [
        Job(f"measure {spec.methods[i].name}", _measure, (str(path), to_toml(spec), i))
        for i, path in paths.items()
        if not path.exists()
    ]
    run_jobs(options, jobs)


def _result_path(options: StudyOptions, method: Method) -> Path:
    return options.folder / "measured" / f"{method.name}.json"


def _measure(path: str, toml: str, index: int) -> None:
    """Run one method in float64, and write its row of the table and its curves to a file."""
    spec = parse_spec(tomllib.loads(toml), TomlSource())
    prepared, rounds, method = prepare(spec, 0), int(spec.train.rounds or 1), spec.methods[index]
    one_step = run_trajectory(prepared, index, rounds=rounds)
    exact = run_trajectory(prepared, index, rounds=max(rounds // 4, 50), steps=EXACT_STEPS)
    least = float(min(one_step.f_sigma.min(), exact.f_sigma.min()))
    row = {
        "method": method.name, "label": method.label,
        "L_f": largest_curvature(prepared.federation), "eta": method.settings["eta"],
        **_row(prepared, index, rounds, one_step, exact, least),
    }  # fmt: skip
    curves = _curve_points(method.name, one_step, exact, least)
    evaluated = one_step.f_sigma[:: spec.train.evaluate_every].tolist()
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_json(Path(path), {"row": row, "curves": curves, "f_sigma": evaluated})


def collect(options: StudyOptions) -> Files:
    """Return curves and a table, in float64, with the difference to what the runs recorded."""
    spec = study_spec(options)
    paths = {method.name: _result_path(options, method) for method in spec.methods}
    measured = {name: read_json(path) for name, path in paths.items() if path.exists()}
    if options.only not in NAME or not measured:
        return {}
    runs = ended_runs(spec, options.folder / NAME)
    recorded = {run.status["method"]: run.lines for run in runs}
    rows = [
        of_method["row"]
        | {"recorded": _largest_difference(of_method["f_sigma"][1:], recorded.get(name, []))}
        for name, of_method in measured.items()
    ]
    points = [point for of_method in measured.values() for point in of_method["curves"]]
    return {
        "theory.csv": to_csv(rows),
        "theory.toml": to_toml(spec),
        "theory-curves.csv": to_csv(points),
    }


def _row(
    prepared: PreparedRun, index: int, rounds: int, one_step: Trajectory, exact: Trajectory,
    least: float,
) -> dict[str, Any]:  # fmt: skip
    t = np.arange(rounds + 1)
    gap = one_step.f_sigma - least
    some = run_trajectory(prepared, index, rounds=rounds, active=ACTIVE_PARTIES)
    only_active = run_trajectory(
        prepared, index, rounds=rounds, active=ACTIVE_PARTIES, over="active"
    )
    return {
        "rounds": rounds, "first": float(one_step.f_sigma[0]), "least": least,
        "last_gap": float(gap[-1]),
        "rises": count_rises(one_step), "rises_some": count_rises(some),
        "rises_active": count_rises(only_active),
        "t_gap": float((t * gap).max()), "t_gap_at": int((t * gap).argmax()),
        "t_gap_last": float(t[-1] * gap[-1]),
        "gradient_first": float(one_step.gradient[0]),
        "gradient_last": float(one_step.gradient[-1]),
        "gradient_some": float(some.gradient[-1]),
        "consensus": float(exact.consensus[-1]), "local": float(exact.local[-1]),
        "exact_rounds": len(exact.f_sigma) - 1,
    }  # fmt: skip


def count_rises(trajectory: Trajectory) -> int:
    """Return the number of rounds in which F_σ rose by more than rounding error."""
    return int((np.diff(trajectory.f_sigma) > 1e-12 * trajectory.f_sigma[0]).sum())


def _curve_points(
    name: str, one_step: Trajectory, exact: Trajectory, least: float
) -> list[dict[str, Any]]:
    """Return points at rounds that are evenly spaced on a logarithmic axis."""
    return [
        {
            "method": name, "solve": kind, "round": int(t), "f_sigma": float(of_kind.f_sigma[t]),
            "gap": max(float(of_kind.f_sigma[t]) - least, 0.0),
            "gradient": float(of_kind.gradient[t]), "consensus": float(of_kind.consensus[t]),
            "local": float(of_kind.local[t]),
        }
        for kind, of_kind in (("one step", one_step), ("exact", exact))
        for t in np.unique(np.geomspace(1, len(of_kind.f_sigma) - 1, 30).round().astype(int))
    ]  # fmt: skip


def _largest_difference(f_sigma: list[float], lines: list[dict[str, Any]]) -> float | None:
    """Return the largest relative difference to F_σ as the run recorded it in float32."""
    pairs = zip(f_sigma, lines, strict=True)
    return max((abs(1 - line["objective"] / value) for value, line in pairs), default=None)


STUDY = Study(
    NAME, "Theorems 1 and 2: F_σ over rounds, the O(1/t) rate, residuals of fixed points",
    train, collect, theory_report.draw, theory_report.blocks,
)  # fmt: skip
