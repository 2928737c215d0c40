"""Puts the committed results into docs/paper.md and draws the figures: python docs/paper_page.py."""

from pathlib import Path

from fedplus.paper.page import blocks_of, filled
from fedplus.paper.plot import drawn
from fedplus.paper.studies import STUDIES

DOCS = Path(__file__).parent
PAGE, RESULTS = DOCS / "paper.md", DOCS / "paper"

if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    blocks = blocks_of(list(STUDIES.values()), RESULTS)
    for study in STUDIES.values():
        drawn(study, RESULTS)
    PAGE.write_text(filled(page, blocks), encoding="utf-8")
