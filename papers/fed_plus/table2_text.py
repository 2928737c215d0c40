"""Table 2 in Markdown, from the committed CSV: a table a data set, and the answer."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from papers.fed_plus.results import read_csv, read_json
from papers.fed_plus.signed import signed
from papers.fed_plus.specs import published

from fedplus.report.table_formats import markdown_table

Record = Mapping[str, Any]
KINDS = ("stated", "tuned")
BEST = "fedgeomed+"
PERCENT = 100.0


def blocks(results: Path) -> Mapping[str, str]:
    """Tables by name."""
    if not (results / "table2.csv").exists():
        return {}
    records = read_csv(results / "table2.csv")
    made = {"table2-answer": _answer(records)} | _times(results)
    for row in published()["table2"]["rows"]:
        mine = [one for one in records if one["data"] == row["spec"]]
        if mine:
            made[f"table2-{row['spec']}"] = _data(mine)
    if (results / "table2-tuning.json").exists():
        made["table2-tuning"] = _tuning(read_json(results / "table2-tuning.json"))
    return made


def verdict(records: Sequence[Record]) -> str:
    """Does FedGeoMed+ win this row of the paper's table, among the methods that the paper has?"""
    (row,) = [row for row in published()["table2"]["rows"] if row["spec"] == records[0]["data"]]
    tried = []
    for kind, told in (("stated", "reproduced"), ("tuned", "reproduced when tuned")):
        theirs = [one for one in records if one["settings"] == kind and one["paper"] is not None]
        if {one["method"] for one in theirs} == set(row["scores"]):
            if _best(theirs)["method"] == BEST:
                return told
            tried.append(kind)
    if "stated" not in tried:
        return "not all of the paper's methods tried yet"
    return (
        "not reproduced" if "tuned" in tried else "not reproduced as stated; tuned: not all tried"
    )


def _best(records: Sequence[Record]) -> Record:
    known = [one for one in records if one["mean"] is not None]
    return (max if _is_accuracy(records) else min)(known, key=lambda one: float(one["mean"]))


def _is_accuracy(records: Sequence[Record]) -> bool:
    return str(records[0]["data"]) != "synthetic-regression"


def _data(records: Sequence[Record]) -> str:
    """One data set: the paper's figure, then each kind of settings with the outliers apart."""
    kinds = [kind for kind in KINDS if any(one["settings"] == kind for one in records)]
    seeds = {k: sorted({int(o["seeds"]) for o in records if o["settings"] == k}) for k in kinds}
    headings = ["", "paper"]
    for kind in kinds:
        headings += [f"{kind} ({_count(seeds[kind])})", "the others", "outliers"]
    factor = PERCENT if _is_accuracy(records) else 1.0
    rows = []
    for method in dict.fromkeys(one["method"] for one in records):
        mine = {one["settings"]: one for one in records if one["method"] == method}
        first = next(iter(mine.values()))
        printed = next((one["paper"] for one in mine.values() if one["paper"] is not None), None)
        cells = [first["label"], "–" if printed is None else f"{printed:g}"]
        for kind in kinds:
            cells += _cells(mine.get(kind), factor)
        rows.append(cells)
    return markdown_table(headings, rows)


def _cells(record: Record | None, factor: float) -> list[str]:
    if record is None or record["mean"] is None:
        return [(record or {}).get("note") or "–", "", ""]
    told = []
    for key in ("mean", "the_others", "outliers"):
        value, spread = record[key], record[f"{key}_std"]
        text = "–" if value is None else _number(factor * value, factor)
        told.append(text if spread is None else f"{text} ± {_number(factor * spread, factor)}")
    if record["best"] == "True":
        told[0] = f"**{told[0]}**"
    return told


def _number(value: float, factor: float) -> str:
    return f"{value:.1f}" if factor == PERCENT else f"{value:.0f}"


def _answer(records: Sequence[Record]) -> str:
    """A row a data set: who wins, and by how much FedGeoMed+ differs from FedAvg+ and local."""
    rows = []
    for row in published()["table2"]["rows"]:
        mine = [one for one in records if one["data"] == row["spec"]]
        if not mine:
            rows.append([row["title"], *["–"] * 8, "not yet tried"])
            continue
        cells = [row["title"], f"{row['scores'][BEST]:g}"]
        for kind in KINDS:
            cells += _margins([one for one in mine if one["settings"] == kind])
        rows.append([*cells, verdict(mine)])
    headings = ["", "paper, FedGeoMed+"]
    for kind in KINDS:
        headings += [f"{kind}: FedGeoMed+", "over FedAvg+", "over local", "best of all"]
    return markdown_table([*headings, "does FedGeoMed+ win among the paper's methods?"], rows)


def _margins(records: Sequence[Record]) -> list[str]:
    known = {one["method"]: one for one in records if one["mean"] is not None}
    if BEST not in known:
        return ["–"] * 4
    factor = PERCENT if _is_accuracy(records) else 1.0
    mine = factor * known[BEST]["mean"]
    cells = [_number(mine, factor)]
    for other in ("fedavg+", "local"):
        apart = mine - factor * known[other]["mean"] if other in known else float("nan")
        cells.append(signed(apart))
    best = _best([one for one in records if one["method"] != "majority"])
    return [*cells, f"{best['label']} {_number(factor * best['mean'], factor)}"]


def _tuning(told: Mapping[str, Any]) -> str:
    """What was chosen."""
    rows = []
    for name, methods in told.items():
        for method, found in methods.items():
            settings = ", ".join(f"{k} = {v:g}" for k, v in found["settings"].items())
            edge = ", ".join(found["at_edge"]) or "–"
            score = (
                f"{PERCENT * found['score']:.1f}" if "mnist" in name else f"{found['score']:.0f}"
            )
            rows.append([name.removeprefix("table2-"), method, settings, score, edge])
    headings = ["data", "method", "chosen", "validation score", "at the edge of the grid"]
    return markdown_table(headings, rows)


def _times(results: Path) -> dict[str, str]:
    """What it took; nothing where some jobs were not done, or not in one go."""
    told = read_json(results / "table2-times.json")
    if not told["whole"]:
        return {}
    rows = [
        [kind, f"{of['jobs']:.0f}", f"{of['processor'] / 60:.1f}", f"{of['seconds'] / 60:.1f}"]
        for kind, of in told.items()
        if isinstance(of, dict)
    ]
    headings = ["part", "jobs", "processor minutes", "minutes by the clock, jobs added up"]
    return {"table2-times": markdown_table(headings, rows)}


def _count(seeds: Sequence[int]) -> str:
    least, most = seeds[0], seeds[-1]
    told = f"{most}" if least == most else f"{least} to {most}"
    return f"{told} seed{'' if most == 1 else 's'}"
