"""Sections with one curve per method: learning curves, weight change at aggregation, λ-path.

The λ-path consists of the models (1 − λ)w_k + λw̃, from a party's own (λ = 0) to the global one.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedplus.report import downsample
from fedplus.report.formatting import (
    Score,
    capitalised,
    count_of,
    join_names,
    round_for_json,
    significant_digits,
)
from fedplus.report.groups import Curve, Group, average_curves
from fedplus.report.run_data import RunData

Section = dict[str, Any]
Series = Callable[[RunData], tuple[Any, Any]]
"""Function that returns the x values (rounds) and the y values of a run."""


def line_chart(
    curves: Sequence[tuple[Group, int, Curve]], *, x: str = "round", y: str, log: bool = False,
    factor: float = 1.0, bands: bool = True, alt_text: str,
) -> dict[str, Any]:  # fmt: skip
    """Return a line chart; curves with many points are downsampled to their peaks.

    Args:
        curves: Groups with their index (which selects the line style) and their curve.
        x: Title of the x axis.
        y: Title of the y axis.
        log: Use a logarithmic y axis, and leave out curves without positive values.
        factor: Factor of the displayed values, such as 100 for percentages.
        bands: Show the standard deviation over seeds as a band.
        alt_text: Description for screen readers.
    """
    most = max(50, downsample.MAX_LINE_POINTS // max(1, len(curves)))
    lines = []
    for group, index, curve in curves:
        if log and not (curve.y > 0).any():
            continue
        shown = downsample.peak_indices(curve.y, most)
        has_band = bands and bool(np.isfinite(curve.std).any())
        lines.append(
            {
                "label": group.label, "colour": group.colour, "index": index,
                "x": [float(v) if v % 1 else int(v) for v in curve.x[shown]],
                "y": round_for_json(factor * curve.y[shown]),
                "spread": round_for_json(factor * curve.std[shown]) if has_band else None,
            }
        )  # fmt: skip
    return {"kind": "lines", "x": x, "y": y, "log": log, "lines": lines, "alt_text": alt_text}


def evaluated_values(key: str) -> Series:
    """Return a series of one value per evaluated round."""
    return lambda run: (run.rounds, run.summaries[key])


def round_values(key: str) -> Series:
    """Return a series of one value per round."""
    return lambda run: (run.figures["round"], run.figures[key])


def curves_by_label(groups: Sequence[Group], series: Series) -> list[tuple[Group, int, Curve]]:
    """Return the groups that have this series, each with its index and its curve over seeds."""
    curves = [
        (group, i, average_curves([series(run) for run in group.evaluated_runs]))
        for i, group in enumerate(groups)
    ]
    return [(group, i, curve) for group, i, curve in curves if curve.x.size]


def learning_section(groups: Sequence[Group], score: Score) -> Section | None:
    """Return the section with the learning curves."""
    options = []
    for name, key in (
        ("mean over the parties", "mean"), ("worst party", "worst"),
        ("global model, mean over the parties", "global"), ("loss, mean over the parties", "loss"),
    ):  # fmt: skip
        curves = curves_by_label(groups, evaluated_values(key))
        if curves:
            quantity = Score("loss", "lower") if key == "loss" else score
            finding = _describe_final_values(curves, quantity)
            chart = line_chart(
                curves, y=quantity.axis, factor=quantity.factor,
                log=quantity.needs_log_axis(*(curve.y for _, _, curve in curves)),
                alt_text=f"Learning curves, {name}, over rounds. {finding}",
            )  # fmt: skip
            rows = [
                [
                    group.label,
                    count_of(int(curve.x[-1]), "round"),
                    quantity.text(curve.y[0]),
                    quantity.text(curve.y[-1]),
                ]
                for group, _, curve in curves
            ]
            table = {"head": ["", "after", "first evaluation", "last evaluation"], "rows": rows}
            options.append({"name": name, "finding": finding, "charts": [chart], "table": table})
    has_bands = any(len(group.evaluated_runs) > 1 for group in groups)
    note = "Bands: ± one standard deviation over seeds." if has_bands else ""
    return choice_section("learning", "Learning curves", options, "Show", note=note)


def _describe_final_values(curves: Sequence[tuple[Group, int, Curve]], score: Score) -> str:
    order = sorted(curves, key=lambda item: -score.sign * item[2].y[-1])
    (best, _, top), (last, _, bottom) = order[0], order[-1]
    after = count_of(int(top.x[-1]), "round")
    if len(order) == 1:
        ends = f"from {score.text(top.y[0])} to {score.text(top.y[-1])}"
        return capitalised(f"{best.label} goes {ends} in {after}.")
    if score.text(top.y[-1]) == score.text(bottom.y[-1]):
        return f"All end at {score.text(top.y[-1])}, after {after}."
    most = "highest" if score.sign > 0 else "lowest"
    return capitalised(
        f"{best.label} ends {most}, at {score.text(top.y[-1])} after {after}; "
        f"{last.label} ends at {score.text(bottom.y[-1])}."
    )


def weight_change_section(groups: Sequence[Group]) -> Section | None:
    """Return the section with the weight change at aggregation.

    Paper: Figure 1.
    """
    options = []
    for name, key in (
        ("mean over the parties", "change_std"),
        ("the party that changes most", "change_most"),
    ):
        curves = curves_by_label(groups, round_values(key))
        if not curves:
            continue
        peaks = sorted(
            ((curve.y.max(), curve.x[curve.y.argmax()], group) for group, _, curve in curves),
            key=lambda item: -item[0],
        )
        finding = _describe_peaks(peaks)
        chart = line_chart(
            curves, y="s.d. of the change", log=bool(peaks[0][0] > 0),
            alt_text=f"Weight change at aggregation, {name}. {finding}.",
        )  # fmt: skip
        table = {
            "head": ["", "largest", "in round", "in the last round"],
            "rows": [
                [
                    group.label,
                    significant_digits(curve.y.max()),
                    str(int(curve.x[curve.y.argmax()])),
                    significant_digits(curve.y[-1]),
                ]
                for group, _, curve in curves
            ],
        }
        options.append({"name": name, "finding": finding + ".", "charts": [chart], "table": table})
    note = (
        "The standard deviation, over the parameters, of the change that the aggregation makes to a "
        "party's model (Figure 1 of the paper)."
    )
    return choice_section("change", "Weight change at aggregation", options, "Show", note=note)


def _describe_peaks(peaks: Sequence[tuple[float, float, Group]]) -> str:
    """Describe the largest changes; ``peaks`` has (change, round, group), the largest first."""
    unchanged = [group.label for change, _, group in peaks if change == 0]
    positive = [peak for peak in peaks if peak[0] > 0]
    clauses = []
    if positive:
        (largest, round_, first), (smallest, _, last) = positive[0], positive[-1]
        change = significant_digits(largest)
        clauses.append(f"{first.label} changes models most: up to {change}, in round {int(round_)}")
        if len(positive) > 1:
            clauses.append(f"that is {largest / smallest:.2g} times the most under {last.label}")
    if unchanged:
        labels = join_names(unchanged, 8)
        clauses.append(f"under {labels} the aggregation leaves every party its own model")
    return capitalised("; ".join(clauses))


def lambda_path_section(groups: Sequence[Group], score: Score) -> Section | None:
    """Return the section with the scores between personal and global models, if they were recorded.

    Paper: Figure 3.
    """
    curves = curves_by_label(
        groups, lambda run: run.path if run.path else (np.zeros(0), np.zeros(0))
    )  # fmt: skip
    if not curves:
        return None
    clauses = [_describe_path(group.label, curve, score) for group, _, curve in curves[:3]]
    finding = "; ".join(clauses) + "."
    chart = line_chart(
        curves, x="λ: 0 is a party's own model, 1 the global one", y=score.axis,
        factor=score.factor, alt_text=f"Scores from local to global. {finding}",
    )  # fmt: skip
    table = {
        "head": ["λ", *(group.label for group, _, _ in curves)],
        "rows": [
            [f"{lam:g}", *(score.text(float(np.interp(lam, c.x, c.y))) for _, _, c in curves)]
            for lam in curves[0][2].x
        ],
    }
    option = {"name": "", "finding": finding, "charts": [chart], "table": table}
    return choice_section("path", "From local to global: the λ-path", [option])


def _describe_path(label: str, curve: Curve, score: Score) -> str:
    first, last = score.text(curve.y[0]), score.text(curve.y[-1])
    if first == last:
        return f"{label} has {first} at both ends"
    best = int((score.sign * curve.y).argmax())
    clause = f"{label} goes from {first} (own models) to {last} (the global one)"
    if best not in (0, curve.x.size - 1):
        maximum = score.text(curve.y[best])
        clause += f", and reaches {maximum} in between, at λ = {curve.x[best]:g}"
    return clause


def choice_section(
    name: str, title: str, options: list[dict[str, Any]], choice: str = "", *, note: str = ""
) -> Section | None:
    """Return a section with a menu of options; None if there are no options."""
    if not options:
        return None
    return {
        "id": name,
        "title": title,
        "choice": choice,
        "selected": 0,
        "note": note,
        "options": options,
    }
