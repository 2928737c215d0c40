"""Small files of results: CSV and JSON that a person can read and a test can compare."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Record = Mapping[str, Any]
"""One row of a table of results: column name ↦ value."""
DIGITS = 6
"""Significant digits in the files: more than a table shows, fewer than differ between machines."""


def to_csv(records: Sequence[Record]) -> str:
    r"""Return records as CSV. Every record has the keys of the first.

    >>> to_csv([{"method": "fedavg", "mean": 0.12345678, "note": None}])
    'method,mean,note\nfedavg,0.123457,\n'
    """
    out = io.StringIO()
    writer = csv.DictWriter(out, list(records[0]) if records else ["method"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(_rounded(record) for record in records)
    return out.getvalue()


def to_json(value: Any) -> str:
    """Return a value as JSON, with numbers rounded as in the CSV files."""
    return json.dumps(_rounded(value), indent=1, ensure_ascii=False) + "\n"


def read_csv(path: Path) -> list[dict[str, Any]]:
    """Return the records of a CSV file; numbers are floats, and empty cells are None."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            {name: _parsed(text) for name, text in record.items()}
            for record in csv.DictReader(file)
        ]


def read_csv_if_exists(path: Path) -> list[dict[str, Any]]:
    """Return the records of a CSV file, or none if the file does not exist."""
    return read_csv(path) if path.is_file() else []


def read_json(path: Path) -> Any:
    """Return the content of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def group_records(records: Sequence[Record], *columns: str) -> dict[tuple[Any, ...], list[Record]]:
    """Return the records that agree in these columns, by their values, in order of appearance."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(tuple(record[column] for column in columns), []).append(record)
    return groups


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _rounded(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    if isinstance(value, float):  # NumPy's float64 is a float as well.
        return float(f"{value:.{DIGITS}g}")
    return value


def _parsed(text: str) -> Any:
    if text == "":
        return None
    try:
        return float(text)
    except ValueError:
        return text
