"""The charts that vouch for a run: the aggregator's convergence, and Theorem 1."""

from collections.abc import Sequence

import numpy as np

from fedplus.report.formatting import UNKNOWN, capitalised, count_of, join_names, significant_digits
from fedplus.report.groups import Group
from fedplus.report.round_charts import (
    Section,
    choice_section,
    curves_by_label,
    line_chart,
    round_values,
)
from fedplus.report.run_data import Host, RunData, mean_of_known

RISE = 1e-6
"""What F_σ may rise by, relative to itself, from rounding alone."""


def theorem_1_section(groups: Sequence[Group]) -> Section | None:
    """Section 10: Theorem 1, F_σ never rises."""
    found = curves_by_label(groups, _recorded)
    if not found:
        return None
    told, steady, rows = [], [], []
    for group, _, line in found:
        rise, at = _largest_rise(group)
        shown = f"{100 * rise:.2g} % at round {at}"
        if at is None:
            steady.append(group.label)
        else:
            told.append(f"under {group.label} it rises, at most by {shown}")
        rows.append(
            [
                group.label,
                significant_digits(line.y[0]),
                significant_digits(line.y[-1]),
                "none" if at is None else shown,
            ]
        )
    if steady:
        told.insert(0, f"the objective never rises under {join_names(steady)}")
    finding = capitalised("; ".join(told)) + "."
    chart = line_chart(found, y="F<sub>σ</sub>", words=f"The objective F_σ over rounds. {finding}")
    table = {"head": ["", "first", "last", "largest rise"], "rows": rows}
    option = {"name": "", "finding": finding, "charts": [chart], "table": table}
    note = (
        "Theorem 1: with full gradients and a small enough η the objective never rises. "
        "Compared from one evaluated round to the next; a rise below a millionth is rounding."
    )
    return choice_section("certificate", "Certificate of Theorem 1", [option], note=note)


def _recorded(run: RunData) -> tuple[Host, Host]:
    """F_σ where it was asked for."""
    known = np.isfinite(run.few["objective"])
    return run.rounds[known], run.few["objective"][known]


def _largest_rise(group: Group) -> tuple[float, int | None]:
    """Over its seeds, relative to F_σ before it, and the round it is seen at."""
    worst: tuple[float, int | None] = (0.0, None)
    for run in group.judged:
        t, f = _recorded(run)
        rise = np.diff(f) / np.maximum(np.abs(f[:-1]), 1e-30)
        if rise.size and rise.max() > max(RISE, worst[0]):
            worst = float(rise.max()), int(t[1 + rise.argmax()])
    return worst


def convergence_section(groups: Sequence[Group]) -> Section | None:
    """Section 9."""
    options, rows = [], []
    told: dict[str, list[str]] = {}
    for group in groups:
        figures = {key: np.concatenate([run.figures[key] for run in group.runs])
                   for key in ("iterations", "converged", "residual", "dropped")}  # fmt: skip
        if not figures["iterations"].size:
            continue
        met = figures["converged"][np.isfinite(figures["converged"])]
        dropped = int(np.nansum(figures["dropped"]))
        known = figures["residual"][np.isfinite(figures["residual"])]
        rows.append([
            group.label, significant_digits(float(mean_of_known(figures["iterations"]))),
            f"{100 * met.mean():.1f} %" if met.size else UNKNOWN,
            f"{known.max():.2g}" if known.size else UNKNOWN, f"{dropped:,}",
        ])  # fmt: skip
        stopped = (
            f"{int((met == 0).sum()):,} of {count_of(met.size, 'round')} stop short of convergence"
        )
        lost = f"{count_of(dropped, 'model')} dropped"
        trouble = [stopped] * bool((met == 0).any()) + [lost] * (dropped > 0)
        if trouble:
            told.setdefault(", ".join(trouble), []).append(group.label)
    finding = "; ".join(f"{join_names(labels)}: {text}" for text, labels in told.items()) + "."
    if not told:
        finding = "Every round converges, and no model is dropped."
    table = {
        "head": ["", "iterations a round", "converged", "largest residual", "models dropped"],
        "rows": rows,
    }
    for name, key, log in (
        ("iterations", "iterations", False), ("residual", "residual", True),
        ("models dropped", "dropped", False),
    ):  # fmt: skip
        found = curves_by_label(groups, round_values(key))
        if any((line.y > 0).any() for _, _, line in found):
            words = f"Aggregator: {name} in each round. {finding}"
            chart = line_chart(found, y=name, log=log, bands=False, words=words)
            options.append({"name": name, "finding": finding, "charts": [chart], "table": table})
    made = choice_section("aggregator", "The aggregator at work", options, "Show")
    return made and {**made, "open": True}
