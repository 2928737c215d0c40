"""Small files of results: CSV and JSON that a person can read and a test can compare."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

DIGITS = 6
"""Significant digits that are kept: more than a table shows, fewer than machines agree on."""


def csv_of(records: Sequence[Mapping[str, Any]]) -> str:
    r"""Records as CSV; every record has the keys of the first.

    >>> csv_of([{"method": "fedavg", "mean": 0.12345678, "note": None}])
    'method,mean,note\nfedavg,0.123457,\n'
    """
    out = io.StringIO()
    writer = csv.DictWriter(out, list(records[0]) if records else ["method"], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _short(value) for name, value in one.items()} for one in records)
    return out.getvalue()


def json_of(value: Any) -> str:
    """JSON with as many digits as the CSV has."""
    return json.dumps(_short(value), indent=1, ensure_ascii=False) + "\n"


def read_csv(path: Path) -> list[dict[str, Any]]:
    """Records of a CSV file: numbers where they are numbers, None where there is nothing."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            {name: _value(text) for name, text in record.items()} for record in csv.DictReader(file)
        ]


def read_json(path: Path) -> Any:
    """What a JSON file holds."""
    return json.loads(path.read_text(encoding="utf-8"))


def _short(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _short(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_short(one) for one in value]
    if isinstance(value, float):  # NumPy's float64 is one, too.
        return float(f"{value:.{DIGITS}g}")
    return value


def _value(text: str) -> Any:
    if text == "":
        return None
    try:
        return float(text)
    except ValueError:
        return text
