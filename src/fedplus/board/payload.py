"""Selects the values of ``rounds.jsonl`` and ``parties.json`` that are sent to the page."""

from collections.abc import Mapping
from typing import Any

from fedplus.board.row import finite_or_none
from fedplus.check import SettingError

LISTS = ("personal_score", "global_score", "personal_loss", "v_norm")
Numbers = list[float | None]


def curve_point(line: Any) -> Numbers:
    """Return the round, the mean, worst and global score, and the mean loss.

    Raises:
        SettingError: The line has no round.
    """
    if not isinstance(line, Mapping) or finite_or_none(line.get("round")) is None:
        raise SettingError("rounds.jsonl is damaged: a line has no round.")
    personal, global_ = line.get("personal"), line.get("global")
    losses = [
        loss
        for value in _list(line, "personal_loss")
        if (loss := finite_or_none(value)) is not None
    ]
    return [
        line["round"],
        _entry(personal, "mean"),
        _entry(personal, "worst"),
        _entry(global_, "mean"),
        finite_or_none(sum(losses) / len(losses)) if losses else None,
    ]


def party_values(line: Mapping[str, Any]) -> dict[str, Numbers]:
    """Return the scores, losses and norms of all parties, by name of the quantity."""
    return {name: [finite_or_none(value) for value in _list(line, name)] for name in LISTS}


def party_point(line: Mapping[str, Any], index: int) -> Numbers:
    """Return the round, and the personal and global score, the loss and ‖v_k‖ of one party."""
    lists = (_list(line, name) for name in LISTS)
    return [line["round"], *(finite_or_none(a[index]) if index < len(a) else None for a in lists)]


def party_metadata(parties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the names, outliers, samples and reference scores in ``parties.json``.

    Raises:
        SettingError: The file has no list of names.
    """
    names = parties.get("names")
    if not isinstance(names, list):
        raise SettingError("parties.json is damaged: names must be a list.")
    numbers = {
        key: [finite_or_none(value) for value in values]
        for key in ("train", "test", "local", "majority")
        if isinstance(values := parties.get(key), list)
    }
    return {
        "names": [str(name) for name in names],
        "outliers": [str(name) for name in _list(parties, "outliers")],
        **numbers,
    }


def _list(line: Mapping[str, Any], name: str) -> list[Any]:
    values = line.get(name)
    return values if isinstance(values, list) else []


def _entry(scores: Any, name: str) -> float | None:
    return finite_or_none(scores.get(name)) if isinstance(scores, Mapping) else None
