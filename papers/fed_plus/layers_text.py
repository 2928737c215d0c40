"""The study of layers in Markdown: what a ψ a layer is worth, and which layers want which."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from papers.fed_plus.results import read_csv, read_json
from papers.fed_plus.settings_text import chosen_table, psi_of

from fedplus.report.table_formats import markdown_table

Record = Mapping[str, Any]
TITLES = {
    "negatives": "three of ten parties hold negatives", "noise": "two noisy classes a party",
    "sent140": "tweets, an LSTM (stand-in for Sent140)",
}  # fmt: skip
PSIS = ("zero", "quadratic", "l2", "l1")
PARTS = ("rest", "head")
"""From input to output."""
NAMES = {
    "zero": "zero (no pull to w̃)", "quadratic": "quadratic (FedAvg+)", "l2": "L2 (FedGeoMed+)",
    "l1": "L1 (FedCoMed+)",
}  # fmt: skip
PICTURE = (
    "![Validation accuracy by the ψ of two parts of a model, and test accuracy](paper/layers.png)"
)


def there(results: Path, kind: str = "") -> dict[str, list[Record]]:
    """Federation ↦ its records, or with ``kind="-trials"`` the hybrid's trials."""
    paths = {data: results / f"layers-{data}{kind}.csv" for data in TITLES}
    return {data: list(read_csv(path)) for data, path in paths.items() if path.exists()}


def blocks(results: Path) -> Mapping[str, str]:
    """Test samples; then what each part wants, on validation samples; and what was chosen."""
    found, trials = there(results), there(results, "-trials")
    if not found:
        return {}
    told = {data: read_json(results / f"layers-{data}-tuning.json") for data in found}
    made = {
        "layers": f"{PICTURE}\n\n{_answer(found)}",
        "layers-settings": chosen_table(told, ""),
    }
    if trials:
        made["layers-psi"] = _wants(trials)
    return made


def best_by(trials: Sequence[Record], **given: str) -> Record | None:
    """The best trial with such a ψ at such a part, e.g. ``head="l1"``; None where none trained."""
    mine = [
        one
        for one in trials
        if one["validation"] is not None and all(one[f"{p}_psi"] == v for p, v in given.items())
    ]
    return max(mine, key=lambda one: float(one["validation"]), default=None)


def _answer(found: Mapping[str, Sequence[Record]]) -> str:
    rows = []
    for data, mine in found.items():
        split = any(one["outliers"] is not None for one in mine)
        for one in mine:
            others, unlike = (_percent(one[key]) for key in ("the_others", "outliers"))
            apart = [others, unlike] if split else ["–", "–"]
            bold = "**" if one["best"] == "True" else ""
            spread = "" if one["mean_std"] is None else f" ± {100 * one['mean_std']:.1f}"
            p = "–" if one["p"] is None else f"{one['p']:.2f}"
            rows.append([
                TITLES[data], one["label"], f"{bold}{_percent(one['mean'])}{spread}{bold}",
                *apart, _percent(one["worst_party"]), p,
            ])  # fmt: skip
    headings = ["", "method", "test accuracy", "the others", "outliers", "worst party",
                "p against the best"]  # fmt: skip
    return markdown_table(headings, rows)


def _wants(trials: Mapping[str, Sequence[Record]]) -> str:
    """A part's best with each ψ, whatever the other part has."""
    rows = []
    for data, mine in trials.items():
        for part in PARTS:
            best = [best_by(mine, **{part: psi}) for psi in PSIS]
            name = "head" if part == "head" else "the layers before"
            rows.append([TITLES[data], name, *(_cell(one, part) for one in best)])
    return markdown_table(["", "part", *NAMES.values()], rows)


def _cell(one: Record | None, part: str) -> str:
    if one is None:
        return "–"
    other = "head" if part == "rest" else "rest"
    mine = "" if one[f"{part}_delta"] is None else f"δ = {one[f'{part}_delta']:g}, "
    psi = {"psi": one[f"{other}_psi"]}
    delta = one[f"{other}_delta"]
    there = psi_of(psi if delta is None else psi | {"delta": delta})
    return f"{100 * one['validation']:.1f} ({mine}other: {there})"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"
