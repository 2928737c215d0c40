"""The charts with a line a label: learning, weight change, λ-path, aggregator, certificate."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedplus.report import thin
from fedplus.report.groups import Curve, Group, curve
from fedplus.report.read import Run, mean
from fedplus.report.words import UNKNOWN, Score, count, listed, rounded, sentence, short

Section = dict[str, Any]
RISE = 1e-6
"""What F_σ may rise by, relative to itself, from rounding alone."""


def lines(
    curves: Sequence[tuple[Group, int, Curve]], *, x: str = "round", y: str, log: bool = False,
    factor: float = 1.0, words: str,
) -> dict[str, Any]:  # fmt: skip
    """A chart of curves; long ones keep their peaks."""
    most = max(50, thin.LINES // max(1, len(curves)))
    drawn = []
    for group, index, line in curves:
        kept = thin.with_peaks(line.y, most)
        drawn.append(
            {
                "label": group.label, "colour": group.colour, "index": index,
                "x": [float(v) if v % 1 else int(v) for v in line.x[kept]],
                "y": rounded(factor * line.y[kept]),
                "spread": rounded(factor * line.spread[kept])
                if np.isfinite(line.spread).any()
                else None,
            }
        )  # fmt: skip
    return {"kind": "lines", "x": x, "y": y, "log": log, "lines": drawn, "words": words}


def curves_of(
    groups: Sequence[Group], of_run: Callable[[Run], tuple[Any, Any]]
) -> list[tuple[Group, int, Curve]]:
    """A curve a label, for those that have one."""
    made = [(g, i, curve([of_run(run) for run in g.runs])) for i, g in enumerate(groups)]
    return [(group, index, line) for group, index, line in made if line.x.size]


def learning(groups: Sequence[Group], score: Score) -> Section | None:
    """Section 3."""
    options = []
    for name, key in (
        ("mean over the parties", "mean"), ("worst party", "worst"),
        ("global model, mean over the parties", "global"), ("loss, mean over the parties", "loss"),
    ):  # fmt: skip
        found = curves_of(groups, lambda run, key=key: (run.rounds, run.few[key]))  # type: ignore[misc]
        if found:
            told = Score("loss", "lower") if key == "loss" else score
            finding = _ends(found, told)
            chart = lines(
                found, y=told.axis, factor=told.factor,
                words=f"Learning curves, {name}, over rounds. {finding}",
            )  # fmt: skip
            rows = [
                [g.label, count(int(line.x[-1]), "round"), told.text(line.y[0]), told.text(line.y[-1])]
                for g, _, line in found
            ]
            table = {"head": ["", "after", "first evaluation", "last evaluation"], "rows": rows}
            options.append({"name": name, "finding": finding, "charts": [chart], "table": table})
    note = "Bands: ± one standard deviation over seeds." if _several(groups) else ""
    return _section("learning", "Learning curves", options, "Show", note=note)


def _ends(found: Sequence[tuple[Group, int, Curve]], score: Score) -> str:
    order = sorted(found, key=lambda item: -score.sign * item[2].y[-1])
    (best, _, top), (last, _, bottom) = order[0], order[-1]
    after = count(int(top.x[-1]), "round")
    if len(order) == 1:
        return f"{best.label} goes from {score.text(top.y[0])} to {score.text(top.y[-1])} in {after}."
    if score.text(top.y[-1]) == score.text(bottom.y[-1]):
        return f"All end at {score.text(top.y[-1])}, after {after}."
    return (
        f"{best.label} ends best, at {score.text(top.y[-1])} after {after}; "
        f"{last.label} ends at {score.text(bottom.y[-1])}."
    )


def change(groups: Sequence[Group]) -> Section | None:
    """Section 6: the paper's Figure 1."""
    options = []
    for name, key in (("mean over the parties", "change_std"), ("the party that changes most", "change_most")):
        found = curves_of(groups, lambda run, key=key: (run.figures["round"], run.figures[key]))  # type: ignore[misc]
        if not found:
            continue
        peaks = sorted(((line.y.max(), line.x[line.y.argmax()], g) for g, _, line in found),
                       key=lambda item: -item[0])  # fmt: skip
        high, at, most = peaks[0]
        low, _, least = peaks[-1]
        finding = f"{most.label} changes models most at aggregation: up to {short(high)}, in round {int(at)}"
        if len(peaks) > 1 and low > 0:
            finding += f"; that is {short(float(f'{high / low:.2g}'))} times the most under {least.label}"
        chart = lines(found, y="s.d. of the change", log=True,
                      words=f"Weight change at aggregation over rounds, {name}. {finding}.")  # fmt: skip
        table = {
            "head": ["", "largest", "in round", "in the last round"],
            "rows": [
                [g.label, short(line.y.max()), str(int(line.x[line.y.argmax()])), short(line.y[-1])]
                for g, _, line in found
            ],
        }
        options.append({"name": name, "finding": finding + ".", "charts": [chart], "table": table})
    note = (
        "The standard deviation, over the parameters, of what the aggregation does to a party's model "
        "(Figure 1 of the paper). Zero cannot be drawn on this axis."
    )
    return _section("change", "Weight change at aggregation", options, "Show", note=note)


