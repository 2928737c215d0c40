"""The card of a federation: its sizes, classes, source, and differences from the paper's."""

import textwrap
from typing import Any

import numpy as np

from fedplus._types import NumpyArray
from fedplus.data.federation import Federation

MAX_CLASSES = 10_000
"""Whole-number labels are classes only if all of them are smaller than this number."""


def statistics(federation: Federation) -> dict[str, Any]:
    """Return the card as a dictionary that can be written as JSON."""
    sizes = sum(split.size for split in _splits(federation).values())
    counts = class_counts(federation)
    info = federation.info
    card: dict[str, Any] = {
        "name": federation.name,
        "stand_in_for": info.stand_in_for or None,
        "parties": federation.parties,
        "samples": {name: len(split.y) for name, split in _splits(federation).items()},
        "samples_a_party": _summary(np.asarray(sizes)),
        "input_shape": list(federation.train.x.shape[1:]),
        "classes": list(info.classes) or None,
    }
    if counts is not None:
        card["classes_a_party"] = _summary((counts > 0).sum(1))
        card["largest_class_share"] = float((counts.max(1) / counts.sum(1)).mean())
    card["outliers"] = list(info.outliers)
    texts = {
        "summary": info.summary, "source": info.source, "licence": info.licence,
        "differences": info.differences,
    }  # fmt: skip
    return card | {name: text for name, text in texts.items() if text}


def class_counts(federation: Federation) -> NumpyArray | None:
    """Return how many samples of each class each party has, (N, C); None if labels are not classes."""
    if federation.train.y.dtype.kind not in "iu" or federation.train.y.ndim != 1:
        return None
    labels = np.concatenate([split.y for split in _splits(federation).values()])
    if labels.min() < 0 or labels.max() >= MAX_CLASSES:
        return None
    parties = np.concatenate([split.party_of_sample() for split in _splits(federation).values()])
    classes = max(len(federation.info.classes), int(labels.max()) + 1)
    counts = np.bincount(parties * classes + labels, minlength=federation.parties * classes)
    return counts.reshape(federation.parties, classes)


def card_lines(federation: Federation) -> list[tuple[str, str]]:
    """Return the lines of the card as pairs (label, text)."""
    card, info = statistics(federation), federation.info
    lines = [("parties", f"{card['parties']:,}")]
    parts = ", ".join(f"{n:,} {part}" for part, n in card["samples"].items())
    lines.append(("samples", f"{sum(card['samples'].values()):,}: {parts}"))
    lines.append(("samples per party", _describe(card["samples_a_party"])))
    lines.append(("input shape", " × ".join(map(str, card["input_shape"]))))
    if "classes_a_party" in card:
        names = ", ".join(info.classes[:20]) + (", ..." if len(info.classes) > 20 else "")
        lines.append(("classes", f"{len(info.classes)}: {names}" if names else "not named"))
        share = f"the largest makes up {card['largest_class_share']:.1%} on average"
        lines.append(("classes per party", f"{_describe(card['classes_a_party'])}; {share}"))
    else:
        shape = federation.train.y.shape[1:]
        label = "a number" if not shape else f"{' × '.join(map(str, shape))} numbers"
        lines.append(("to predict", label))
    shown = ", ".join(info.outliers[:12]) + (", ..." if len(info.outliers) > 12 else "")
    noun = "party" if len(info.outliers) == 1 else "parties"
    lines.append(("outliers", f"{len(info.outliers)} ({noun} {shown})" if shown else "none"))
    if info.stand_in_for:
        lines.append(("STAND-IN FOR", info.stand_in_for))
    lines += [("source", info.source), ("licence", info.licence), ("the paper", info.differences)]
    lines.append(("settings", info.settings))
    return [(label, text) for label, text in lines if text]


def card_text(federation: Federation, width: int = 100) -> str:
    """Return the card as plain text, in lines of at most ``width`` characters."""
    title = f"{federation.name}: {federation.info.summary}".rstrip(": ")
    body = [
        textwrap.fill(
            text, width, initial_indent=f"  {label + ':':<19}", subsequent_indent=" " * 21
        )
        for label, text in card_lines(federation)
    ]
    return "\n".join([textwrap.fill(title, width), *body])


def _splits(federation: Federation) -> dict[str, Any]:
    splits = {name: getattr(federation, name) for name in ("train", "validation", "test")}
    return {name: split for name, split in splits.items() if split is not None}


def _summary(numbers: NumpyArray) -> dict[str, float]:
    summary = {
        "least": numbers.min(), "median": np.median(numbers), "mean": numbers.mean(),
        "most": numbers.max(), "deviation": numbers.std(),
    }  # fmt: skip
    return {name: float(value) for name, value in summary.items()}


def _describe(summary: dict[str, float]) -> str:
    least, most = summary["least"], summary["most"]
    if least == most:
        return f"{least:,.0f}"
    return (
        f"{least:,.0f} to {most:,.0f}, median {summary['median']:,.0f}, mean {summary['mean']:,.1f} "
        f"(s.d. {summary['deviation']:,.1f})"
    )
