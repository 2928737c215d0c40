"""Settings that were chosen on validation samples, in Markdown."""

from collections.abc import Mapping
from typing import Any

from fedplus.experiments.defaults import LABELS
from fedplus.report.table_formats import markdown_table


def chosen_table(told: Mapping[str, Any], prefix: str) -> str:
    """A row a method, a column a data set; † marks settings at the edge of what was tried."""
    sets = list(told)
    methods = dict.fromkeys(method for of in told.values() for method in of)
    rows = [
        [LABELS.get(method, method), *(_told(told[name].get(method)) for name in sets)]
        for method in methods
    ]
    return markdown_table(["", *(name.removeprefix(prefix) for name in sets)], rows)


def _told(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return "–"
    return ", ".join(
        f"{name} = {value_of(value)}{'†' if name in found['at_edge'] else ''}"
        for name, value in found["settings"].items()
    )


def value_of(value: Any) -> str:
    """A number, or the ψ of each part.

    >>> value_of({"head*": {"psi": "l1", "delta": 0.01}, "*": {"psi": "zero"}})
    'head*: l1 0.01; the rest: zero'
    """
    if not isinstance(value, Mapping):
        return f"{value:g}"
    return "; ".join(
        f"{'the rest' if pattern == '*' else pattern}: {psi_of(part)}"
        for pattern, part in value.items()
    )


def psi_of(part: Mapping[str, Any]) -> str:
    """Its name and δ."""
    return f"{part['psi']} {part['delta']:g}" if "delta" in part else str(part["psi"])