def path(groups: Sequence[Group], score: Score) -> Section | None:
    """Section 7: the paper's Figure 3."""
    found = curves_of(
        groups, lambda run: run.path if run.path else (np.zeros(0), np.zeros(0))
    )  # fmt: skip
    if not found:
        return None
    told = []
    for group, _, line in found:
        at = int((score.sign * line.y).argmax())
        told.append(
            f"{group.label} goes from {score.text(line.y[0])} (local) to {score.text(line.y[-1])} (global) "
            f"and is best at λ = {line.x[at]:g}"
        )
    finding = "; ".join(told[:3]) + "."
    chart = lines(found, x="λ: 0 is a party's own model, 1 the global one", y=score.axis,
                  factor=score.factor, words=f"Score from local to global model. {finding}")  # fmt: skip
    table = {
        "head": ["λ", *(group.label for group, _, _ in found)],
        "rows": [
            [f"{lam:g}", *(score.text(float(np.interp(lam, c.x, c.y))) for _, _, c in found)]
            for lam in found[0][2].x
        ],
    }
    option = {"name": "", "finding": finding, "charts": [chart], "table": table}
    return _section("path", "From local to global: the λ-path", [option])


def certificate(groups: Sequence[Group]) -> Section | None:
    """Section 10: Theorem 1, F_σ never rises."""
    found = curves_of(groups, lambda run: (run.rounds, run.few["objective"]))
    if not found:
        return None
    told, rows = [], []
    for group, _, line in found:
        rise, at = _largest_rise(group)
        rises = at is not None
        told.append(
            f"under {group.label} it rises, at most by {100 * rise:.2g} %, at round {at}"
            if rises
            else f"under {group.label} it never rises"
        )
        rows.append([group.label, short(line.y[0]), short(line.y[-1]),
                     f"{100 * rise:.2g} % at round {at}" if rises else "none"])  # fmt: skip
    finding = sentence("; ".join(told)) + "."
    chart = lines(found, y="F_σ", words=f"The objective F_σ over rounds. {finding}")
    table = {"head": ["", "first", "last", "largest rise"], "rows": rows}
    option = {"name": "", "finding": finding, "charts": [chart], "table": table}
    note = (
        "Theorem 1: with full gradients and a small enough η the objective falls in every round. "
        "Compared from one evaluated round to the next; a rise below a millionth is rounding."
    )
    return _section("certificate", "Certificate of Theorem 1", [option], note=note)


def _largest_rise(group: Group) -> tuple[float, int | None]:
    """Over its seeds, relative to F_σ before it, and the round it is seen at."""
    worst: tuple[float, int | None] = (0.0, None)
    for run in group.judged:
        known = np.isfinite(run.few["objective"])
        f, t = run.few["objective"][known], run.rounds[known]
        rise = np.diff(f) / np.maximum(np.abs(f[:-1]), 1e-30)
        if rise.size and rise.max() > max(RISE, worst[0]):
            worst = float(rise.max()), int(t[1 + rise.argmax()])
    return worst


def aggregator(groups: Sequence[Group]) -> Section | None:
    """Section 9."""
    options, rows, told = [], [], []
    for group in groups:
        figures = {key: np.concatenate([run.figures[key] for run in group.runs])
                   for key in ("iterations", "converged", "residual", "dropped")}  # fmt: skip
        if not figures["iterations"].size:
            continue
        met = figures["converged"][np.isfinite(figures["converged"])]
        dropped = int(np.nansum(figures["dropped"]))
        known = figures["residual"][np.isfinite(figures["residual"])]
        rows.append([
            group.label, short(float(mean(figures["iterations"]))),
            f"{100 * met.mean():.1f} %" if met.size else UNKNOWN,
            f"{known.max():.1e}" if known.size else UNKNOWN, f"{dropped:,}",
        ])  # fmt: skip
        if met.size and met.mean() < 1:
            told.append(f"{group.label} stops short in {count(int((met == 0).sum()), 'round')} of {met.size:,}")
        if dropped:
            told.append(f"{group.label} drops {count(dropped, 'model')}")
    finding = listed(told) + "." if told else "It converges in every round and drops no model."
    table = {"head": ["", "iterations a round", "converged", "largest residual", "models dropped"], "rows": rows}
    for name, key, log in (
        ("iterations", "iterations", False), ("residual", "residual", True),
        ("models dropped", "dropped", False),
    ):  # fmt: skip
        found = curves_of(groups, lambda run, key=key: (run.figures["round"], run.figures[key]))  # type: ignore[misc]
        if found:
            chart = lines(found, y=name, log=log, words=f"Aggregator: {name} in each round. {finding}")
            options.append({"name": name, "finding": finding, "charts": [chart], "table": table})
    section = _section("aggregator", "The aggregator at work", options, "Show")
    return section and {**section, "open": True}


def _section(
    name: str, title: str, options: list[dict[str, Any]], choice: str = "", *, note: str = ""
) -> Section | None:
    if not options:
        return None
    return {"id": name, "title": title, "choice": choice, "selected": 0, "note": note, "options": options}


def _several(groups: Sequence[Group]) -> bool:
    return any(len(group.judged) > 1 for group in groups)
