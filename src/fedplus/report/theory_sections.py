"""Sections of the report on theory: the aggregator's convergence, and Theorem 1.

The certificate of Theorem 1 is the section that shows whether F_σ never rose, as the theorem says.
"""

from collections.abc import Sequence

import numpy as np

from fedplus._types import NumpyArray
from fedplus.report.formatting import UNKNOWN, capitalised, count_of, join_names, significant_digits
from fedplus.report.groups import Group
from fedplus.report.round_charts import (
    Section,
    choice_section,
    curves_by_label,
    line_chart,
    round_values,
)
from fedplus.report.run_data import RunData, finite_mean

ROUNDING = 1e-6
"""Relative increase of F_σ that rounding errors explain."""


def theorem_1_section(groups: Sequence[Group]) -> Section | None:
    """Return the section with the certificate of Theorem 1 (F_σ never rises), if F_σ was recorded."""
    curves = curves_by_label(groups, _recorded_objective)
    if not curves:
        return None
    clauses, never_rising, rows = [], [], []
    for group, _, curve in curves:
        rise, round_ = _largest_rise(group)
        since = _theorem_1_round(group)
        rise_text = "none" if round_ is None else f"{100 * rise:.2g} % at round {round_}"
        if since is None:
            rise_text = UNKNOWN
            clauses.append(
                f"Theorem 1 never applies to {group.label}, whose runs do not meet its conditions"
            )
        elif round_ is None:
            never_rising.append(group.label)
        else:
            clauses.append(f"under {group.label} it rises, at most by {rise_text}")
        ends = significant_digits(curve.y[0]), significant_digits(curve.y[-1])
        rows.append([group.label, *ends, UNKNOWN if since is None else f"{since:,}", rise_text])
    if never_rising:
        clauses.insert(0, f"the objective never rises under {join_names(never_rising)}")
    finding = capitalised("; ".join(clauses)) + "."
    alt_text = f"The objective F_σ over rounds. {finding}"
    chart = line_chart(curves, y="F<sub>σ</sub>", alt_text=alt_text)
    table = {
        "head": ["", "first", "last", "applies from round", "largest rise from there"],
        "rows": rows,
    }
    option = {"name": "", "finding": finding, "charts": [chart], "table": table}
    note = (
        "Theorem 1: with full gradients and a small enough η the objective never rises. "
        "It applies from the round on by which all parties have joined and ψ, σ and the aggregator no "
        "longer change, if λ is 0 from there on, ψ defines the aggregator, which gets the models of "
        "all parties, and there are only gradient steps, no weights, faults or server optimizer. "
        "From there each evaluated round is compared with the one before; a rise below a millionth is "
        "rounding."
    )
    return choice_section("certificate", "Certificate of Theorem 1", [option], note=note)


def _recorded_objective(run: RunData) -> tuple[NumpyArray, NumpyArray]:
    """Return the rounds where F_σ is known, and its values."""
    known = np.isfinite(run.summaries["objective"])
    return run.rounds[known], run.summaries["objective"][known]


def _largest_rise(group: Group) -> tuple[float, int | None]:
    """Return the largest relative rise of F_σ over all seeds, and the round after it (or None).

    Only rises of rounds to which Theorem 1 applies count.
    """
    largest: tuple[float, int | None] = (0.0, None)
    for run in group.evaluated_runs:
        rounds, objective = _recorded_objective(run)
        applies = run.summaries["theorem_1"][np.isfinite(run.summaries["objective"])] == 1
        rise = np.diff(objective) / np.maximum(np.abs(objective[:-1]), 1e-30)
        rise = np.where(applies[:-1], rise, 0)
        if rise.size and rise.max() > max(ROUNDING, largest[0]):
            largest = float(rise.max()), int(rounds[1 + rise.argmax()])
    return largest


def _theorem_1_round(group: Group) -> int | None:
    """Return the first evaluated round from which on Theorem 1 applies under every seed, or None."""
    first = []
    for run in group.evaluated_runs:
        applies = run.rounds[run.summaries["theorem_1"] == 1]
        if not applies.size:
            return None
        first.append(int(applies[0]))
    return max(first, default=None)


def convergence_section(groups: Sequence[Group]) -> Section | None:
    """Return the section with iterations, residuals and dropped models of the aggregator."""
    options, rows = [], []
    labels_by_problem: dict[str, list[str]] = {}
    for group in groups:
        figures = {key: np.concatenate([run.figures[key] for run in group.runs])
                   for key in ("iterations", "converged", "residual", "dropped")}  # fmt: skip
        if not figures["iterations"].size:
            continue
        converged = figures["converged"][np.isfinite(figures["converged"])]
        dropped = int(np.nansum(figures["dropped"]))
        residual = figures["residual"][np.isfinite(figures["residual"])]
        rows.append([
            group.label, significant_digits(float(finite_mean(figures["iterations"]))),
            f"{100 * converged.mean():.1f} %" if converged.size else UNKNOWN,
            f"{residual.max():.2g}" if residual.size else UNKNOWN, f"{dropped:,}",
        ])  # fmt: skip
        problems = []
        if unconverged := int((converged == 0).sum()):
            all_rounds = count_of(converged.size, "round")
            problems.append(f"{unconverged:,} of {all_rounds} stop short of convergence")
        if dropped > 0:
            problems.append(f"{count_of(dropped, 'model')} dropped")
        if problems:
            labels_by_problem.setdefault(", ".join(problems), []).append(group.label)
    clauses = [f"{join_names(labels)}: {text}" for text, labels in labels_by_problem.items()]
    finding = "; ".join(clauses) + "."
    if not clauses:
        finding = "Every round converges, and no model is dropped."
    table = {
        "head": ["", "iterations per round", "converged", "largest residual", "models dropped"],
        "rows": rows,
    }
    for name, key, log in (
        ("iterations", "iterations", False), ("residual", "residual", True),
        ("models dropped", "dropped", False),
    ):  # fmt: skip
        curves = curves_by_label(groups, round_values(key))
        if any((curve.y > 0).any() for _, _, curve in curves):
            alt_text = f"Aggregator: {name} in each round. {finding}"
            chart = line_chart(curves, y=name, log=log, bands=False, alt_text=alt_text)
            options.append({"name": name, "finding": finding, "charts": [chart], "table": table})
    section = choice_section("aggregator", "Convergence of the aggregator", options, "Show")
    return section and {**section, "open": True}
