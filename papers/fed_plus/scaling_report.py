"""Tables and figure of the scaling study: the mean over the three Fed+ methods, as in the paper."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from papers.fed_plus.fedprox_federations import GPU_DATA_SET, PREFIX
from papers.fed_plus.figure4_report import TITLES, VARIANTS
from papers.fed_plus.plot import column_grid, legend_handles, method_colour, method_marker
from papers.fed_plus.results import Record, group_records, read_csv_if_exists
from papers.fed_plus.specs import load_spec, published_results, spec_names

from fedplus.data.sets import SETS
from fedplus.experiments.defaults import LABELS
from fedplus.report.table_formats import markdown_table

COLUMN_LABELS = {
    "all": "Fed+, all N judged", "own": "Fed+, the n by own w_k", "common": "Fed+, the n by w̃",
}  # fmt: skip
ROW_LABELS = {
    "all": "all N parties judged",
    "own": "the n that train judged\n(Fed+: by w_k)",
}


def read_records(results: Path) -> dict[str, list[Record]]:
    """Return the records of each data set that has some."""
    by_data = {data: read_csv_if_exists(results / f"scaling-{data}.csv") for data in TITLES}
    return {data: list(records) for data, records in by_data.items() if records}


def data_set_title(data: str) -> str:
    """Return the title of a data set, and whether it is a stand-in."""
    is_stand_in = SETS[str(load_spec(f"{PREFIX}{data}").data.name)].stand_in_for
    return TITLES[data] + (" (stand-in)" if is_stand_in else "")


def mean_of_variants(records: Sequence[Record], n: float, kind: str) -> float | None:
    """Return the mean accuracy over the three variants, as the paper does, or over those trained."""
    values = [
        record[f"{kind}_pooled"]
        for record in records
        if record["parties"] == n and record["method"] in VARIANTS
    ]
    return 100 * float(np.mean(values)) if values and None not in values else None


def largest_std(
    records: Sequence[Record], n: float, methods: Sequence[str], kind: str = "own"
) -> float | None:
    """Return the largest standard deviation over seeds of these methods; None with one seed."""
    values = [
        record[f"{kind}_pooled_std"]
        for record in records
        if record["parties"] == n and record["method"] in methods
    ]
    return max((100 * value for value in values if value is not None), default=None)


def describe_growth(values: Sequence[float | None]) -> str:
    """Return "yes" if every value is larger than the one before, "no", or "not tried"."""
    known = [value for value in values if value is not None]
    if len(known) < 2 or len(known) < len(values):
        return "not tried"
    return "yes" if all(a < b for a, b in pairwise(known)) else "no"


def blocks(results: Path) -> Mapping[str, str]:
    """Return a table with one row per data set and party count, and whether accuracy grows."""
    by_data = read_records(results)
    if not by_data:
        return {}
    rows, growth = [], []
    for data, records in by_data.items():
        printed = dict(map(tuple, published_results()["scaling"]["rows"].get(data, [])))
        counts = list(dict.fromkeys(record["parties"] for record in records))
        for n in counts:
            cells = [
                _cell(mean_of_variants(records, n, kind), largest_std(records, n, VARIANTS, kind))
                for kind in COLUMN_LABELS
            ]
            cells += [
                _cell(_method_score(records, n, method), largest_std(records, n, (method,)))
                for method in ("local", "fedprox")
            ]
            first = [data_set_title(data), f"{n:g}", _seeds(records, n), _number(printed.get(n))]
            rows.append([*first, *cells, _majority(records, n)])
        answers = [
            describe_growth([mean_of_variants(records, n, kind) for n in counts])
            for kind in COLUMN_LABELS
        ]
        growth.append([data_set_title(data), *answers])
    headings = ["", "n", "seeds", "paper", *COLUMN_LABELS.values(), "local SGD", "FedProx",
                "majority class"]  # fmt: skip
    picture = f"\n\n![Scaling on Sent140](results/scaling-{GPU_DATA_SET}.png)"
    picture = picture if GPU_DATA_SET in by_data else ""
    return {
        "scaling": f"{markdown_table(headings, rows)}{_notes(by_data)}{picture}",
        "scaling-growth": markdown_table(["grows with n?", *COLUMN_LABELS.values()], growth),
    }


def _notes(by_data: Mapping[str, Sequence[Record]]) -> str:
    names = [name.removeprefix(PREFIX) for name in spec_names(PREFIX)]
    absent = [TITLES[name] for name in names if name not in by_data]
    notes = f"\n\nNot trained yet: {', '.join(absent)}." if absent else ""
    for data, records in by_data.items():
        methods = {record["method"] for record in records}
        trained = [LABELS[variant] for variant in VARIANTS if variant in methods]
        if len(trained) < len(VARIANTS):
            notes += f"\n\nFed+ on {data_set_title(data)}: {', '.join(trained)} alone."
    return notes


def _method_score(records: Sequence[Record], n: float, method: str) -> float | None:
    matching = [r for r in records if r["parties"] == n and r["method"] == method]
    return 100 * matching[0]["own_pooled"] if matching else None


def _seeds(records: Sequence[Record], n: float) -> str:
    counts = sorted({int(record["seeds"]) for record in records if record["parties"] == n})
    return " or ".join(map(str, counts))


def _majority(records: Sequence[Record], n: float) -> str:
    return _number(100 * next(r["majority_pooled"] for r in records if r["parties"] == n))


def _cell(value: float | None, std: float | None) -> str:
    return _number(value) + ("" if value is None or std is None else f" ± {std:.1f}")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def draw(results: Path) -> Mapping[str, Any]:
    """Return ``scaling``, and ``scaling-sent140`` on its own, because another machine makes it."""
    by_data = read_records(results)
    gpu = by_data.pop(GPU_DATA_SET, None)
    figures = {}
    if by_data:
        figures["scaling"] = _figure(by_data)
    if gpu is not None:
        figures[f"scaling-{GPU_DATA_SET}"] = _figure({GPU_DATA_SET: gpu})
    return figures


def _figure(by_data: Mapping[str, Sequence[Record]]) -> Any:
    titles = {data: data_set_title(data) for data in by_data}
    figure, grid = column_grid(titles, ROW_LABELS, (3.0, 5.4), "n, parties that train")
    for column, (data, records) in zip(grid.T, by_data.items(), strict=True):
        for axes, kind in zip(column, ROW_LABELS, strict=True):
            _panel(axes, records, kind, published_results()["scaling"]["rows"].get(data, []))
    handles = legend_handles(grid.flat)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, fontsize=8)
    return figure


def _panel(axes: Any, records: Sequence[Record], kind: str, printed: Sequence[Any]) -> None:
    if kind == "own":
        of_count = group_records(records, "parties")
        majority = [100 * group[0]["majority_pooled"] for group in of_count.values()]
        counts = [n for (n,) in of_count]
        axes.plot(counts, majority, ":", color="black", linewidth=1, label="majority class")
    present = [record for record in records if record[f"{kind}_pooled"] is not None]
    for (method,), of_method in group_records(present, "method").items():
        axes.errorbar(
            [record["parties"] for record in of_method],
            [100 * record[f"{kind}_pooled"] for record in of_method],
            [100 * (record.get(f"{kind}_pooled_std") or 0) for record in of_method],
            color=method_colour(method), marker=method_marker(method),
            label=of_method[0]["label"], capsize=2, linewidth=1.2,
            linestyle="-" if method in VARIANTS else "--",
            zorder=4 if method == "local" else 3,  # The curves of Fed+ often coincide with it.
        )  # fmt: skip
    if printed:
        x, y = zip(*printed, strict=True)
        label = "paper: mean of the three Fed+"
        axes.plot(x, y, "x", color="black", markersize=7, label=label)
