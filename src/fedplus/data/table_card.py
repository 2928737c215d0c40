"""The card of a user's own tables: sizes, columns, and how much the parties differ."""

from typing import Any

import numpy as np

from fedplus._types import NumpyArray
from fedplus.data.card import card_text, class_counts, statistics
from fedplus.data.column_summary import label_difference
from fedplus.data.federation import Federation
from fedplus.data.notes import data_notes


def table_statistics(federation: Federation) -> dict[str, Any]:
    """Return the card as a dictionary that can be written as JSON."""
    preprocessing = federation.info.preprocessing
    difference, party = _label_difference(federation)
    return statistics(federation) | {
        "inputs": "" if preprocessing is None else preprocessing.summary,
        "samples_of_parties": {name: len(y) for name, y in _labels(federation).items()},
        "columns": [column._asdict() for column in federation.info.columns],
        "labels": {"difference": difference, "party": party},
        "notes": data_notes(federation),
    }


def table_card_text(federation: Federation, width: int = 100) -> str:
    """Return the card as plain text, in lines of at most ``width`` characters where possible."""
    lines = [card_text(federation, width)]
    card = table_statistics(federation)
    if card["inputs"]:
        lines.append(f"\nData: {card['inputs']}.")
    lines.append("\n" + "\n".join(_column_lines(federation)))
    lines += [f"\nNote: {note}" for note in card["notes"]]
    return "\n".join(lines)


def _column_lines(federation: Federation) -> list[str]:
    """Return a table with one row per column and one for the target."""
    is_class = class_counts(federation) is not None
    target = getattr(federation.info.preprocessing, "target", "") or "target"
    kind = f"{len(federation.info.classes)} classes" if is_class else "numbers"
    rows = [
        (f"{target} (target)", kind, 0, *_label_difference(federation)),
        *federation.info.columns,
    ]
    cells = [("column", "holds", "missing", "most unusual party")]
    for name, holds, missing, difference, party in rows:
        unit = f"{difference:.0%} of samples" if holds != "numbers" else f"{difference:.2f} s.d."
        cells.append((name, holds, f"{missing:,}", f"{party} ({unit})"))
    widths = [max(len(row[i]) for row in cells) for i in range(3)]
    return [
        f"  {name:<{widths[0]}}  {holds:<{widths[1]}}  {missing:>{widths[2]}}  {unusual}"
        for name, holds, missing, unusual in cells
    ]


def _label_difference(federation: Federation) -> tuple[float, str]:
    return label_difference(_labels(federation), class_counts(federation) is not None)


def _labels(federation: Federation) -> dict[str, NumpyArray]:
    """Return all labels of each party, by its name."""
    splits = [
        s for s in (federation.train, federation.test, federation.validation) if s is not None
    ]
    return {
        name: np.concatenate([split.party(k)[1] for split in splits])
        for k, name in enumerate(federation.names)
    }
