"""A table as text for the terminal, CSV, Markdown and LaTeX."""

import csv
import io
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from fedplus.report.tables import LEVEL, Row, Table

if TYPE_CHECKING:
    from rich.table import Table as RichTable


def caption(table: Table) -> str:
    """How to read it."""
    unit = "accuracy in %" if table.score_name == "accuracy" else table.score_name
    seeds = max((len(row.seeds) for row in table.rows), default=0)
    over = f"; mean ± s.d. over {seeds} seeds" if seeds > 1 else ""
    return f"{table.data}: test {unit} of each party's own model after the last round{over}"


def footnote(table: Table) -> str:
    """What the marks mean; nothing where there are none."""
    if all(row.p is None for row in table.rows):
        return ""
    return (
        f"* the best by mean; p: paired t-test over seeds against it, Holm-corrected; "
        f"below {LEVEL:g} the difference is significant."
    )


def terminal(table: Table) -> "RichTable":
    """For Rich's console."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable

    made = RichTable(
        title=caption(table), title_justify="left", caption=footnote(table) or None,
        caption_justify="left", box=SIMPLE_HEAD, padding=(0, 1),
    )  # fmt: skip
    for i, heading in enumerate(_headings(table)):
        made.add_column(heading, justify="left" if i == 0 else "right", no_wrap=True)
    for row in table.rows:
        style = "bold" if row.is_best else ("dim" if row.method is None else "")
        made.add_row(*_cells(table, row), style=style)
    return made


def markdown(table: Table) -> str:
    """A table as GitHub and others show it."""
    headings = _headings(table)
    lines = [
        f"{caption(table)}.", "",
        _line(headings), _line(["---", *["---:"] * (len(headings) - 1)]),
    ]  # fmt: skip
    lines += [
        _line([cell.replace("|", r"\|") for cell in _cells(table, row)]) for row in table.rows
    ]
    return "\n".join([*lines, *(["", footnote(table)] if footnote(table) else []), ""])


def latex(table: Table) -> str:
    """A table for LaTeX with booktabs."""
    headings = _headings(table)
    lines = [
        "% \\usepackage{booktabs}",
        "\\begin{table}", "  \\centering",
        f"  \\caption{{{_tex(' '.join([caption(table) + '.', footnote(table)]).strip())}}}",
        f"  \\begin{{tabular}}{{l{'r' * (len(headings) - 1)}}}", "    \\toprule",
        f"    {' & '.join(map(_tex, headings))} \\\\", "    \\midrule",
    ]  # fmt: skip
    references = [row for row in table.rows if row.method is None]
    methods = [row for row in table.rows if row.method is not None]
    for group in (references, methods):
        lines += [f"    {' & '.join(map(_tex, _cells(table, row)))} \\\\" for row in group]
        if group is references and references and methods:
            lines.append("    \\midrule")
    return "\n".join([*lines, "    \\bottomrule", "  \\end{tabular}", "\\end{table}", ""])


def comma_separated(table: Table) -> str:
    """The numbers in full, for other programs."""
    out = io.StringIO()
    records = as_records(table)
    writer = csv.DictWriter(out, list(records[0]) if records else ["method"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return out.getvalue()


def as_records(table: Table) -> list[dict[str, Any]]:
    """One flat record a row: means and standard deviations as numbers, None where there is none."""
    return [
        {
            "label": row.label, "method": row.method, "seeds": len(row.seeds),
            **{
                f"{heading.replace(' ', '_')}{suffix}": _finite(value)
                for heading in table.headings
                for suffix, value in _figures(row, heading).items()
            },
            "p": row.p, "best": row.is_best, "note": row.note,
        }
        for row in table.rows
    ]  # fmt: skip


def _figures(row: Row, heading: str) -> dict[str, float]:
    column = row.columns.get(heading)
    if column is None:
        return {"": np.nan, "_std": np.nan}
    return {"": column.mean, "_std": column.std}


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _headings(table: Table) -> list[str]:
    with_p = any(row.p is not None for row in table.rows)
    noted = any(row.note for row in table.rows)
    return ["method", *table.headings, *["p"] * with_p, *["note"] * noted]


def _cells(table: Table, row: Row) -> list[str]:
    cells = [row.label + ("*" if row.is_best else "")]
    cells += [table.shown(row.columns.get(heading)) for heading in table.headings]
    headings = _headings(table)
    if "p" in headings:
        cells.append("" if row.p is None else ("< 0.001" if row.p < 0.001 else f"{row.p:.3f}"))
    return [*cells, row.note] if "note" in headings else cells


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "±": r"$\pm$", "–": "--", "<": r"$<$", ">": r"$>$", "δ": r"$\delta$", "σ": r"$\sigma$",
    "λ": r"$\lambda$", "η": r"$\eta$", "ψ": r"$\psi$",
}  # fmt: skip


def _tex(text: str) -> str:
    return re.sub("|".join(map(re.escape, _SPECIAL)), lambda found: _SPECIAL[found[0]], text)
