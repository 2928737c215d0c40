"""Write the committed results into README.md and draw the figures.

Run: ``python -m papers.fed_plus.write_readme``.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from papers.fed_plus.plot import write_figures
from papers.fed_plus.registry import STUDIES
from papers.fed_plus.study import Study

from fedplus.check import require
from papers.fed_plus import schedule_table

PAPER = Path(__file__).parent
PAGE, RESULTS = PAPER / "README.md", PAPER / "results"
_BLOCK = re.compile(r"<!-- ([\w+-]+) -->(\n?)(.*?)<!-- end -->", re.DOTALL)


def fill_blocks(page: str, blocks: Mapping[str, str]) -> str:
    r"""Return the page with the text of each block between ``<!-- name -->`` and ``<!-- end -->``.

    A block stands on lines of its own or within a line. A block that the page has no place for is
    rejected.

    >>> fill_blocks("<!-- a -->\nold\n<!-- end -->", {"a": "new"})
    '<!-- a -->\nnew\n<!-- end -->'
    >>> fill_blocks("| <!-- a -->old<!-- end --> |", {"a": "new"})
    '| <!-- a -->new<!-- end --> |'
    """
    places = [match[1] for match in _BLOCK.finditer(page)]
    for name in blocks:
        require(name in places, "page", f"no place for {name}", f"one with <!-- {name} -->")

    def replacement(match: re.Match[str]) -> str:
        name, line_break = match[1], match[2]
        if name not in blocks:
            return match[0]
        return f"<!-- {name} -->{line_break}{blocks[name]}{line_break}<!-- end -->"

    return _BLOCK.sub(replacement, page)


def render_blocks(studies: Sequence[Study], results: Path) -> dict[str, str]:
    """Return the generated text of all studies, and how their specifications are trained."""
    blocks = {name: text for study in studies for name, text in study.blocks(results).items()}
    return blocks | dict(schedule_table.blocks())


def main() -> None:
    """Draw the figures and fill the blocks of README.md."""
    studies = list(STUDIES.values())
    for study in studies:
        write_figures(study, RESULTS)
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(fill_blocks(page, render_blocks(studies, RESULTS)), encoding="utf-8")


if __name__ == "__main__":
    main()
