"""Sections with one value per party and round: heat map of the scores, norms of the personal parts."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedplus._types import NumpyArray
from fedplus.report import downsample
from fedplus.report.formatting import Score, join_names, round_for_json
from fedplus.report.groups import Group, mean_over_seeds

Section = dict[str, Any]
MAX_NORM_LINES = 100
"""Federations of up to this many parties get one line per party in the chart of norms."""
LARGEST_NORMS = 20
"""In larger federations, only this many parties, with the largest norms, get a line."""
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def heat_map_section(groups: Sequence[Group], score: Score, best: str) -> Section | None:
    """Return the section with a heat map of the personal scores; ``best`` is the label shown first."""
    evaluated = [group for group in groups if group.evaluated_runs]
    cells = downsample.MAX_CELLS // max(1, len(evaluated))
    options = []
    for group in evaluated:
        runs = group.runs_with_same_parties
        if not runs[0].names:
            continue
        rounds = np.unique(np.concatenate([run.rounds for run in runs]))
        columns = rounds[downsample.even_indices(rounds.size, downsample.MAX_COLUMNS)]
        table = mean_over_seeds(
            [_select_rounds(run.rounds, run.personal_scores, columns) for run in runs]
        )
        last = mean_over_seeds([run.personal_scores[-1] for run in runs])
        order = np.argsort(score.sign * last, kind="stable")  # The worst first; NaN at the end.
        rows = downsample.even_indices(
            order.size, min(downsample.MAX_PARTIES, max(20, cells // columns.size))
        )
        shown = order[rows]
        names = np.array(runs[0].names)
        known = order[np.isfinite(last[order])]
        if not known.size:
            continue
        finding = (
            f"Under {group.label} the worst after round {int(rounds[-1])} is "
            f"{party_name(names[known[0]])} with {score.text(last[known[0]])}, the best "
            f"{party_name(names[known[-1]])} with {score.text(last[known[-1]])}"
        )
        if runs[0].is_outlier.any():
            finding += f"; outliers: {join_names(names[runs[0].is_outlier])}"
        if shown.size < order.size:
            finding += (
                f". Shown are {shown.size} of {order.size:,} parties, evenly from worst to best"
            )
        chart = {
            "kind": "heat", "x": [int(t) for t in columns], "y": list(names[shown]),
            "z": round_for_json(score.factor * table[:, shown].T), "unit": score.axis,
            "reverse": score.better == "lower", "log": score.needs_log_axis(table[:, shown]),
            "outliers": [name for name in names[shown] if name in runs[0].outliers],
            "alt_text": f"Heat map of the personal score, party by round. {finding}.",
        }  # fmt: skip
        options.append(chart_option(group, finding + ".", [chart]))
    return chart_section("heat", "Every party, every evaluated round", options, best,
                    "Parties from best (top) to worst; ◆ marks outliers. "
                    + seeds_text(evaluated))  # fmt: skip


def personal_norm_section(groups: Sequence[Group], best: str) -> Section | None:
    """Return the section with the norms ‖v_k‖; ``best`` is the label shown first."""
    options = []
    for group in (g for g in groups if g.evaluated_runs):
        runs = group.runs_with_same_parties
        norms = [np.asarray(run.v_norm) for run in runs]
        if not any(np.nanmax(each, initial=0.0) > 0 for each in norms):
            continue  # A method without personal parts.
        rounds = np.unique(np.concatenate([run.rounds for run in runs]))
        most = min(downsample.MAX_COLUMNS, downsample.MAX_CELLS // (MAX_NORM_LINES * len(groups)))
        rounds = rounds[downsample.even_indices(rounds.size, max(10, most))]
        table = mean_over_seeds(
            [
                _select_rounds(run.rounds, each, rounds)
                for run, each in zip(runs, norms, strict=True)
            ]
        )
        last = np.nan_to_num(mean_over_seeds([each[-1] for each in norms]), nan=-1.0)
        names = np.array(runs[0].names)
        order = np.argsort(-last, kind="stable")
        is_large = order.size > MAX_NORM_LINES
        shown = order[:LARGEST_NORMS] if is_large else order
        largest = order[0]
        outliers = runs[0].is_outlier
        median = float(np.median(last[last >= 0])) if (last >= 0).any() else 0.0
        party = f"{party_name(names[largest])}{', an outlier,' if outliers[largest] else ''}"
        finding = f"Under {group.label} {party} has the largest ‖vₖ‖"
        if median > 0 and order.size > 1:
            finding += f", {last[largest] / median:.2g} times the median"
        elif order.size > 1:
            finding += f", {last[largest]:.3g}; at least half of the parties have none"
        if is_large:
            finding += (
                f". Shown are the {LARGEST_NORMS} largest of {order.size:,}, and the range of all"
            )
        chart = {
            "kind": "norms", "x": [int(t) for t in rounds],
            "lines": [
                {"name": str(names[i]), "outlier": bool(outliers[i]), "y": round_for_json(table[:, i])}
                for i in shown[::-1]
            ],
            "quantiles": round_for_json(_row_quantiles(table).T) if is_large else None,
            "alt_text": f"Norm of the personal part of each party over rounds. {finding}.",
        }  # fmt: skip
        rows = [[str(names[i]), f"{last[i]:.4g}"] for i in shown if last[i] >= 0]
        numbers = {"head": ["party", "‖vₖ‖ at the last evaluation"], "rows": rows}
        options.append({**chart_option(group, finding + ".", [chart]), "table": numbers})
    return chart_section("norms", "How personal: ‖vₖ‖ over rounds", options, best,
                    "vₖ is the personal part that party k adds to the global model.")  # fmt: skip


def _select_rounds(rounds: NumpyArray, values: NumpyArray, columns: NumpyArray) -> NumpyArray:
    """Return the rows of ``values`` for the rounds ``columns``; NaN for rounds that a run lacks."""
    selected = np.full((columns.size, values.shape[1]), np.nan)
    is_known = np.isin(columns, rounds)
    selected[is_known] = values[np.searchsorted(rounds, columns[is_known])]
    return selected


def _row_quantiles(table: NumpyArray) -> NumpyArray:
    """Return the quantiles of each row over its finite entries; NaN if it has none."""
    finite_rows = (row[np.isfinite(row)] for row in table)
    unknown = np.full(len(QUANTILES), np.nan)
    return np.stack([np.quantile(row, QUANTILES) if row.size else unknown for row in finite_rows])


def party_name(name: str) -> str:
    """Return a party's name for a sentence, e.g. "party 7"; long names are cut."""
    return f"party {name}" if len(name) <= 40 else f"party {name[:39]}…"


def chart_option(group: Group, finding: str, charts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the entry of a section's menu that shows the charts of one group."""
    return {"name": group.label, "finding": finding, "charts": charts, "table": None}


def seeds_text(groups: Sequence[Group]) -> str:
    """Return the note on the seeds that a chart of parties shows."""
    if any(len(group.runs_with_same_parties) < len(group.evaluated_runs) for group in groups):
        return "The parties differ between seeds; shown are those of each method's first seed."
    return "Mean over the seeds." if any(len(group.evaluated_runs) > 1 for group in groups) else ""


def chart_section(
    name: str, title: str, options: list[dict[str, Any]], best: str, note: str
) -> Section | None:
    """Return a section with a menu of methods, ``best`` selected; None if there are no options."""
    if not options:
        return None
    names = [option["name"] for option in options]
    selected = names.index(best) if best in names else 0
    return {
        "id": name,
        "title": title,
        "choice": "Method",
        "selected": selected,
        "note": note,
        "options": options,
    }
