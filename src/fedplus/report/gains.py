"""Section of the report that compares personal models with the global model and local training."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedplus._types import NumpyArray
from fedplus.report import downsample
from fedplus.report.formatting import Score, count_of, round_for_json
from fedplus.report.groups import Group, mean_over_seeds
from fedplus.report.party_charts import Section, chart_option, chart_section, party_name, seeds_text
from fedplus.report.tables import LOCAL

MAX_DUMBBELLS = 60
"""The largest number of parties in the dumbbell chart."""
MAX_DOTS = 200
"""The largest number of dots of a box plot."""


def gains_section(groups: Sequence[Group], score: Score, best: str) -> Section | None:
    """Return the section with each party's gain over local training, or over the global model."""
    evaluated = [group for group in groups if group.evaluated_runs]
    options = []
    for group in [g for g in evaluated if g.method != "local"] or evaluated:
        runs = group.runs_with_same_parties
        names = np.array(runs[0].names)
        personal = mean_over_seeds([run.personal_scores[-1] for run in runs])
        global_ = mean_over_seeds([run.global_scores[-1] for run in runs])
        local = find_local_scores(group, groups)
        baseline, baseline_name = (
            (local, LOCAL) if np.isfinite(local).any() else (global_, "the global model")
        )
        gain = score.sign * (personal - baseline)
        order = np.argsort(gain, kind="stable")
        order = order[np.isfinite(gain[order])]
        if not order.size:
            continue
        shown = order[downsample.end_indices(order.size, MAX_DUMBBELLS)]
        finding = _describe_gains(group, names, gain, order, baseline_name, score)
        if shown.size < order.size:
            finding += f" Shown are the {MAX_DUMBBELLS // 2} parties at either end."
        scores = {"personal": personal, "global": global_, "local": local}
        scores = {key: values for key, values in scores.items() if np.isfinite(values).any()}
        dots = {
            "kind": "dumbbell",
            "log": score.needs_log_axis(*(values[shown] for values in scores.values())),
            "names": list(names[shown]), "unit": score.axis,
            "outliers": [name for name in names[shown] if name in runs[0].outliers],
            "gains": round_for_json(score.factor * gain[shown]),
            "values": {k: round_for_json(score.factor * values[shown]) for k, values in scores.items()},
            "from": "local" if "local" in scores else "global",
            "alt_text": f"Each party's personal score, and its score with {baseline_name}. {finding}",
        }  # fmt: skip
        headings = [LOCAL if key == "local" else key for key in scores]
        medians = [
            f"{heading}: median {score.text(float(np.nanmedian(values)))}"
            for heading, values in zip(headings, scores.values(), strict=True)
        ]
        boxes = {
            "kind": "spread", "log": score.needs_log_axis(*scores.values()), "unit": score.axis,
            "boxes": [_box_plot(key, score.factor * values) for key, values in scores.items()],
            "alt_text": f"Distribution over the parties. {'; '.join(medians)}.",
        }  # fmt: skip
        rows = [
            [
                str(names[i]),
                *(score.text(values[i]) for values in scores.values()),
                score.difference(gain[i] * score.sign),
            ]
            for i in shown
        ]
        table = {"head": ["party", *headings, f"against {baseline_name}"], "rows": rows}
        options.append({**chart_option(group, finding, [dots, boxes]), "table": table})
    return chart_section("gains", "Who gains, who loses", options, best,
                    "Whiskers: 5 to 95 % of the parties. " + seeds_text(evaluated))  # fmt: skip


def find_local_scores(group: Group, groups: Sequence[Group]) -> NumpyArray:
    """Return the parties' scores with local training.

    They are recorded in the runs of the group, or come from runs of the method ``local`` on the same
    data. Unknown scores are NaN.
    """
    runs = group.runs_with_same_parties
    local = mean_over_seeds([run.local_scores for run in runs])
    if not np.isfinite(local).any():
        for other in groups:
            if other.method != "local" or other.data != group.data:
                continue
            local_runs = other.runs_with_same_parties
            if local_runs and local_runs[0].names == runs[0].names:
                return mean_over_seeds([run.personal_scores[-1] for run in local_runs])
    return local


def _describe_gains(
    group: Group,
    names: NumpyArray,
    gain: NumpyArray,
    order: NumpyArray,
    baseline_name: str,
    score: Score,
) -> str:
    winners, losers = int((gain > 0).sum()), int((gain < 0).sum())
    best, worst = order[-1], order[0]
    sentence = (
        f"Under {group.label}, {winners:,} of {count_of(order.size, 'party', 'parties')} "
        f"{'gains' if winners == 1 else 'gain'} over {baseline_name} and "
        f"{f'{losers:,}' if losers else 'none'} {'lose' if losers > 1 else 'loses'}"
    )
    change = score.sign * gain  # Change of the score: negative for an error that gets smaller.
    if winners:
        name = party_name(names[best])
        sentence += f"; the biggest winner is {name} ({score.difference(change[best])})"
    if losers:
        name = party_name(names[worst])
        sentence += f"; the biggest loser is {name} ({score.difference(change[worst])})"
    return sentence + "."


def _box_plot(name: str, values: NumpyArray) -> dict[str, Any]:
    known = np.sort(values[np.isfinite(values)])
    fences = np.quantile(known, (0.05, 0.25, 0.5, 0.75, 0.95))
    return {
        "name": name, "fences": round_for_json(fences),
        "points": round_for_json(known[downsample.even_indices(known.size, MAX_DOTS)]),
    }  # fmt: skip
