"""Writes docs/data-cards.md and its pictures: FEDPLUS_DATA=... .venv/bin/python docs/cards.py.

A set whose files are not there keeps what can be said of it without them.
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
    """One set's part of the page."""
    one = SETS[name]
    head = f"\n## {name}\n\n{one.summary[0].upper()}{one.summary[1:]}."
    if one.stand_in_for:
        head += f" **A stand-in for {one.stand_in_for}: its results are not the paper's.**"
    try:
        federation = load(name)
    except DataError:
        told = [("source", one.source), ("licence", one.licence), ("the paper", one.differences)]
        told.append(("settings", ", ".join(f"{k}={v}" for k, v in one.settings.items())))
        missing = "\n\nIts files were not at hand when this page was made: no figures, no picture."
        return head + missing + "\n\n" + table(told)
    picture = f"![{name}: sizes a party, classes a party, a few samples](pictures/{name}.png)"
    told = card_lines(federation)
    if tuned := describe_tuned_settings(name):
        told.append(("chosen settings", f"{tuned} (on validation samples)"))
    return f"{head}\n\n{picture}\n\n{table(told)}"


def table(told: list[tuple[str, str]]) -> str:
    """Two columns in Markdown."""
    return "\n".join(["| | |", "| --- | --- |", *(f"| {a} | {b} |" for a, b in told)]) + "\n"


def main() -> None:
    """Write the page, and draw what can be drawn."""
    (DOCS / "pictures").mkdir(exist_ok=True)
    (DOCS / "data-cards.md").write_text(HEAD + "".join(map(card, SETS)), encoding="utf-8")
    for name in SETS:
        with contextlib.suppress(DataError):
            draw_federation(load(name), DOCS / "pictures" / f"{name}.png")


if __name__ == "__main__":
    main()
