"""Section of the report on the parties that were held out of the training and joined afterwards."""

from collections.abc import Sequence

import numpy as np

from fedplus._types import NumpyArray
from fedplus.report.downsample import end_indices
from fedplus.report.formatting import Score, count_of, join_names
from fedplus.report.groups import Group
from fedplus.report.party_charts import Section, chart_option, chart_section
from fedplus.report.run_data import NewParties, mean_or_nan
from fedplus.report.tables import LOCAL

MAX_ROWS = 60
"""The largest number of new parties in the table."""


def new_parties_section(groups: Sequence[Group], score: Score, best: str) -> Section | None:
    """Return the section with each new party's score, and its score with local training."""
    options = []
    for group in groups:
        joined = _new_parties(group)
        if not any(new.can_join for _, new in joined):
            continue
        names = [f"{name}, seed {seed}" for seed, new in joined for name in new.names]
        scores = np.concatenate([new.scores for _, new in joined])
        local = np.concatenate([new.local_scores for _, new in joined])
        gain = score.sign * (scores - local)
        order = np.lexsort((score.sign * scores, gain))  # NaN at the end.
        shown = order[end_indices(order.size, MAX_ROWS)]
        rows = [
            [
                names[i],
                score.text(scores[i]),
                score.text(local[i]),
                _difference(scores[i] - local[i], score),
            ]
            for i in shown
        ]
        table = {"head": ["party", group.label, LOCAL, f"against {LOCAL}"], "rows": rows}
        options.append(
            {**chart_option(group, _finding(group, scores, local, score), []), "table": table}
        )
    section = chart_section("new-parties", "New parties", options, best, _held_out(groups))
    return section and {**section, "open": True}


def new_parties_warning(group: Group) -> str:
    """Return a warning that names the new parties whose local steps diverged in all rounds, or ""."""
    names = dict.fromkeys(
        name
        for _, new in _new_parties(group)
        for name, given_up in zip(new.names, new.given_up, strict=True)
        if given_up == new.rounds
    )
    if not names:
        return ""
    subject = "new party" if len(names) == 1 else "new parties"
    return (
        f"{group.label}: the local steps of {subject} {join_names(names)} diverged in all rounds, so "
        "the model is the one with which the party starts. Try a smaller eta."
    )


def _new_parties(group: Group) -> list[tuple[int, NewParties]]:
    """Return the seed and the new parties of each successful run that has some."""
    return [
        (int(run.status.get("seed") or 0), run.new_parties)
        for run in group.successful_runs
        if run.new_parties is not None
    ]


def _finding(group: Group, scores: NumpyArray, local: NumpyArray, score: Score) -> str:
    mean = score.text(mean_or_nan(scores))
    text = f"Under {group.label}, new parties have a mean {score.name} of {mean}"
    if not np.isfinite(local).any() or group.method == "local":
        return f"{text}."
    gain = score.sign * (scores - local)
    winners, losers = int((gain > 0).sum()), int((gain < 0).sum())
    return (
        f"{text}, against {score.text(mean_or_nan(local))} if each trains alone: {winners:,} of "
        f"{count_of(gain.size, 'party', 'parties')} {'gains' if winners == 1 else 'gain'} and "
        f"{f'{losers:,}' if losers else 'none'} {'lose' if losers > 1 else 'loses'}."
    )


def _difference(value: float, score: Score) -> str:
    return score.difference(value) if np.isfinite(value) else "–"


def _held_out(groups: Sequence[Group]) -> str:
    """Return the sentence that says who was held out, with which seed."""
    by_seed = {seed: new.names for group in groups for seed, new in _new_parties(group)}
    choices = dict.fromkeys(by_seed.values())
    if len(choices) == 1:
        return f"Held out of the training: {join_names(next(iter(choices)), 20)}."
    texts = [f"{join_names(names, 10)} with seed {seed}" for seed, names in by_seed.items()]
    return f"Held out of the training: {'; '.join(texts)}."
