"""Numbers and settings as the tables in README.md print them."""

import math
from collections.abc import Mapping
from typing import Any

from fedplus.experiments.defaults import LABELS
from fedplus.report.table_formats import markdown_table


def settings_table(chosen: Mapping[str, Any], prefix: str) -> str:
    """Return a table of chosen settings: one row per method, one column per data set.

    † marks settings at the edge of the grid.

    Args:
        chosen: Data set ↦ method ↦ its chosen settings.
        prefix: Prefix of the data sets' names that the headings leave out.
    """
    methods = dict.fromkeys(method for of_data in chosen.values() for method in of_data)
    rows = [
        [
            LABELS.get(method, method),
            *(_format_settings(of_data.get(method)) for of_data in chosen.values()),
        ]
        for method in methods
    ]
    return markdown_table(["", *(name.removeprefix(prefix) for name in chosen)], rows)


def _format_settings(result: Mapping[str, Any] | None) -> str:
    if result is None:
        return "–"
    return ", ".join(
        f"{name} = {format_value(value)}{'†' if name in result['at_edge'] else ''}"
        for name, value in result["settings"].items()
    )


def format_value(value: Any) -> str:
    """Return a number, or the ψ of each part of a model, as text.

    >>> format_value({"head*": {"psi": "l1", "delta": 0.01}, "*": {"psi": "zero"}})
    'head*: l1 0.01; the rest: zero'
    """
    if not isinstance(value, Mapping):
        return f"{value:g}"
    return "; ".join(
        f"{'the rest' if pattern == '*' else pattern}: {format_psi(part)}"
        for pattern, part in value.items()
    )


def format_psi(part: Mapping[str, Any]) -> str:
    """Return the name of a ψ and its δ, if it has one."""
    return f"{part['psi']} {part['delta']:g}" if "delta" in part else str(part["psi"])


def format_difference(value: float, unit: str = "", limit: float = math.inf) -> str:
    """Return a difference with its sign and one decimal, or a bound if it exceeds ``limit``.

    >>> format_difference(1.25), format_difference(-0.5, "%"), format_difference(-2e6, "%", limit=1e3)
    ('+1.2', '−0.5%', '< −1000%')
    """
    if abs(value) >= limit:  # The steps of a party diverged.
        bound = f"{'<' if value < 0 else '>'} {math.copysign(limit, value):g}{unit}"
        return bound.replace("-", "−")
    return f"{value:+.1f}{unit}".replace("-", "−")
