"""The scaling study in Markdown: the mean over the three Fed+ methods, beside the paper's."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from papers.fed_plus.benchmarks import ON_GPU, PREFIX
from papers.fed_plus.figure4_text import TITLES, VARIANTS
from papers.fed_plus.panels import read
from papers.fed_plus.specs import names, published, spec

from fedplus.data.sets import SETS
from fedplus.experiments.defaults import LABELS
from fedplus.report.table_formats import markdown_table

Record = Mapping[str, Any]
COLUMNS = {
    "all": "Fed+, all N judged", "own": "Fed+, the n by own w_k", "common": "Fed+, the n by w̃",
}  # fmt: skip


def there(results: Path) -> dict[str, list[Record]]:
    """Data set ↦ its records."""
    found = {data: read(results / f"scaling-{data}.csv") for data in TITLES}
    return {data: list(records) for data, records in found.items() if records}


def title(data: str) -> str:
    """A data set, marked where another stands in for it."""
    stands_in = SETS[str(spec(f"{PREFIX}{data}").data.name)].stand_in_for
    return TITLES[data] + (" (stand-in)" if stands_in else "")


def fed_plus(records: Sequence[Record], n: float, kind: str) -> float | None:
    """Mean over the three variants, as the paper takes it, or over those that were trained."""
    of = [
        one[f"{kind}_pooled"] for one in records
        if one["parties"] == n and one["method"] in VARIANTS
    ]  # fmt: skip
    return 100 * float(np.mean(of)) if of and None not in of else None


def spread(
    records: Sequence[Record], n: float, methods: Sequence[str], kind: str = "own"
) -> float | None:
    """The largest standard deviation over seeds of these methods; None where all have one seed."""
    found = [
        one[f"{kind}_pooled_std"] for one in records
        if one["parties"] == n and one["method"] in methods
    ]  # fmt: skip
    return max((100 * one for one in found if one is not None), default=None)


def grows(values: Sequence[float | None]) -> str:
    """Whether accuracy rises with every step."""
    if len(values) < 2 or None in values:
        return "not tried"
    known = [value for value in values if value is not None]
    return "yes" if all(a < b for a, b in pairwise(known)) else "no"


def blocks(results: Path) -> Mapping[str, str]:
    """A row a data set and number of parties, and whether accuracy grows."""
    found = there(results)
    if not found:
        return {}
    paper, rows, growth = published()["scaling"]["rows"], [], []
    for data, records in found.items():
        printed = dict(map(tuple, paper.get(data, [])))
        counts = list(dict.fromkeys(one["parties"] for one in records))
        for n in counts:
            cells = [
                _cell(fed_plus(records, n, kind), spread(records, n, VARIANTS, kind))
                for kind in COLUMNS
            ]
            cells += [
                _cell(_one(records, n, m), spread(records, n, (m,))) for m in ("local", "fedprox")
            ]
            first = [title(data), f"{n:g}", _seeds(records, n), _number(printed.get(n))]
            rows.append([*first, *cells, _majority(records, n)])
        told = [grows([fed_plus(records, n, kind) for n in counts]) for kind in COLUMNS]
        growth.append([title(data), *told])
    heads = ["", "n", "seeds", "paper", *COLUMNS.values(), "local SGD", "FedProx", "majority class"]
    table = markdown_table(heads, rows)
    absent = [n.removeprefix(PREFIX) for n in names(PREFIX) if n.removeprefix(PREFIX) not in found]
    note = f"\n\nNot trained yet: {', '.join(TITLES[data] for data in absent)}." if absent else ""
    for data, records in found.items():
        trained = [name for name in VARIANTS if any(one["method"] == name for one in records)]
        if len(trained) < len(VARIANTS):
            note += (
                f"\n\nFed+ on {title(data)}: {', '.join(LABELS[name] for name in trained)} alone."
            )
    picture = f"\n\n![Scaling on Sent140](paper/scaling-{ON_GPU}.png)" if ON_GPU in found else ""
    return {
        "scaling": f"{table}{note}{picture}",
        "scaling-growth": markdown_table(["grows with n?", *COLUMNS.values()], growth),
    }


def _one(records: Sequence[Record], n: float, method: str) -> float | None:
    found = [one for one in records if one["parties"] == n and one["method"] == method]
    return 100 * found[0]["own_pooled"] if found else None


def _seeds(records: Sequence[Record], n: float) -> str:
    counts = sorted({int(one["seeds"]) for one in records if one["parties"] == n})
    return " or ".join(map(str, counts))


def _majority(records: Sequence[Record], n: float) -> str:
    return _number(100 * next(r["majority_pooled"] for r in records if r["parties"] == n))


def _cell(value: float | None, std: float | None) -> str:
    return _number(value) + ("" if value is None or std is None else f" ± {std:.1f}")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"
