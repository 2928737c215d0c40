"""The study of attacks in Markdown: what is left to honest parties, attack by attack."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from papers.fed_plus.results import read_csv, read_json
from papers.fed_plus.settings_text import chosen_table

from fedplus.report.table_formats import markdown_table

Record = Mapping[str, Any]
TITLES = {
    "sign_flip": "sign flip, × 3", "scaling": "scaling, × 10", "gaussian": "Gaussian noise, s.d. 1",
    "a_little_is_enough": "a little is enough, z = 1.5", "inner_product": "inner product, ε = 2",
}  # fmt: skip
PICTURE = (
    "![Accuracy of honest parties over the share that attacks, five attacks](paper/attacks.png)"
)


def blocks(results: Path) -> Mapping[str, str]:
    """The largest share of each attack beside none, and the settings that were chosen."""
    if not (results / "attacks.csv").exists():
        return {}
    records = read_csv(results / "attacks.csv")
    return {
        "attacks": f"{PICTURE}\n\n{_answer(records)}",
        "attacks-settings": chosen_table(read_json(results / "attacks-tuning.json"), ""),
    }


def _answer(records: Sequence[Record]) -> str:
    """Methods down, attacks across, at the largest share; worst over attacks last."""
    listed = [a for a in TITLES if any(one["attack"] == a for one in records)]
    most = {a: max(o["share"] for o in records if o["attack"] == a) for a in listed}
    headings = ["", "no attack", *(f"{TITLES[a]}, {100 * most[a]:.0f}%" for a in listed), "worst"]
    rows = []
    for label in dict.fromkeys(one["label"] for one in records):
        mine = {(o["attack"], o["share"]): o for o in records if o["label"] == label}
        here = [mine.get((a, most[a])) for a in listed]
        scores = [one["honest"] for one in here if one is not None]
        told = "–"
        if scores:
            told = "failed" if None in scores else f"{100 * min(scores):.1f}"
        rows.append([label, _cell(mine.get(("none", 0.0))), *map(_cell, here), told])
    return markdown_table(headings, rows)


def _cell(one: Record | None) -> str:
    if one is None:
        return "–"
    failed = f" (failed {one['failed']:.0f} of {one['seeds']:.0f})" if one["failed"] else ""
    if one["honest"] is None:
        return failed.strip(" ()")
    spread = "" if one["honest_std"] is None else f" ± {100 * one['honest_std']:.1f}"
    return f"{100 * one['honest']:.1f}{spread}{failed}"
