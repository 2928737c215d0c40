"""``papers/fed_plus/README.md``: its tables come from the committed results, by code."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from papers.fed_plus.study import Study

from fedplus.check import require
from papers.fed_plus import schedule_text

_BLOCK = re.compile(r"<!-- ([\w-]+) -->(\n?)(.*?)<!-- end -->", re.DOTALL)


def filled(page: str, blocks: Mapping[str, str]) -> str:
    r"""The page with each block's text in its place: on lines of its own, or within a line.

    >>> filled("<!-- a -->\nold\n<!-- end -->", {"a": "new"})
    '<!-- a -->\nnew\n<!-- end -->'
    >>> filled("| <!-- a -->old<!-- end --> |", {"a": "new"})
    '| <!-- a -->new<!-- end --> |'
    """
    places = [found[1] for found in _BLOCK.finditer(page)]
    for name in blocks:
        require(name in places, "page", f"no place for {name}", f"one with <!-- {name} -->")

    def put(found: re.Match[str]) -> str:
        name, line = found[1], found[2]
        if name not in blocks:
            return found[0]
        return f"<!-- {name} -->{line}{blocks[name]}{line}<!-- end -->"

    return _BLOCK.sub(put, page)


def blocks_of(studies: Sequence[Study], results: Path) -> dict[str, str]:
    """Return the generated text of all studies, and how their specifications are trained."""
    found = {name: text for study in studies for name, text in study.blocks(results).items()}
    return found | dict(schedule_text.blocks())
