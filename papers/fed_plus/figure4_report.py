"""Tables and figure for Figure 4: scores in the last round, and the lead over FedProx."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from papers.fed_plus.fedprox_federations import GPU_DATA_SET, PREFIX
from papers.fed_plus.formatting import format_difference
from papers.fed_plus.plot import column_grid, method_colour, method_marker
from papers.fed_plus.results import Record, group_records, read_csv_if_exists, read_json
from papers.fed_plus.specs import published_results, spec_names

from fedplus.report.table_formats import markdown_table

TITLES = {
    "synthetic": "synthetic(1000, 10)", "synthetic-shared": "synthetic, half shared",
    "mnist": "MNIST", "femnist": "FEMNIST", "sent140": "Sent140",
}  # fmt: skip
VARIANTS = ("fedavg+", "fedgeomed+", "fedcomed+")
BASELINE = "fedprox"
MODEL_LABELS = {"own": "own w_k", "served": "own w_k, w̃ before", "common": "w̃"}
"""Labels of the kinds of model (see ``evaluation``) in the tables."""
ROW_LABELS = {
    "own": "what a party uses (Fed+: w_k)",
    "served": "the same, w̃ until first active",
    "common": "w̃ for everyone",
}
"""Their labels in the figure."""


def last_rounds(results: Path) -> dict[str, dict[str, Record]]:
    """Return the last evaluated round by data set and method, in the order of ``TITLES``."""
    by_data: dict[str, dict[str, Record]] = {}
    for data in TITLES:
        records = read_csv_if_exists(results / f"{PREFIX}{data}.csv")
        if records:
            # Later rounds replace earlier ones.
            by_data[data] = {record["method"]: record for record in records}
    return by_data


def heading(results: Path, data: str) -> str:
    """Return the title of a data set with its size, and whether it is a stand-in."""
    about = read_json(results / f"{PREFIX}{data}-about.json")
    stand_in = " (stand-in)" if about["stand_in_for"] else ""
    return f"{TITLES[data]}{stand_in}, N = {about['parties']:,}, {about['rounds']:g} rounds"


def blocks(results: Path) -> Mapping[str, str]:
    """Return the table of scores and the table of leads over FedProx."""
    by_data = last_rounds(results)
    if not by_data:
        return {}
    return {
        "figure4": _score_table(results, by_data),
        "figure4-lead": _lead_table(results, by_data),
    }


def _score_table(results: Path, by_data: Mapping[str, Mapping[str, Record]]) -> str:
    labels = {
        method: record["label"]
        for of_data in by_data.values()
        for method, record in of_data.items()
    }
    order = [method for method in labels if method != "majority"] + ["majority"]
    rows = []
    for method in order:
        for kind in MODEL_LABELS if method in VARIANTS else ("own",):
            label = labels[method] if kind == "own" else f"… {MODEL_LABELS[kind]}"
            rows.append(
                [label, *(_cell(of_data.get(method), kind) for of_data in by_data.values())]
            )
    table = markdown_table(["", *(heading(results, data) for data in by_data)], rows)
    lines = [table, "", _notes(results, by_data)]
    if GPU_DATA_SET in by_data:
        lines += ["", f"![Accuracy over rounds on Sent140](results/{PREFIX}{GPU_DATA_SET}.png)"]
    return "\n".join(lines)


def _cell(record: Record | None, kind: str) -> str:
    if record is None or record[f"{kind}_pooled"] is None:
        return "–"
    std = record[f"{kind}_pooled_std"]
    spread = "" if std is None else f" ± {100 * std:.1f}"
    return f"{100 * record[f'{kind}_pooled']:.1f}{spread} ({100 * record[f'{kind}_mean']:.1f})"


def _notes(results: Path, by_data: Mapping[str, Mapping[str, Record]]) -> str:
    notes = [f"Seeds: {format_seed_counts(by_data)}."]
    for data, of_data in by_data.items():
        active = next(record["active"] for name, record in of_data.items() if name != "majority")
        if active < 1:
            notes.append(f"Active at least once on {TITLES[data]}: {100 * active:.0f}% of parties.")
    names = [name.removeprefix(PREFIX) for name in spec_names(PREFIX)]
    absent = [TITLES[name] for name in names if name not in by_data]
    if absent:
        notes.append(f"Not trained yet: {', '.join(absent)}.")
    seconds = sum(
        read_json(results / f"{PREFIX}{data}-about.json")["processor_seconds"] for data in by_data
    )
    return " ".join([*notes, f"Processor time: {seconds / 60:.0f} minutes."])


def format_seed_counts(by_data: Mapping[str, Mapping[str, Record]]) -> str:
    """Return the largest number of seeds, and the data sets that have fewer.

    The number of a data set is the smallest over its methods.
    """
    counts = {
        data: min(int(record["seeds"]) for record in of_data.values())
        for data, of_data in by_data.items()
    }
    most = max(counts.values())
    fewer = [f"{count} on {TITLES[data]}" for data, count in counts.items() if count < most]
    return ", ".join([str(most), *fewer])


def leads_over_fedprox(of_data: Mapping[str, Record], kind: str) -> dict[str, float]:
    """Return the lead of each Fed+ variant over FedProx, in points of pooled accuracy."""
    if BASELINE not in of_data:
        return {}
    baseline = of_data[BASELINE]["own_pooled"]
    return {
        variant: 100 * (of_data[variant][f"{kind}_pooled"] - baseline)
        for variant in VARIANTS
        if variant in of_data
    }


def _lead_table(results: Path, by_data: Mapping[str, Mapping[str, Record]]) -> str:
    """Return the best variant's lead over FedProx by data set, and the mean over the paper's sets."""
    paper = published_results()["figure4"]
    rows = []
    best_leads: dict[str, list[float]] = {kind: [] for kind in MODEL_LABELS}
    for data, of_data in by_data.items():
        cells = [heading(results, data), f"{paper['improves'].get(data, '–')}"]
        for kind in MODEL_LABELS:
            leads = leads_over_fedprox(of_data, kind)
            if not leads:
                cells.append("–")
                continue
            best = max(leads, key=lambda variant: leads[variant])
            cells.append(f"{format_difference(leads[best])} ({of_data[best]['label']})")
            if data in paper["parties"]:
                best_leads[kind].append(leads[best])
        rows.append([*cells, _lead_over_local(of_data)])
    count = len(best_leads["own"])
    means = [format_difference(sum(of) / len(of)) if of else "–" for of in best_leads.values()]
    label = f"mean over the paper's sets, {count} of {len(paper['parties'])}"
    rows.append([label, f"{paper['over_fedprox']:.1f}", *means, ""])
    headings = [f"best Fed+ over FedProx, by {model}" for model in MODEL_LABELS.values()]
    table = markdown_table(["", "paper", *headings, "best Fed+ over local, by own w_k"], rows)
    verdicts = [
        f"by {MODEL_LABELS[kind]} {verdict(leads_of_kind, len(paper['parties']))}"
        for kind, leads_of_kind in best_leads.items()
    ]
    return f"{table}\n\nVerdict by the numbers: {'; '.join(verdicts)}."


def _lead_over_local(of_data: Mapping[str, Record]) -> str:
    own = [of_data[variant]["own_pooled"] for variant in VARIANTS if variant in of_data]
    if "local" not in of_data or not own:
        return "–"
    return format_difference(100 * (max(own) - of_data["local"]["own_pooled"]))


def verdict(leads: Sequence[float], data_set_count: int) -> str:
    """Return whether the best variant is ahead of FedProx by as much as the paper claims.

    Args:
        leads: Lead of the best variant on each data set that was trained.
        data_set_count: Number of the paper's data sets.
    """
    if not leads:
        return "not tried yet"
    mean, ahead = sum(leads) / len(leads), sum(lead > 0 for lead in leads)
    claimed = published_results()["figure4"]["over_fedprox"]
    result = (
        "reproduced" if mean >= claimed and ahead == len(leads)
        else "ahead, by less than claimed" if mean > 0
        else "not reproduced"
    )  # fmt: skip
    missing = data_set_count - len(leads)
    note = f", {missing} not tried" if missing else ""
    prefix = "so far " if missing else ""
    average = format_difference(mean)
    return f"{prefix}{result} ({average} on average, ahead on {ahead} of {len(leads)}{note})"


def draw(results: Path) -> Mapping[str, Any]:
    """Return ``figure4``, and ``figure4-sent140`` on its own, because another machine makes it."""
    by_data = {data: read_csv_if_exists(results / f"{PREFIX}{data}.csv") for data in TITLES}
    by_data = {data: records for data, records in by_data.items() if records}
    gpu = by_data.pop(GPU_DATA_SET, None)
    figures = {}
    if by_data:
        figures["figure4"] = _figure(results, by_data)
    if gpu is not None:
        figures[f"{PREFIX}{GPU_DATA_SET}"] = _figure(results, {GPU_DATA_SET: gpu})
    return figures


def _figure(results: Path, by_data: Mapping[str, Sequence[Record]]) -> Any:
    titles = {data: heading(results, data).replace(", N", "\nN") for data in by_data}
    figure, grid = column_grid(titles, ROW_LABELS, (3.1, 7.6), "round", label_size=8)
    for column, records in zip(grid.T, by_data.values(), strict=True):
        for axes, kind in zip(column, ROW_LABELS, strict=True):
            _panel(axes, records, kind)
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=min(len(labels), 5), fontsize=8
    )
    return figure


def _panel(axes: Any, records: Sequence[Record], kind: str) -> None:
    present = [record for record in records if record[f"{kind}_pooled"] is not None]
    for (method,), of_method in group_records(present, "method").items():
        if method == "majority":
            level = 100 * of_method[0]["own_pooled"]
            axes.axhline(level, color="black", linestyle=":", linewidth=1, label="majority class")
            continue
        x = [record["round"] for record in of_method]
        y = 100 * np.array([record[f"{kind}_pooled"] for record in of_method])
        std = 100 * np.array([record[f"{kind}_pooled_std"] or 0.0 for record in of_method])
        style = {"color": method_colour(method), "label": of_method[0]["label"]}
        line: Any = "-" if method in VARIANTS else "--"
        if method == "local":  # Drawn over the curves of Fed+, which often coincide with it.
            line = (0, (2, 4))
        axes.fill_between(x, y - std, y + std, color=style["color"], alpha=0.12, linewidth=0)
        every = max(1, len(x) // 5)
        start = VARIANTS.index(method) if method in VARIANTS else 0
        axes.plot(
            x, y, linestyle=line, linewidth=1.2, zorder=4 if method == "local" else 3, **style,
            marker=method_marker(method), markevery=(min(start, len(x) - 1), every),
        )  # fmt: skip
