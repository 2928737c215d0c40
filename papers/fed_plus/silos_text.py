"""The study of real silos in Markdown: how many parties gain, how many lose, by how much."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from papers.fed_plus.results import read_csv, read_json
from papers.fed_plus.settings_text import chosen_table
from papers.fed_plus.signed import signed

from fedplus.experiments.defaults import LABELS
from fedplus.report.table_formats import markdown_table

Record = Mapping[str, Any]
TITLES = {
    "hospitals": "heart disease, 4 hospitals", "patients": "Parkinson's, 42 patients",
    "schools": "exam scores, 139 schools", "writers": "MNIST, 150 writers",
}  # fmt: skip
FAR = 1000.0
"""What is further out is not told to the digit."""
PICTURE = "![Gain of each party over training alone, sorted, and by its samples](paper/silos.png)"


def blocks(results: Path) -> Mapping[str, str]:
    """The answer, and the settings that were chosen."""
    if not (results / "silos.csv").exists():
        return {}
    records = read_csv(results / "silos.csv")
    headings = ["", "method", "alone", "in the federation", "mean gain", "median gain",
                "smaller half", "larger half", "gain for sure", "lose for sure",
                "least gain of a party"]  # fmt: skip
    rows = [
        _row(TITLES[data], mine)
        for data in dict.fromkeys(one["data"] for one in records)
        for method in dict.fromkeys(one["method"] for one in records)
        for mine in [[o for o in records if (o["data"], o["method"]) == (data, method)]]
        if mine
    ]
    return {
        "silos-verdict": verdict(records),
        "silos": f"{PICTURE}\n\n{markdown_table(headings, rows)}",
        "silos-settings": chosen_table(read_json(results / "silos-tuning.json"), "silos-"),
    }


def verdict(records: Sequence[Record]) -> str:
    """Return who gains in each federation: the best method, and the best Fed+ variant if another.

    Methods are compared by the gain of the median party, which a party that diverges leaves finite.
    """
    told = []
    for data in dict.fromkeys(one["data"] for one in records):
        found: dict[str, list[Record]] = {}
        for one in records:
            if one["data"] == data:
                found.setdefault(one["method"], []).append(one)
        ranked = sorted(found, key=lambda method: -_median(found[method]))
        plus = [method for method in ranked if method.endswith("+")]
        listed = dict.fromkeys(ranked[:1] + plus[:1])
        told.append(f"{data}: {' and '.join(_gain(found[method]) for method in listed)}")
    return (
        "the median party's gain over training alone, and how many parties gain and lose for sure, "
        f"with the best method and the best Fed+ variant: {'; '.join(told)}"
    )


def _median(records: Sequence[Record]) -> float:
    return float(np.median([one["gain"] for one in records]))


def _gain(records: Sequence[Record]) -> str:
    unit = " points" if records[0]["better"] == "higher" else "% of the error"
    sure = [surely(one) for one in records]
    lost = sum(one["gain"] < -FAR for one in records)
    diverged = f"; {lost} diverged under some seed" if lost else ""
    return (
        f"{LABELS[records[0]['method']]} {signed(_median(records), unit, FAR)} "
        f"({sure.count(1)} and {sure.count(-1)} of {len(sure)}{diverged})"
    )


def surely(record: Record) -> int:
    """+1 for a party whose gain over the seeds leaves 0 out, −1 for a loss, else 0."""
    if record["half_width"] is None or abs(record["gain"]) <= record["half_width"]:
        return 0
    return 1 if record["gain"] > 0 else -1


def halves(records: Sequence[Record]) -> tuple[float, float]:
    """Mean gain of the half with fewer training samples, and of the others."""
    ordered = sorted(records, key=lambda one: one["samples"])
    cut = len(ordered) // 2
    small, large = (np.mean([one["gain"] for one in o]) for o in (ordered[:cut], ordered[cut:]))
    return float(small), float(large)


def _row(title: str, records: Sequence[Record]) -> list[str]:
    gains = np.array([one["gain"] for one in records])
    factor = 100.0 if records[0]["better"] == "higher" else 1.0
    alone, score = (factor * np.mean([o[key] for o in records]) for key in ("alone", "score"))
    sure = [surely(one) for one in records]
    unit = "" if records[0]["better"] == "higher" else "%"
    least = min(records, key=lambda one: one["gain"])
    told = [float(gains.mean()), float(np.median(gains)), *halves(records)]
    return [
        title, LABELS[records[0]["method"]], f"{alone:.1f}",
        f"{score:.1f}" if score < FAR else f"> {FAR:g}",
        *(signed(one, unit, FAR) for one in told),
        f"{sure.count(1)} of {len(sure)}", f"{sure.count(-1)} of {len(sure)}",
        signed(least["gain"], unit, FAR),
    ]  # fmt: skip
