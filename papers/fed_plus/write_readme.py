"""Write the committed results into README.md and draw the figures.

Run: ``python -m papers.fed_plus.write_readme``.
"""

from pathlib import Path

from papers.fed_plus.page import blocks_of, filled
from papers.fed_plus.plot import drawn
from papers.fed_plus.studies import STUDIES

PAPER = Path(__file__).parent
PAGE, RESULTS = PAPER / "README.md", PAPER / "results"

if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    blocks = blocks_of(list(STUDIES.values()), RESULTS)
    for study in STUDIES.values():
        drawn(study, RESULTS)
    PAGE.write_text(filled(page, blocks), encoding="utf-8")
