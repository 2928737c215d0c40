"""What the page gets of a line of ``rounds.jsonl``: little, since a line grows with the parties."""

from collections.abc import Mapping
from typing import Any

from fedplus.board.row import finite_or_none
from fedplus.check import SettingError

LISTS = ("personal_score", "global_score", "personal_loss", "v_norm")
Numbers = list[float | None]


def curve_point(line: Any) -> Numbers:
    """The round; mean, worst and global score; mean loss."""
    if not isinstance(line, Mapping) or finite_or_none(line.get("round")) is None:
        raise SettingError("rounds.jsonl is damaged: a line without a round.")
    personal, shared = line.get("personal"), line.get("global")
    losses = [
        found
        for value in _list(line, "personal_loss")
        if (found := finite_or_none(value)) is not None
    ]
    return [
        line["round"],
        _inside(personal, "mean"),
        _inside(personal, "worst"),
        _inside(shared, "mean"),
        finite_or_none(sum(losses) / len(losses)) if losses else None,
    ]


def party_values(line: Mapping[str, Any]) -> dict[str, Numbers]:
    """Each party's numbers."""
    return {name: [finite_or_none(value) for value in _list(line, name)] for name in LISTS}


def party_point(line: Mapping[str, Any], index: int) -> Numbers:
    """One party: the round; personal and global score, loss, ‖v_k‖."""
    lists = (_list(line, name) for name in LISTS)
    return [line["round"], *(finite_or_none(a[index]) if index < len(a) else None for a in lists)]


def party_metadata(parties: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the page shows of ``parties.json``.

    Raises:
        SettingError: It has no list of names.
    """
    names = parties.get("names")
    if not isinstance(names, list):
        raise SettingError("parties.json is damaged: names must be a list.")
    numbers = {
        key: [finite_or_none(value) for value in found]
        for key in ("train", "test", "local", "majority")
        if isinstance(found := parties.get(key), list)
    }
    return {
        "names": [str(name) for name in names],
        "outliers": [str(name) for name in _list(parties, "outliers")],
        **numbers,
    }


def _list(line: Mapping[str, Any], name: str) -> list[Any]:
    found = line.get(name)
    return found if isinstance(found, list) else []


def _inside(scores: Any, name: str) -> float | None:
    return finite_or_none(scores.get(name)) if isinstance(scores, Mapping) else None
