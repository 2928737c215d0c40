"""Formats a comparison table for the terminal, CSV, Markdown and LaTeX."""

import csv
import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedplus.report.tables import LEVEL, Row, Table

if TYPE_CHECKING:
    from rich.table import Table as RichTable


def caption(table: Table) -> str:
    """Return the caption: the data, the score and the number of seeds."""
    unit = "accuracy in %" if table.score.factor == 100 else table.score.name
    seeds = max((len(row.seeds) for row in table.rows), default=0)
    over = f"; mean ± s.d. over {seeds} seeds" if seeds > 1 else ""
    return f"{table.data}: test {unit} of each party's own model after the last round{over}"


def footnote(table: Table) -> str:
    """Return the explanation of the p-values and of the new parties, or "" if the table has none."""
    if all(row.p is None for row in table.rows):
        return table.note
    p_values = (
        f"p: paired t-test over seeds against the {'highest' if table.score.sign > 0 else 'lowest'} "
        f"mean (*), Holm-corrected; below {LEVEL:g} the difference is significant."
    )
    return f"{p_values} {table.note}".strip()


def terminal_table(table: Table) -> "RichTable":
    """Return the table for Rich's console, without caption and footnote."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable
    from rich.text import Text

    rich = RichTable(box=SIMPLE_HEAD, padding=(0, 1), collapse_padding=True, pad_edge=False)
    for i, heading in enumerate(_headings(table)):
        rich.add_column(heading, justify="left" if i == 0 else "right", no_wrap=i > 0)
    for row in table.rows:
        style = "bold" if row.is_best else ("dim" if row.method is None else "")
        rich.add_row(*map(Text, _cells(table, row)), style=style)  # Text: labels are not markup.
    return rich


def markdown_results(table: Table) -> str:
    """Return the table in Markdown, with caption and footnote."""
    rows = [[cell.replace("|", r"\|") for cell in _cells(table, row)] for row in table.rows]
    lines = [f"{caption(table)}.", "", markdown_table(_headings(table), rows)]
    return "\n".join([*lines, *(["", footnote(table)] if footnote(table) else []), ""])


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; all columns but the first are aligned to the right.

    >>> print(markdown_table(["", "a"], [["x", "1"]]))
    |  | a |
    | --- | ---: |
    | x | 1 |
    """
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def latex_table(table: Table) -> str:
    """Return the table in LaTeX, for the package booktabs."""
    headings = _headings(table)
    text = " ".join([caption(table) + ".", footnote(table)]).strip()
    lines = [
        "% \\usepackage{booktabs}",
        "\\begin{table}", "  \\centering",
        f"  \\caption{{{_escape_latex(text)}}}",
        f"  \\begin{{tabular}}{{l{'r' * (len(headings) - 1)}}}", "    \\toprule",
        f"    {' & '.join(map(_escape_latex, headings))} \\\\", "    \\midrule",
    ]  # fmt: skip
    for previous, row in zip((None, *table.rows), table.rows, strict=False):
        if previous is not None and (previous.method is None) != (row.method is None):
            lines.append("    \\midrule")
        lines.append(f"    {' & '.join(map(_escape_latex, _cells(table, row)))} \\\\")
    return "\n".join([*lines, "    \\bottomrule", "  \\end{tabular}", "\\end{table}", ""])


def csv_table(table: Table) -> str:
    """Return the table as CSV with unrounded numbers, for other programs."""
    out = io.StringIO()
    records = as_records(table)
    writer = csv.DictWriter(out, list(records[0]) if records else ["method"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return out.getvalue()


def as_records(table: Table) -> list[dict[str, Any]]:
    """Return one flat record per row, with means and standard deviations; None if unknown."""
    return [
        {
            "label": row.label, "method": row.method, "seeds": len(row.seeds),
            **{
                f"{heading.replace(' ', '_')}{suffix}": _finite_or_none(value)
                for heading in table.headings
                for suffix, value in _mean_and_std(row, heading).items()
            },
            "p": row.p, "leads": row.leads, "best": row.is_best, "note": row.note,
        }
        for row in table.rows
    ]  # fmt: skip


def _mean_and_std(row: Row, heading: str) -> dict[str, float]:
    values = row.columns.get(heading, np.zeros(0))
    return {
        "": values.mean() if values.size else np.nan,
        "_std": values.std(ddof=1) if values.size > 1 else np.nan,
    }


def _finite_or_none(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _headings(table: Table) -> list[str]:
    has_p = any(row.p is not None for row in table.rows)
    has_notes = any(row.note for row in table.rows)
    return ["method", *table.headings, *["p"] * has_p, *["note"] * has_notes]


def _cells(table: Table, row: Row) -> list[str]:
    cells = [marked_label(row)]
    cells += [
        table.score.mean_and_std(row.columns.get(heading, ())).removesuffix(" %")
        for heading in table.headings
    ]
    headings = _headings(table)
    if "p" in headings:
        cells.append(p_value(row))
    return [*cells, row.note] if "note" in headings else cells


def marked_label(row: Row) -> str:
    """Return the label, with a star for the leading row, with which p-values compare."""
    return f"{row.label}*" if row.leads else row.label


def p_value(row: Row) -> str:
    """Return the p-value of a row with three digits, or "" if it was not tested."""
    return "" if row.p is None else p_text(row.p).removeprefix("p ").removeprefix("= ")


def p_text(p: float, *, is_largest: bool = False, is_smallest: bool = False) -> str:
    """Format a p-value: a single one, or the largest or smallest of several.

    >>> p_text(0.0123), p_text(0.0123, is_largest=True), p_text(0.2, is_smallest=True), p_text(1e-5)
    ('p = 0.012', 'p ≤ 0.012', 'p ≥ 0.200', 'p < 0.001')
    """
    if p < 0.001:
        return "p < 0.001"
    return f"p {'≤' if is_largest else '≥' if is_smallest else '='} {p:.3f}"


_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "±": r"$\pm$", "–": "--", "<": r"$<$", ">": r"$>$", "δ": r"$\delta$", "σ": r"$\sigma$",
    "λ": r"$\lambda$", "η": r"$\eta$", "ψ": r"$\psi$",
}  # fmt: skip


def _escape_latex(text: str) -> str:
    return re.sub("|".join(map(re.escape, _SPECIAL)), lambda match: _SPECIAL[match[0]], text)
