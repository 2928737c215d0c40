"""The charts with a line a label: learning, weight change at aggregation, λ-path."""

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
from fedplus.report.groups import Curve, Group, curve
from fedplus.report.run_data import RunData

Section = dict[str, Any]
Series = Callable[[RunData], tuple[Any, Any]]
"""Rounds and values of a run."""


def line_chart(
    curves: Sequence[tuple[Group, int, Curve]], *, x: str = "round", y: str, log: bool = False,
    factor: float = 1.0, bands: bool = True, words: str,
) -> dict[str, Any]:  # fmt: skip
    """A chart of curves; long ones keep their peaks."""
    most = max(50, downsample.LINES // max(1, len(curves)))
    drawn = []
    for group, index, line in curves:
        if log and not (line.y > 0).any():
            continue
        kept = downsample.peak_indices(line.y, most)
        drawn.append(
            {
                "label": group.label, "colour": group.colour, "index": index,
                "x": [float(v) if v % 1 else int(v) for v in line.x[kept]],
                "y": round_for_json(factor * line.y[kept]),
                "spread": round_for_json(factor * line.spread[kept])
                if bands and np.isfinite(line.spread).any()
                else None,
            }
        )  # fmt: skip
    return {"kind": "lines", "x": x, "y": y, "log": log, "lines": drawn, "words": words}


def evaluated_values(key: str) -> Series:
    """A number of every evaluated round."""
    return lambda run: (run.rounds, run.few[key])


def round_values(key: str) -> Series:
    """A figure of every round."""
    return lambda run: (run.figures["round"], run.figures[key])


def curves_by_label(groups: Sequence[Group], of_run: Series) -> list[tuple[Group, int, Curve]]:
    """A curve a label, for those that have one."""
    made = [(g, i, curve([of_run(run) for run in g.judged])) for i, g in enumerate(groups)]
    return [(group, index, line) for group, index, line in made if line.x.size]


def learning_curves(groups: Sequence[Group], score: Score) -> Section | None:
    """Section 3."""
    options = []
    for name, key in (
        ("mean over the parties", "mean"), ("worst party", "worst"),
        ("global model, mean over the parties", "global"), ("loss, mean over the parties", "loss"),
    ):  # fmt: skip
        found = curves_by_label(groups, evaluated_values(key))
        if found:
            told = Score("loss", "lower") if key == "loss" else score
            finding = _ends(found, told)
            chart = line_chart(
                found, y=told.axis, factor=told.factor, log=told.log(*(c.y for _, _, c in found)),
                words=f"Learning curves, {name}, over rounds. {finding}",
            )  # fmt: skip
            rows = [
                [
                    g.label,
                    count_of(int(line.x[-1]), "round"),
                    told.text(line.y[0]),
                    told.text(line.y[-1]),
                ]
                for g, _, line in found
            ]
            table = {"head": ["", "after", "first evaluation", "last evaluation"], "rows": rows}
            options.append({"name": name, "finding": finding, "charts": [chart], "table": table})
    note = "Bands: ± one standard deviation over seeds." if _several(groups) else ""
    return choice_section("learning", "Learning curves", options, "Show", note=note)


def _ends(found: Sequence[tuple[Group, int, Curve]], score: Score) -> str:
    order = sorted(found, key=lambda item: -score.sign * item[2].y[-1])
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


def weight_change(groups: Sequence[Group]) -> Section | None:
    """Section 6: the paper's Figure 1."""
    options = []
    for name, key in (
        ("mean over the parties", "change_std"),
        ("the party that changes most", "change_most"),
    ):
        found = curves_by_label(groups, round_values(key))
        if not found:
            continue
        peaks = sorted(((line.y.max(), line.x[line.y.argmax()], g) for g, _, line in found),
                       key=lambda item: -item[0])  # fmt: skip
        finding = _peaks(peaks)
        chart = line_chart(found, y="s.d. of the change", log=bool(peaks[0][0] > 0),
                      words=f"Weight change at aggregation, {name}. {finding}.")  # fmt: skip
        table = {
            "head": ["", "largest", "in round", "in the last round"],
            "rows": [
                [
                    g.label,
                    significant_digits(line.y.max()),
                    str(int(line.x[line.y.argmax()])),
                    significant_digits(line.y[-1]),
                ]
                for g, _, line in found
            ],
        }
        options.append({"name": name, "finding": finding + ".", "charts": [chart], "table": table})
    note = (
        "The standard deviation, over the parameters, of what the aggregation does to a party's model "
        "(Figure 1 of the paper)."
    )
    return choice_section("change", "Weight change at aggregation", options, "Show", note=note)


def _peaks(peaks: Sequence[tuple[float, float, Group]]) -> str:
    """Of each label, from the largest on."""
    still = [group.label for high, _, group in peaks if high == 0]
    moved = [peak for peak in peaks if peak[0] > 0]
    told = []
    if moved:
        (high, at, most), (low, _, least) = moved[0], moved[-1]
        told.append(
            f"{most.label} changes models most: up to {significant_digits(high)}, in round {int(at)}"
        )
        if len(moved) > 1:
            told.append(f"that is {high / low:.2g} times the most under {least.label}")
    if still:
        told.append(
            f"under {join_names(still, 8)} the aggregation leaves every party its own model"
        )
    return capitalised("; ".join(told))


def lambda_path(groups: Sequence[Group], score: Score) -> Section | None:
    """Section 7: the paper's Figure 3."""
    found = curves_by_label(
        groups, lambda run: run.path if run.path else (np.zeros(0), np.zeros(0))
    )  # fmt: skip
    if not found:
        return None
    finding = "; ".join(_along(group.label, line, score) for group, _, line in found[:3]) + "."
    chart = line_chart(found, x="λ: 0 is a party's own model, 1 the global one", y=score.axis,
                  factor=score.factor, words=f"Scores from local to global. {finding}")  # fmt: skip
    table = {
        "head": ["λ", *(group.label for group, _, _ in found)],
        "rows": [
            [f"{lam:g}", *(score.text(float(np.interp(lam, c.x, c.y))) for _, _, c in found)]
            for lam in found[0][2].x
        ],
    }
    option = {"name": "", "finding": finding, "charts": [chart], "table": table}
    return choice_section("path", "From local to global: the λ-path", [option])


def _along(label: str, line: Curve, score: Score) -> str:
    first, last = score.text(line.y[0]), score.text(line.y[-1])
    if first == last:
        return f"{label} has {first} at both ends"
    at = int((score.sign * line.y).argmax())
    best = (
        ""
        if at in (0, line.x.size - 1)
        else f", and reaches {score.text(line.y[at])} in between, at λ = {line.x[at]:g}"
    )
    return f"{label} goes from {first} (own models) to {last} (the global one){best}"


def choice_section(
    name: str, title: str, options: list[dict[str, Any]], choice: str = "", *, note: str = ""
) -> Section | None:
    """A section with a choice of options, or none where there is no option."""
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


def _several(groups: Sequence[Group]) -> bool:
    return any(len(group.judged) > 1 for group in groups)
