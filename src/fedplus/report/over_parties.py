"""The charts that tell parties apart: heat map, gains, personal parts; a choice of label each."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedplus.report import thin
from fedplus.report.groups import Group, curve, over_seeds
from fedplus.report.read import Host
from fedplus.report.words import Score, count, listed, rounded

Section = dict[str, Any]
DUMBBELLS = 60
NORMS, LARGEST = 100, 20
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
STRIP = 200
"""Dots of a strip."""


def heat(groups: Sequence[Group], score: Score, best: str) -> Section | None:
    """Section 4."""
    labels = [group for group in groups if group.judged]
    cells = thin.CELLS // max(1, len(labels))
    options = []
    for group in labels:
        runs = group.alike
        if not runs[0].names:
            continue
        rounds = np.unique(np.concatenate([run.rounds for run in runs]))
        columns = rounds[thin.evenly(rounds.size, thin.COLUMNS)]
        table = over_seeds([_at(run.rounds, run.personal, columns) for run in runs])
        last = over_seeds([run.personal[-1] for run in runs])
        order = np.argsort(score.sign * last, kind="stable")  # The worst first; NaN at the end.
        rows = thin.evenly(order.size, min(thin.PARTIES, max(20, cells // columns.size)))
        shown = order[rows]
        names = np.array(runs[0].names)
        known = order[np.isfinite(last[order])]
        if not known.size:
            continue
        finding = (
            f"Under {group.label} the worst after round {int(rounds[-1])} is {_party(names[known[0]])} with "
            f"{score.text(last[known[0]])}, the best {_party(names[known[-1]])} with {score.text(last[known[-1]])}"
        )
        outliers = sorted(runs[0].outliers, key=list(names).index) if names.size <= 1000 else []
        if outliers:
            finding += f"; outliers: {listed(outliers)}"
        if shown.size < order.size:
            finding += f". Shown are {shown.size} of {order.size:,} parties, evenly from worst to best"
        chart = {
            "kind": "heat", "x": [int(t) for t in columns], "y": list(names[shown[::-1]]),
            "z": rounded(score.factor * table[:, shown[::-1]].T), "unit": score.axis,
            "reverse": score.better == "lower",
            "outliers": [name for name in names[shown] if name in runs[0].outliers],
            "words": f"Heat map of the personal score, party by round. {finding}.",
        }  # fmt: skip
        options.append(_option(group, finding + ".", [chart]))
    return _section("heat", "Every party, every evaluated round", options, best,
                    "Parties from best (top) to worst; ◆ marks outliers. " + _seeds(labels))  # fmt: skip


def gains(groups: Sequence[Group], score: Score, best: str) -> Section | None:
    """Section 5."""
    judged = [group for group in groups if group.judged]
    options = []
    for group in [g for g in judged if g.method != "local"] or judged:
        runs = group.alike
        names = np.array(runs[0].names)
        personal = over_seeds([run.personal[-1] for run in runs])
        shared = over_seeds([run.shared[-1] for run in runs])
        local = alone(group, groups)
        against, what = (local, "training alone") if np.isfinite(local).any() else (shared, "the global model")
        gain = score.sign * (personal - against)
        order = np.argsort(gain, kind="stable")
        order = order[np.isfinite(gain[order])]
        if not order.size:
            continue
        shown = order[thin.ends(order.size, DUMBBELLS)]
        finding = _gain_words(group, names, gain, order, what, score)
        if shown.size < order.size:
            finding += f" Shown are the {DUMBBELLS // 2} largest losses and the {DUMBBELLS // 2} largest gains."
        of = {"personal": personal, "global": shared, "alone": local}
        of = {key: values for key, values in of.items() if np.isfinite(values).any()}
        dots = {
            "kind": "dumbbell", "names": list(names[shown]), "unit": score.axis,
            "outliers": [name for name in names[shown] if name in runs[0].outliers],
            "gains": rounded(score.factor * gain[shown]),
            "values": {key: rounded(score.factor * values[shown]) for key, values in of.items()},
            "from": "alone" if "alone" in of else "global",
            "words": f"Each party's personal score beside its score with {what}. {finding}",
        }  # fmt: skip
        boxes = {
            "kind": "spread", "unit": score.axis,
            "boxes": [_box(key, score.factor * values) for key, values in of.items()],
            "words": "Distribution over the parties. " + "; ".join(
                f"{key}: median {score.text(float(np.nanmedian(values)))}" for key, values in of.items()
            ) + ".",
        }  # fmt: skip
        rows = [
            [str(names[i]), *(score.text(values[i]) for values in of.values()), score.difference(gain[i] * score.sign)]
            for i in shown
        ]
        table = {"head": ["party", *of, f"against {what}"], "rows": rows}
        options.append({**_option(group, finding, [dots, boxes]), "table": table})
    return _section("gains", "Who gains, who loses", options, best, _seeds(judged))


def alone(group: Group, groups: Sequence[Group]) -> Host:
    """What its parties reach on their own: as recorded, or from a run of the method ``local``."""
    runs = group.alike
    local = over_seeds([run.local for run in runs])
    if not np.isfinite(local).any():
        for other in groups:
            there = other.alike if other.method == "local" and other.data == group.data else []
            if there and there[0].names == runs[0].names:
                return over_seeds([run.personal[-1] for run in there])
    return local


def _gain_words(
    group: Group, names: Host, gain: Host, order: Host, what: str, score: Score
) -> str:
    up, down = int((gain > 0).sum()), int((gain < 0).sum())
    first, last = order[-1], order[0]
    told = (
        f"Under {group.label}, {up:,} of {count(order.size, 'party', 'parties')} "
        f"{'gains' if up == 1 else 'gain'} over {what} and {down:,} {'loses' if down == 1 else 'lose'}"
    )
    signed = score.sign * gain  # As the score goes, which for an error is down.
    if up:
        told += f"; the biggest winner is {_party(names[first])} ({score.difference(signed[first])})"
    if down:
        told += f"; the biggest loser is {_party(names[last])} ({score.difference(signed[last])})"
    return told + "."


def norms(groups: Sequence[Group], best: str) -> Section | None:
    """Section 8."""
    options = []
    for group in (g for g in groups if g.judged):
        runs = group.alike
        v = [np.asarray(run.v_norm) for run in runs]
        if not any(np.nanmax(each, initial=0.0) > 0 for each in v):
            continue  # A method without personal parts.
        rounds = np.unique(np.concatenate([run.rounds for run in runs]))
        rounds = rounds[thin.evenly(rounds.size, 2 * thin.COLUMNS)]
        table = over_seeds([_at(run.rounds, each, rounds) for run, each in zip(runs, v, strict=True)])
        last = np.nan_to_num(over_seeds([each[-1] for each in v]), nan=-1.0)
        names = np.array(runs[0].names)
        order = np.argsort(-last, kind="stable")
        many = order.size > NORMS
        shown = order[:LARGEST] if many else order
        top = order[0]
        outliers = runs[0].is_outlier
        middle = float(np.median(last[last >= 0]))
        finding = f"Under {group.label} {_party(names[top])}{', an outlier,' if outliers[top] else ''} has the largest ‖v‖"
        if middle > 0 and order.size > 1:
            finding += f", {last[top] / middle:.2g} times the median"
        if many:
            finding += f". Shown are the {LARGEST} largest of {order.size:,}, and the range of all"
        chart = {
            "kind": "norms", "x": [int(t) for t in rounds],
            "lines": [
                {"name": str(names[i]), "outlier": bool(outliers[i]), "y": rounded(table[:, i])} for i in shown[::-1]
            ],
            "quantiles": rounded(np.nanquantile(table, QUANTILES, axis=1)) if many else None,
            "words": f"Norm of the personal part of each party over rounds. {finding}.",
        }  # fmt: skip
        rows = [[str(names[i]), f"{last[i]:.4g}"] for i in shown if last[i] >= 0]
        table_ = {"head": ["party", "‖v‖ at the last evaluation"], "rows": rows}
        options.append({**_option(group, finding + ".", [chart]), "table": table_})
    return _section("norms", "How personal: ‖v_k‖ over rounds", options, best,
                    "v_k is what party k keeps beside the global model.")  # fmt: skip


def _at(rounds: Host, values: Host, columns: Host) -> Host:
    """The rows of these rounds; NaN where a run has none."""
    made = np.full((columns.size, values.shape[1]), np.nan)
    both = np.isin(columns, rounds)
    made[both] = values[np.searchsorted(rounds, columns[both])]
    return made


def _box(name: str, values: Host) -> dict[str, Any]:
    known = np.sort(values[np.isfinite(values)])
    fences = np.quantile(known, (0.05, 0.25, 0.5, 0.75, 0.95))
    return {
        "name": name, "fences": rounded(fences),
        "points": rounded(known[thin.evenly(known.size, STRIP)]),
    }  # fmt: skip


def _party(name: str) -> str:
    return f"party {name}" if len(name) <= 40 else f"party {name[:39]}…"


def _option(group: Group, finding: str, charts: list[dict[str, Any]]) -> dict[str, Any]:
    return {"name": group.label, "finding": finding, "charts": charts, "table": None}


def _seeds(groups: Sequence[Group]) -> str:
    if any(len(group.alike) < len(group.judged) for group in groups):
        return "The parties differ from seed to seed: shown are those of a label's first seed."
    return "Mean over the seeds." if any(len(group.judged) > 1 for group in groups) else ""


def _section(name: str, title: str, options: list[dict[str, Any]], best: str, note: str) -> Section | None:
    if not options:
        return None
    names = [option["name"] for option in options]
    chosen = names.index(best) if best in names else 0
    return {"id": name, "title": title, "choice": "Method", "selected": chosen, "note": note, "options": options}
