"""The charts that tell parties apart over rounds: heat map, personal parts; a choice of label each."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedplus.report import downsample
from fedplus.report.formatting import Score, join_names, round_for_json
from fedplus.report.groups import Group, mean_over_seeds
from fedplus.report.run_data import Host

Section = dict[str, Any]
NORMS, LARGEST = 100, 20
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def heat_map(groups: Sequence[Group], score: Score, best: str) -> Section | None:
    """Section 4."""
    labels = [group for group in groups if group.judged]
    cells = downsample.CELLS // max(1, len(labels))
    options = []
    for group in labels:
        runs = group.alike
        if not runs[0].names:
            continue
        rounds = np.unique(np.concatenate([run.rounds for run in runs]))
        columns = rounds[downsample.even_indices(rounds.size, downsample.COLUMNS)]
        table = mean_over_seeds([_at(run.rounds, run.personal, columns) for run in runs])
        last = mean_over_seeds([run.personal[-1] for run in runs])
        order = np.argsort(score.sign * last, kind="stable")  # The worst first; NaN at the end.
        rows = downsample.even_indices(
            order.size, min(downsample.PARTIES, max(20, cells // columns.size))
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
            "reverse": score.better == "lower", "log": score.log(table[:, shown]),
            "outliers": [name for name in names[shown] if name in runs[0].outliers],
            "words": f"Heat map of the personal score, party by round. {finding}.",
        }  # fmt: skip
        options.append(chart_option(group, finding + ".", [chart]))
    return chart_section("heat", "Every party, every evaluated round", options, best,
                    "Parties from best (top) to worst; ◆ marks outliers. "
                    + seeds_text(labels))  # fmt: skip


def personal_norms(groups: Sequence[Group], best: str) -> Section | None:
    """Section 8."""
    options = []
    for group in (g for g in groups if g.judged):
        runs = group.alike
        v = [np.asarray(run.v_norm) for run in runs]
        if not any(np.nanmax(each, initial=0.0) > 0 for each in v):
            continue  # A method without personal parts.
        rounds = np.unique(np.concatenate([run.rounds for run in runs]))
        most = min(downsample.COLUMNS, downsample.CELLS // (NORMS * len(groups)))
        rounds = rounds[downsample.even_indices(rounds.size, max(10, most))]
        table = mean_over_seeds(
            [_at(run.rounds, each, rounds) for run, each in zip(runs, v, strict=True)]
        )
        last = np.nan_to_num(mean_over_seeds([each[-1] for each in v]), nan=-1.0)
        names = np.array(runs[0].names)
        order = np.argsort(-last, kind="stable")
        many = order.size > NORMS
        shown = order[:LARGEST] if many else order
        top = order[0]
        outliers = runs[0].is_outlier
        middle = float(np.median(last[last >= 0])) if (last >= 0).any() else 0.0
        who = f"{party_name(names[top])}{', an outlier,' if outliers[top] else ''}"
        finding = f"Under {group.label} {who} has the largest ‖vₖ‖"
        if middle > 0 and order.size > 1:
            finding += f", {last[top] / middle:.2g} times the median"
        elif order.size > 1:
            finding += f", {last[top]:.3g}; at least half of the parties have none"
        if many:
            finding += f". Shown are the {LARGEST} largest of {order.size:,}, and the range of all"
        chart = {
            "kind": "norms", "x": [int(t) for t in rounds],
            "lines": [
                {"name": str(names[i]), "outlier": bool(outliers[i]), "y": round_for_json(table[:, i])}
                for i in shown[::-1]
            ],
            "quantiles": round_for_json(_quantiles(table).T) if many else None,
            "words": f"Norm of the personal part of each party over rounds. {finding}.",
        }  # fmt: skip
        rows = [[str(names[i]), f"{last[i]:.4g}"] for i in shown if last[i] >= 0]
        table_ = {"head": ["party", "‖vₖ‖ at the last evaluation"], "rows": rows}
        options.append({**chart_option(group, finding + ".", [chart]), "table": table_})
    return chart_section("norms", "How personal: ‖vₖ‖ over rounds", options, best,
                    "vₖ is what party k keeps beside the global model.")  # fmt: skip


def _at(rounds: Host, values: Host, columns: Host) -> Host:
    """The rows of these rounds; NaN where a run has none."""
    made = np.full((columns.size, values.shape[1]), np.nan)
    both = np.isin(columns, rounds)
    made[both] = values[np.searchsorted(rounds, columns[both])]
    return made


def _quantiles(table: Host) -> Host:
    """Row by row; NaN, without a warning, where nothing is known."""
    known = (row[np.isfinite(row)] for row in table)
    nothing = np.full(len(QUANTILES), np.nan)
    return np.stack([np.quantile(row, QUANTILES) if row.size else nothing for row in known])


def party_name(name: str) -> str:
    """In a sentence."""
    return f"party {name}" if len(name) <= 40 else f"party {name[:39]}…"


def chart_option(group: Group, finding: str, charts: list[dict[str, Any]]) -> dict[str, Any]:
    """What is shown of a label."""
    return {"name": group.label, "finding": finding, "charts": charts, "table": None}


def seeds_text(groups: Sequence[Group]) -> str:
    """Which seeds a chart of parties is about."""
    if any(len(group.alike) < len(group.judged) for group in groups):
        return "The parties differ from seed to seed: shown are those of a label's first seed."
    return "Mean over the seeds." if any(len(group.judged) > 1 for group in groups) else ""


def chart_section(
    name: str, title: str, options: list[dict[str, Any]], best: str, note: str
) -> Section | None:
    """A section with a choice of label, the best one first; none where there is no label."""
    if not options:
        return None
    names = [option["name"] for option in options]
    chosen = names.index(best) if best in names else 0
    return {
        "id": name,
        "title": title,
        "choice": "Method",
        "selected": chosen,
        "note": note,
        "options": options,
    }
