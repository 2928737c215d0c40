"""The sensitivity study in Markdown: where each variant is best, and what that is worth."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from papers.fed_plus.results import read_csv
from papers.fed_plus.signed import signed

from fedplus.experiments.defaults import LABELS
from fedplus.report.table_formats import markdown_table

Record = Mapping[str, Any]


def blocks(results: Path) -> Mapping[str, str]:
    """Two tables."""
    if not (results / "sensitivity.csv").exists():
        return {}
    records = [r for r in read_csv(results / "sensitivity.csv") if r["method"] != "majority"]
    made = {}
    settings = [_settings(records, sweep) for sweep in ("delta", "sigma")]
    if any(settings):
        headings = ["", "variant", "best at", "accuracy there", "worst at", "accuracy there",
                    "over local at its best"]  # fmt: skip
        made["sensitivity-settings"] = markdown_table(
            headings, [row for rows in settings for row in rows]
        )
    for sweep in ("noise", "outliers"):
        mine = [record for record in records if record["sweep"] == sweep]
        if mine:
            made[f"sensitivity-{sweep}"] = _values(mine)
    return made


def _settings(records: Sequence[Record], sweep: str) -> list[list[str]]:
    mine = [record for record in records if record["sweep"] == sweep]
    local = next((record["mean"] for record in mine if record["method"] == "local"), None)
    rows = []
    for method in dict.fromkeys(r["method"] for r in mine if r["value"] is not None):
        tried = sorted((r for r in mine if r["method"] == method), key=lambda r: r["mean"])
        low, high = tried[0], tried[-1]
        gain = "–" if local is None else signed(100 * (high["mean"] - local))
        rows.append([
            {"delta": "δ", "sigma": "σ"}[sweep], LABELS[method], f"{high['value']:g}",
            f"{100 * high['mean']:.1f}", f"{low['value']:g}", f"{100 * low['mean']:.1f}", gain,
        ])  # fmt: skip
    return rows


def _values(records: Sequence[Record]) -> str:
    """Methods down, values across; all parties, and the outliers behind."""
    values = list(dict.fromkeys(record["value"] for record in records))
    rows = []
    for method in dict.fromkeys(record["method"] for record in records):
        cells = [LABELS[method]]
        for value in values:
            (one,) = [r for r in records if r["method"] == method and r["value"] == value]
            apart = "" if one["outliers"] is None else f" ({100 * one['outliers']:.1f})"
            cells.append(f"{100 * one['mean']:.1f}{apart}")
        rows.append(cells)
    return markdown_table(["", *(f"{value:g}" for value in values)], rows)
