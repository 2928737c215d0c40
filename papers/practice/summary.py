"""Summarise the pieces of the study in small files, which are committed.

- ``scores.csv``: one row per federation and method.
- ``parties.csv``: the parties, by seed, that repeated or gave up steps, or that end worse than the
  untrained model.
- ``trials.json``: federation ↦ method ↦ the validation score of each candidate, in the order of
  ``draw_candidates``, and in how many rounds parties gave up steps.

``earlier-silos.csv`` is not written here. It counts the parties whose mean error is infinite or above
10⁶ in ``papers/fed_plus/results/silos.csv`` as of commit 03d3f8d, before steps that diverge were
repeated.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from papers.fed_plus.formatting import format_value
from papers.fed_plus.results import Record, to_csv
from papers.practice.federations import specs
from papers.practice.methods import FAMILIES
from papers.practice.study import piece_path

from fedplus.check import require
from fedplus.files import SHARED, write_atomically

RESULTS = Path(__file__).with_name("results")
TRIAL_DIGITS = 5
Piece = Mapping[str, Any]


def read_pieces(folder: Path) -> list[Piece]:
    """Return the pieces of all federations and methods, in the order of ``grids.toml``."""
    pieces = []
    for spec in specs().values():
        for method in FAMILIES[spec.families]:
            path = piece_path(folder, spec.name, method)
            require(
                path.exists(), "pieces", f"no {path.name}", "finished: python -m papers.practice"
            )
            pieces.append(json.loads(path.read_text(encoding="utf-8")))
    return pieces


def write_results(pieces: Sequence[Piece], folder: Path) -> None:
    """Write the summaries of all pieces into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    parties = [record for piece in pieces for record in party_records(piece)]
    texts = {
        "scores.csv": to_csv([score_record(piece) for piece in pieces]),
        "parties.csv": to_csv(parties),
        "trials.json": trials_json(pieces),
    }
    for name, text in texts.items():
        write_atomically(folder / name, text.encode(), mode=SHARED)


def score_record(piece: Piece) -> Record:
    """Return the row of a piece in ``scores.csv``.

    The standard deviation is that of the mean score over the seeds. The median and the worst party
    are those of each seed, averaged. Counts are of pairs of a party and a seed.
    """
    tests = piece["tests"]
    scores = np.array([test["score"] for test in tests])
    means = scores.mean(axis=1)
    worst = scores.min(axis=1) if piece["better"] == "higher" else scores.max(axis=1)
    parties = party_records(piece)
    counts = {
        f"parties_{name}": sum(record[name] > 0 for record in parties)
        for name in ("below", "repeated", "gave_up")
    }
    return {
        "federation": piece["federation"], "method": piece["method"], "better": piece["better"],
        "mean": means.mean(), "sd": means.std(ddof=1) if len(means) > 1 else None,
        "median_party": _mean_median(scores),
        "worst_party": worst.mean(), "untrained": np.mean([test["untrained"] for test in tests]),
        "parties_times_seeds": scores.size, **counts,
        "validation": piece["validation"], "settings": format_settings(piece["settings"]),
        "at_edge": ", ".join(piece["at_edge"]),
        **{f"seed_{test['seed']}": mean for test, mean in zip(tests, means, strict=True)},
    }  # fmt: skip


def party_records(piece: Piece) -> list[Record]:
    """Return the parties, by seed, that repeated steps or end worse than untrained.

    The columns ``repeated`` and ``gave_up`` count rounds. ``below`` is 1 if the party's score is
    worse than that of the model with which the run began, else 0.
    """
    sign = 1.0 if piece["better"] == "higher" else -1.0
    records = [
        {
            "federation": piece["federation"], "method": piece["method"], "seed": test["seed"],
            "party": party, "samples": piece["sizes"][party], "score": score,
            "untrained": untrained, "repeated": test["repeated"][party],
            "gave_up": test["gave_up"][party],
            "below": int(not sign * score >= sign * untrained),  # NaN is worse than any number.
        }
        for test in piece["tests"]
        for party, (score, untrained) in enumerate(
            zip(test["score"], test["untrained"], strict=True)
        )
    ]  # fmt: skip
    return [record for record in records if record["repeated"] or record["below"]]


def trials_json(pieces: Sequence[Piece]) -> str:
    """Return the mean validation score of each candidate, one line per federation and method."""
    federations: dict[str, list[str]] = {}
    for piece in pieces:
        trials = {
            "validation": [
                float(f"{np.mean(trial['scores']):.{TRIAL_DIGITS}g}") for trial in piece["trials"]
            ],
            "gave_up": [trial["gave_up"] for trial in piece["trials"]],
        }
        line = f'  "{piece["method"]}": {json.dumps(trials)}'
        federations.setdefault(piece["federation"], []).append(line)
    texts = [f' "{name}": {{\n' + ",\n".join(lines) + "\n }" for name, lines in federations.items()]
    return "{\n" + ",\n".join(texts) + "\n}\n"


def _mean_median(scores: Any) -> float:
    return float(np.median(scores, axis=1).mean())


def format_settings(settings: Mapping[str, Any]) -> str:
    """Return settings as the page shows them.

    >>> format_settings({"eta": 0.01, "sigma": 3.0})
    'eta = 0.01, sigma = 3'
    """
    return ", ".join(f"{name} = {format_value(value)}" for name, value in settings.items())
