"""Figure 4 in Markdown: the last evaluated round, whose model is judged, and the lead over FedProx."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from papers.fed_plus.benchmarks import ON_GPU, PREFIX
from papers.fed_plus.panels import read
from papers.fed_plus.results import read_json
from papers.fed_plus.signed import signed
from papers.fed_plus.specs import names, published

from fedplus.report.table_formats import markdown_table

Record = Mapping[str, Any]
TITLES = {
    "synthetic": "synthetic(1000, 10)", "synthetic-shared": "synthetic, half shared",
    "mnist": "MNIST", "femnist": "FEMNIST", "sent140": "Sent140",
}  # fmt: skip
VARIANTS = ("fedavg+", "fedgeomed+", "fedcomed+")
RIVAL = "fedprox"
JUDGED = {"own": "own w_k", "served": "own w_k, w̃ before", "common": "w̃"}


def there(results: Path) -> dict[str, dict[str, Record]]:
    """Data set ↦ method ↦ its last evaluated round, in the order of ``TITLES``."""
    found: dict[str, dict[str, Record]] = {}
    for data in TITLES:
        records = read(results / f"{PREFIX}{data}.csv")
        if records:
            found[data] = {one["method"]: one for one in records}  # The last of each stays.
    return found


def heading(results: Path, data: str) -> str:
    """A data set, marked where another stands in for it."""
    about = read_json(results / f"{PREFIX}{data}-about.json")
    stands_in = " (stand-in)" if about["stand_in_for"] else ""
    return f"{TITLES[data]}{stands_in}, N = {about['parties']:,}, {about['rounds']:g} rounds"


def blocks(results: Path) -> Mapping[str, str]:
    """The scores, and who leads by how much."""
    found = there(results)
    if not found:
        return {}
    return {"figure4": _scores(results, found), "figure4-lead": _lead(results, found)}


def _scores(results: Path, found: Mapping[str, Mapping[str, Record]]) -> str:
    labels = {m: one["label"] for of in found.values() for m, one in of.items()}
    order = [method for method in labels if method != "majority"] + ["majority"]
    rows = []
    for method in order:
        kinds = JUDGED if method in VARIANTS else ("own",)
        for kind in kinds:
            told = labels[method] if kind == "own" else f"… {JUDGED[kind]}"
            cells = [_cell(of.get(method), kind) for of in found.values()]
            rows.append([told, *cells])
    table = markdown_table(["", *(heading(results, data) for data in found)], rows)
    lines = [table, "", _notes(results, found)]
    if ON_GPU in found:
        lines += ["", f"![Accuracy over rounds on Sent140](paper/{PREFIX}{ON_GPU}.png)"]
    return "\n".join(lines)


def _cell(one: Record | None, kind: str) -> str:
    if one is None or one[f"{kind}_pooled"] is None:
        return "–"
    spread = one[f"{kind}_pooled_std"]
    told = "" if spread is None else f" ± {100 * spread:.1f}"
    return f"{100 * one[f'{kind}_pooled']:.1f}{told} ({100 * one[f'{kind}_mean']:.1f})"


def _notes(results: Path, found: Mapping[str, Mapping[str, Record]]) -> str:
    told = [f"Seeds: {seeds_told(found)}."]
    for data, of in found.items():
        active = next(one["active"] for method, one in of.items() if method != "majority")
        if active < 1:
            told.append(f"Active at least once on {TITLES[data]}: {100 * active:.0f}% of parties.")
    absent = [n.removeprefix(PREFIX) for n in names(PREFIX) if n.removeprefix(PREFIX) not in found]
    if absent:
        told.append(f"Not trained yet: {', '.join(TITLES[data] for data in absent)}.")
    minutes = sum(
        read_json(results / f"{PREFIX}{data}-about.json")["processor_seconds"] for data in found
    )
    return " ".join([*told, f"Processor time: {minutes / 60:.0f} minutes."])


def seeds_told(found: Mapping[str, Mapping[str, Record]]) -> str:
    """The most seeds of any data set, and where there are fewer; of a data set the fewest count."""
    counts = {data: min(int(one["seeds"]) for one in of.values()) for data, of in found.items()}
    most = max(counts.values())
    fewer = [f"{count} on {TITLES[data]}" for data, count in counts.items() if count < most]
    return ", ".join([str(most), *fewer])


def margins(of: Mapping[str, Record], kind: str) -> dict[str, float]:
    """Of each Fed+ variant over FedProx, in points of pooled accuracy."""
    if RIVAL not in of:
        return {}
    rival = of[RIVAL]["own_pooled"]
    return {m: 100 * (of[m][f"{kind}_pooled"] - rival) for m in VARIANTS if m in of}


def _lead(results: Path, found: Mapping[str, Mapping[str, Record]]) -> str:
    """The best variant over FedProx, as the paper counts it; the mean over its four data sets."""
    paper = published()["figure4"]
    rows = []
    best: dict[str, list[float]] = {kind: [] for kind in JUDGED}
    for data, of in found.items():
        cells = [heading(results, data), f"{paper['improves'].get(data, '–')}"]
        for kind in JUDGED:
            leads = margins(of, kind)
            if not leads:
                cells.append("–")
                continue
            most = max(leads, key=lambda m: leads[m])
            cells.append(f"{signed(leads[most])} ({of[most]['label']})")
            if data in paper["parties"]:
                best[kind].append(leads[most])
        local = of.get("local")
        own = max((of[m]["own_pooled"] for m in VARIANTS if m in of), default=None)
        apart = None if local is None or own is None else 100 * (own - local["own_pooled"])
        rows.append([*cells, "–" if apart is None else signed(apart)])
    count = len(best["own"])
    mean = [signed(sum(of) / len(of)) if of else "–" for of in best.values()]
    label = f"mean over the paper's sets, {count} of {len(paper['parties'])}"
    rows.append([label, f"{paper['over_fedprox']:.1f}", *mean, ""])
    heads = [f"best Fed+ over FedProx, by {told}" for told in JUDGED.values()]
    table = markdown_table(["", "paper", *heads, "best Fed+ over local, by own w_k"], rows)
    told = [f"by {JUDGED[kind]} {verdict(of, len(paper['parties']))}" for kind, of in best.items()]
    return f"{table}\n\nVerdict by the numbers: {'; '.join(told)}."


def verdict(leads: Sequence[float], whole: int) -> str:
    """Is the best variant ahead of FedProx, by as much as claimed?"""
    if not leads:
        return "not tried yet"
    mean, ahead = sum(leads) / len(leads), sum(lead > 0 for lead in leads)
    claimed = published()["figure4"]["over_fedprox"]
    told = (
        "reproduced" if mean >= claimed and ahead == len(leads)
        else "ahead, by less than claimed" if mean > 0
        else "not reproduced"
    )  # fmt: skip
    some = "" if len(leads) == whole else f", {whole - len(leads)} not tried"
    told = told if len(leads) == whole else f"so far {told}"
    return f"{told} ({signed(mean)} on average, ahead on {ahead} of {len(leads)}{some})"
