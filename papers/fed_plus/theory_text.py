"""The theory's table in Markdown, from the committed CSV."""

from collections.abc import Mapping
from pathlib import Path

from papers.fed_plus.results import read_csv

from fedplus.report.table_formats import markdown_table


def blocks(results: Path) -> Mapping[str, str]:
    """One table."""
    if not (results / "theory.csv").exists():
        return {}
    rows = read_csv(results / "theory.csv")
    rounds = int(rows[0]["rounds"])
    headings = [
        "variant", f"rises of F_σ in {rounds:,} rounds", "rises, 3 of 10 active",
        "rises, 3 of 10 active and aggregated (D1)", "F_σ: first", "last − min",
        "t(F_σ − min): largest", "at t", "at the end", "Σ‖∇F_k‖²: first", "last",
        "Theorem 2: ‖mean ∇f̂_k‖", "largest ‖∇F_k‖", "recorded in float32, off by",
    ]  # fmt: skip
    cells = [
        [
            row["label"], f"{row['rises']:.0f}", f"{row['rises_some']:.0f}",
            f"{row['rises_active']:.0f}", f"{row['first']:.4g}", f"{row['last_gap']:.1e}",
            f"{row['t_gap']:.3g}", f"{row['t_gap_at']:.0f}", f"{row['t_gap_last']:.2g}",
            f"{row['gradient_first']:.3g}", f"{row['gradient_last']:.1e}",
            f"{row['consensus']:.0e}", f"{row['local']:.0e}", f"{row['recorded']:.0e}",
        ]
        for row in rows
    ]  # fmt: skip
    return {"theory": markdown_table(headings, cells)}
