"""Write docs/data-cards.md and its pictures: FEDPLUS_DATA=... .venv/bin/python docs/cards.py.

A data set whose files are missing gets a card without figures and picture.
"""

import contextlib
from pathlib import Path

from fedplus.data import SETS, DataError, load
from fedplus.data.card import card_lines
from fedplus.data.picture import draw_federation
from fedplus.experiments.defaults import describe_tuned_settings

DOCS = Path(__file__).parent
HEAD = """# Cards of the federations

Made by `docs/cards.py` from the sets themselves, with seed 0 and default settings.
`fedplus data card NAME` prints one, `--picture FILE.png` draws one.
"""


def card(name: str) -> str:
    """Return the card of one data set in Markdown."""
    data_set = SETS[name]
    head = f"\n## {name}\n\n{data_set.summary[0].upper()}{data_set.summary[1:]}"
    head += "" if head.endswith("?") else "."
    if data_set.stand_in_for:
        head += f" **A stand-in for {data_set.stand_in_for}: its results are not the paper's.**"
    try:
        federation = load(name)
    except DataError:
        rows = [
            ("source", data_set.source),
            ("licence", data_set.licence),
            ("the paper", data_set.differences),
        ]
        rows.append(("settings", ", ".join(f"{k}={v}" for k, v in data_set.settings.items())))
        missing = (
            "\n\nIts files were not available when this page was made: no figures, no picture."
        )
        return head + missing + "\n\n" + table(rows)
    picture = f"![{name}: samples per party, classes per party, a few samples](pictures/{name}.png)"
    rows = card_lines(federation)
    if tuned := describe_tuned_settings(name):
        rows.append(("chosen settings", f"{tuned} (on validation samples)"))
    return f"{head}\n\n{picture}\n\n{table(rows)}"


def table(rows: list[tuple[str, str]]) -> str:
    """Return a Markdown table with two columns."""
    return "\n".join(["| | |", "| --- | --- |", *(f"| {a} | {b} |" for a, b in rows)]) + "\n"


def main() -> None:
    """Write the page, and draw the data sets whose files are present."""
    (DOCS / "pictures").mkdir(exist_ok=True)
    (DOCS / "data-cards.md").write_text(HEAD + "".join(map(card, SETS)), encoding="utf-8")
    for name in SETS:
        with contextlib.suppress(DataError):
            draw_federation(load(name), DOCS / "pictures" / f"{name}.png")


if __name__ == "__main__":
    main()
