"""Table 2 in Markdown, from its committed results: one table per data set, and the verdicts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from papers.fed_plus.formatting import format_difference
from papers.fed_plus.results import Record, read_csv, read_json
from papers.fed_plus.specs import published_results

from fedplus.report.table_formats import markdown_table

SETTINGS_KINDS = ("stated", "tuned")
PAPER_WINNER = "fedgeomed+"
"""The method that wins every row of the paper's table."""
PERCENT = 100.0


def blocks(results: Path) -> Mapping[str, str]:
    """Return the table of verdicts, one table per data set, the chosen settings and the times."""
    if not (results / "table2.csv").exists():
        return {}
    records = read_csv(results / "table2.csv")
    texts = {"table2-answer": _verdict_table(records)} | _duration_table(results)
    for row in published_results()["table2"]["rows"]:
        of_data = [record for record in records if record["data"] == row["spec"]]
        if of_data:
            texts[f"table2-{row['spec']}"] = _data_set_table(of_data)
    if (results / "table2-tuning.json").exists():
        texts["table2-tuning"] = _tuning_table(read_json(results / "table2-tuning.json"))
    return texts


def verdict(records: Sequence[Record]) -> str:
    """Return whether FedGeoMed+ wins a row of the paper's table, among the methods of the paper.

    Args:
        records: Records of one data set.
    """
    rows = published_results()["table2"]["rows"]
    (row,) = [row for row in rows if row["spec"] == records[0]["data"]]
    tried = []
    for kind, answer in (("stated", "reproduced"), ("tuned", "reproduced when tuned")):
        of_paper = [r for r in records if r["settings"] == kind and r["paper"] is not None]
        if {record["method"] for record in of_paper} == set(row["scores"]):
            if _best(of_paper)["method"] == PAPER_WINNER:
                return answer
            tried.append(kind)
    if "stated" not in tried:
        return "not all of the paper's methods tried yet"
    return (
        "not reproduced" if "tuned" in tried else "not reproduced as stated; tuned: not all tried"
    )


def _best(records: Sequence[Record]) -> Record:
    finished = [record for record in records if record["mean"] is not None]
    choose = max if _is_accuracy(records) else min
    return choose(finished, key=lambda record: float(record["mean"]))


def _is_accuracy(records: Sequence[Record]) -> bool:
    return str(records[0]["data"]) != "synthetic-regression"


def _data_set_table(records: Sequence[Record]) -> str:
    """Return the table of one data set: the paper's number, then the scores by kind of settings."""
    kinds = [kind for kind in SETTINGS_KINDS if any(r["settings"] == kind for r in records)]
    headings = ["", "paper"]
    for kind in kinds:
        seeds = sorted({int(record["seeds"]) for record in records if record["settings"] == kind})
        headings += [f"{kind} ({_format_seed_count(seeds)})", "the others", "outliers"]
    factor = PERCENT if _is_accuracy(records) else 1.0
    rows = []
    for method in dict.fromkeys(record["method"] for record in records):
        by_kind = {r["settings"]: r for r in records if r["method"] == method}
        first = next(iter(by_kind.values()))
        printed = next((r["paper"] for r in by_kind.values() if r["paper"] is not None), None)
        cells = [first["label"], "–" if printed is None else f"{printed:g}"]
        for kind in kinds:
            cells += _cells(by_kind.get(kind), factor)
        rows.append(cells)
    return markdown_table(headings, rows)


def _cells(record: Record | None, factor: float) -> list[str]:
    if record is None or record["mean"] is None:
        return [(record or {}).get("note") or "–", "", ""]
    cells = []
    for key in ("mean", "the_others", "outliers"):
        value, std = record[key], record[f"{key}_std"]
        text = "–" if value is None else _number(factor * value, factor)
        cells.append(text if std is None else f"{text} ± {_number(factor * std, factor)}")
    if record["best"] == "True":
        cells[0] = f"**{cells[0]}**"
    return cells


def _number(value: float, factor: float) -> str:
    return f"{value:.1f}" if factor == PERCENT else f"{value:.0f}"


def _verdict_table(records: Sequence[Record]) -> str:
    """Return one row per data set: the winner, and FedGeoMed+ compared with FedAvg+ and local."""
    rows = []
    for row in published_results()["table2"]["rows"]:
        of_data = [record for record in records if record["data"] == row["spec"]]
        if not of_data:
            rows.append([row["title"], *["–"] * 8, "not yet tried"])
            continue
        cells = [row["title"], f"{row['scores'][PAPER_WINNER]:g}"]
        for kind in SETTINGS_KINDS:
            cells += _margin_cells([record for record in of_data if record["settings"] == kind])
        rows.append([*cells, verdict(of_data)])
    headings = ["", "paper, FedGeoMed+"]
    for kind in SETTINGS_KINDS:
        headings += [f"{kind}: FedGeoMed+", "over FedAvg+", "over local", "best of all"]
    return markdown_table([*headings, "does FedGeoMed+ win among the paper's methods?"], rows)


def _margin_cells(records: Sequence[Record]) -> list[str]:
    finished = {record["method"]: record for record in records if record["mean"] is not None}
    if PAPER_WINNER not in finished:
        return ["–"] * 4
    factor = PERCENT if _is_accuracy(records) else 1.0
    score = factor * finished[PAPER_WINNER]["mean"]
    cells = [_number(score, factor)]
    for other in ("fedavg+", "local"):
        margin = score - factor * finished[other]["mean"] if other in finished else float("nan")
        cells.append(format_difference(margin))
    best = _best([record for record in records if record["method"] != "majority"])
    return [*cells, f"{best['label']} {_number(factor * best['mean'], factor)}"]


def _tuning_table(by_data: Mapping[str, Any]) -> str:
    """Return a table of the chosen settings and their validation scores."""
    rows = []
    for name, methods in by_data.items():
        for method, result in methods.items():
            settings = ", ".join(f"{key} = {value:g}" for key, value in result["settings"].items())
            edge = ", ".join(result["at_edge"]) or "–"
            score = result["score"]
            text = f"{PERCENT * score:.1f}" if "mnist" in name else f"{score:.0f}"
            rows.append([name.removeprefix("table2-"), method, settings, text, edge])
    headings = ["data", "method", "chosen", "validation score", "at the edge of the grid"]
    return markdown_table(headings, rows)


def _duration_table(results: Path) -> dict[str, str]:
    """Return the processor time and wall-clock time of all jobs; nothing if the runs are incomplete."""
    durations = read_json(results / "table2-times.json")
    if not durations["whole"]:
        return {}
    rows = [
        [kind, f"{of['jobs']:.0f}", f"{of['processor'] / 60:.1f}", f"{of['seconds'] / 60:.1f}"]
        for kind, of in durations.items()
        if isinstance(of, dict)
    ]
    headings = ["part", "jobs", "processor minutes", "minutes by the clock, jobs added up"]
    return {"table2-times": markdown_table(headings, rows)}


def _format_seed_count(counts: Sequence[int]) -> str:
    least, most = counts[0], counts[-1]
    text = f"{most}" if least == most else f"{least} to {most}"
    return f"{text} seed{'' if most == 1 else 's'}"
