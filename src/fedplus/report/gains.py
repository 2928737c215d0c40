"""Who gains by taking part, and who loses: personal models beside the global one and training alone."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedplus.report import downsample
from fedplus.report.formatting import Score, count_of, round_for_json
from fedplus.report.groups import Group, mean_over_seeds
from fedplus.report.party_charts import Section, chart_option, chart_section, party_name, seeds_text
from fedplus.report.run_data import Host

DUMBBELLS = 60
STRIP = 200
"""Dots of a strip."""


def gains(groups: Sequence[Group], score: Score, best: str) -> Section | None:
    """Section 5."""
    judged = [group for group in groups if group.judged]
    options = []
    for group in [g for g in judged if g.method != "local"] or judged:
        runs = group.alike
        names = np.array(runs[0].names)
        personal = mean_over_seeds([run.personal[-1] for run in runs])
        shared = mean_over_seeds([run.shared[-1] for run in runs])
        local = local_scores(group, groups)
        against, what = (
            (local, "training alone") if np.isfinite(local).any() else (shared, "the global model")
        )
        gain = score.sign * (personal - against)
        order = np.argsort(gain, kind="stable")
        order = order[np.isfinite(gain[order])]
        if not order.size:
            continue
        shown = order[downsample.end_indices(order.size, DUMBBELLS)]
        finding = _gain_words(group, names, gain, order, what, score)
        if shown.size < order.size:
            finding += f" Shown are the {DUMBBELLS // 2} parties at either end."
        of = {"personal": personal, "global": shared, "alone": local}
        of = {key: values for key, values in of.items() if np.isfinite(values).any()}
        dots = {
            "kind": "dumbbell", "log": score.log(*(values[shown] for values in of.values())),
            "names": list(names[shown]), "unit": score.axis,
            "outliers": [name for name in names[shown] if name in runs[0].outliers],
            "gains": round_for_json(score.factor * gain[shown]),
            "values": {key: round_for_json(score.factor * values[shown]) for key, values in of.items()},
            "from": "alone" if "alone" in of else "global",
            "words": f"Each party's personal score beside its score with {what}. {finding}",
        }  # fmt: skip
        boxes = {
            "kind": "spread", "log": score.log(*of.values()), "unit": score.axis,
            "boxes": [_box(key, score.factor * values) for key, values in of.items()],
            "words": "Distribution over the parties. " + "; ".join(
                f"{key}: median {score.text(float(np.nanmedian(values)))}" for key, values in of.items()
            ) + ".",
        }  # fmt: skip
        rows = [
            [
                str(names[i]),
                *(score.text(values[i]) for values in of.values()),
                score.difference(gain[i] * score.sign),
            ]
            for i in shown
        ]
        table = {"head": ["party", *of, f"against {what}"], "rows": rows}
        options.append({**chart_option(group, finding, [dots, boxes]), "table": table})
    return chart_section("gains", "Who gains, who loses", options, best,
                    "Whiskers: 5 to 95 % of the parties. " + seeds_text(judged))  # fmt: skip


def local_scores(group: Group, groups: Sequence[Group]) -> Host:
    """What its parties reach on their own: as recorded, or from a run of the method ``local``."""
    runs = group.alike
    local = mean_over_seeds([run.local for run in runs])
    if not np.isfinite(local).any():
        for other in groups:
            there = other.alike if other.method == "local" and other.data == group.data else []
            if there and there[0].names == runs[0].names:
                return mean_over_seeds([run.personal[-1] for run in there])
    return local


def _gain_words(group: Group, names: Host, gain: Host, order: Host, what: str, score: Score) -> str:
    up, down = int((gain > 0).sum()), int((gain < 0).sum())
    first, last = order[-1], order[0]
    told = (
        f"Under {group.label}, {up:,} of {count_of(order.size, 'party', 'parties')} "
        f"{'gains' if up == 1 else 'gain'} over {what} and "
        f"{f'{down:,}' if down else 'none'} {'lose' if down > 1 else 'loses'}"
    )
    signed = score.sign * gain  # As the score goes, which for an error is down.
    if up:
        winner = party_name(names[first])
        told += f"; the biggest winner is {winner} ({score.difference(signed[first])})"
    if down:
        told += (
            f"; the biggest loser is {party_name(names[last])} ({score.difference(signed[last])})"
        )
    return told + "."


def _box(name: str, values: Host) -> dict[str, Any]:
    known = np.sort(values[np.isfinite(values)])
    fences = np.quantile(known, (0.05, 0.25, 0.5, 0.75, 0.95))
    return {
        "name": name, "fences": round_for_json(fences),
        "points": round_for_json(known[downsample.even_indices(known.size, STRIP)]),
    }  # fmt: skip
