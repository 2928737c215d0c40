"""A federation on one card: what is in it, where it comes from, how it differs from the paper."""

import textwrap
from typing import Any

import numpy as np

from fedplus._types import Host
from fedplus.data.federation import Federation

MOST_CLASSES = 10_000
"""Whole numbers beyond are no classes."""


def statistics(federation: Federation) -> dict[str, Any]:
    """What can be counted, for programs."""
    sizes = sum(split.size for split in _splits(federation).values())
    held = class_counts(federation)
    info = federation.info
    counted: dict[str, Any] = {
        "name": federation.name,
        "stand_in_for": info.stand_in_for or None,
        "parties": federation.parties,
        "samples": {name: len(split.y) for name, split in _splits(federation).items()},
        "samples_a_party": _spread(np.asarray(sizes)),
        "input_shape": list(federation.train.x.shape[1:]),
        "classes": list(info.classes) or None,
    }
    if held is not None:
        counted["classes_a_party"] = _spread((held > 0).sum(1))
        counted["largest_class_share"] = float((held.max(1) / held.sum(1)).mean())
    counted["outliers"] = list(info.outliers)
    told = {
        "summary": info.summary, "source": info.source, "licence": info.licence,
        "differences": info.differences,
    }  # fmt: skip
    return counted | {name: card_text for name, card_text in told.items() if card_text}


def class_counts(federation: Federation) -> Host | None:
    """(N, C): how many samples of each class each party has; None where labels are no classes."""
    if federation.train.y.dtype.kind not in "iu" or federation.train.y.ndim != 1:
        return None
    labels = np.concatenate([split.y for split in _splits(federation).values()])
    if labels.min() < 0 or labels.max() >= MOST_CLASSES:
        return None
    owners = np.concatenate([split.owner() for split in _splits(federation).values()])
    classes = max(len(federation.info.classes), int(labels.max()) + 1)
    cells = np.bincount(owners * classes + labels, minlength=federation.parties * classes)
    return cells.reshape(federation.parties, classes)


def card_lines(federation: Federation) -> list[tuple[str, str]]:
    """What it says, line by line, for people."""
    card, info = statistics(federation), federation.info
    made = [("parties", f"{card['parties']:,}")]
    parts = ", ".join(f"{n:,} {part}" for part, n in card["samples"].items())
    made.append(("samples", f"{sum(card['samples'].values()):,}: {parts}"))
    made.append(("samples a party", _told(card["samples_a_party"])))
    made.append(("an input", " × ".join(map(str, card["input_shape"]))))
    if "classes_a_party" in card:
        names = ", ".join(info.classes[:20]) + (", ..." if len(info.classes) > 20 else "")
        made.append(("classes", f"{len(info.classes)}: {names}" if names else "not named"))
        share = f"the largest makes up {card['largest_class_share']:.1%} on average"
        made.append(("classes a party", f"{_told(card['classes_a_party'])}; {share}"))
    else:
        shape = federation.train.y.shape[1:]
        what = "a number" if not shape else f"{' × '.join(map(str, shape))} numbers"
        made.append(("to predict", what))
    shown = ", ".join(info.outliers[:12]) + (", ..." if len(info.outliers) > 12 else "")
    made.append(("outliers", f"{len(info.outliers)}: {shown}" if shown else "none made"))
    if info.stand_in_for:
        made.append(("STAND-IN FOR", info.stand_in_for))
    made += [("source", info.source), ("licence", info.licence), ("the paper", info.differences)]
    made.append(("settings", info.settings))
    return [(label, card_text) for label, card_text in made if card_text]


def card_text(federation: Federation, width: int = 100) -> str:
    """The card as plain text, in lines of at most ``width`` characters."""
    head = f"{federation.name}: {federation.info.summary}".rstrip(": ")
    body = [
        textwrap.fill(
            said, width, initial_indent=f"  {label + ':':<17}", subsequent_indent=" " * 19
        )
        for label, said in card_lines(federation)
    ]
    return "\n".join([textwrap.fill(head, width), *body])


def _splits(federation: Federation) -> dict[str, Any]:
    named = {name: getattr(federation, name) for name in ("train", "validation", "test")}
    return {name: split for name, split in named.items() if split is not None}


def _spread(numbers: Host) -> dict[str, float]:
    made = {
        "least": numbers.min(), "median": np.median(numbers), "mean": numbers.mean(),
        "most": numbers.max(), "deviation": numbers.std(),
    }  # fmt: skip
    return {name: float(value) for name, value in made.items()}


def _told(spread: dict[str, float]) -> str:
    least, most = spread["least"], spread["most"]
    if least == most:
        return f"{least:,.0f}"
    return (
        f"{least:,.0f} to {most:,.0f}, median {spread['median']:,.0f}, mean {spread['mean']:,.1f} "
        f"(s.d. {spread['deviation']:,.1f})"
    )
