"""Formats scores, numbers and names for the report."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

DIGITS = 4
"""Significant digits of every number on the page."""
UNKNOWN = "–"
LOG_AXIS_RATIO = 30.0
"""Errors get a logarithmic axis if the largest is more than so many times the smallest."""


class Score(NamedTuple):
    """The score of a task: its name, its direction ("higher" or "lower"), and its formatting."""

    name: str
    better: str

    @property
    def factor(self) -> float:
        """Return the factor of displayed values: 100 for accuracy, which is shown in %."""
        return 100.0 if self.name == "accuracy" else 1.0

    @property
    def axis(self) -> str:
        """Return the title of a chart axis."""
        return f"{self.name}, %" if self.factor == 100 else self.name

    @property
    def sign(self) -> float:
        """Return +1 if higher is better, otherwise -1."""
        return -1.0 if self.better == "lower" else 1.0

    def needs_log_axis(self, *values: Any) -> bool:
        """Return whether these are errors of very different sizes, to be shown on a log axis."""
        known = np.concatenate([np.ravel(np.asarray(each, float)) for each in values])
        known = known[np.isfinite(known)]
        if self.better != "lower" or not known.size or known.min() <= 0:
            return False
        return bool(known.max() > LOG_AXIS_RATIO * known.min())

    def text(self, value: float) -> str:
        """Format a score, e.g. "93.1 %"."""
        if not math.isfinite(value):
            return UNKNOWN
        return f"{100 * value:.1f} %" if self.factor == 100 else significant_digits(value)

    def difference(self, value: float) -> str:
        """Format a difference of two scores, e.g. "+1.2 points"."""
        if self.factor == 100:
            return f"{100 * value:+.1f} points".replace("-", "−")
        return f"{'+' if value >= 0 else '−'}{significant_digits(abs(value))} {self.name}"

    def mean_and_std(self, values: Any) -> str:
        """Format scores over seeds as mean ± standard deviation; a single score as it is."""
        known = np.asarray(values, float)
        if not known.size or not np.isfinite(known).all():
            return UNKNOWN
        if known.size == 1:
            return self.text(float(known[0]))
        if self.factor == 100:
            return f"{100 * known.mean():.1f} ± {100 * known.std(ddof=1):.1f} %"
        return f"{significant_digits(float(known.mean()))} ± {known.std(ddof=1):.2g}"


def significant_digits(value: float) -> str:
    """Format a number with ``DIGITS`` significant digits."""
    return f"{value:.{DIGITS}g}" if math.isfinite(value) else UNKNOWN


def round_for_json(values: Any) -> Any:
    """Round numbers to ``DIGITS`` significant digits for JSON; NaN and Inf become None.

    >>> round_for_json(np.array([0.123456, np.nan, 40.0]))
    [0.1235, None, 40]
    """
    if isinstance(values, (list, tuple, np.ndarray)):
        return [round_for_json(value) for value in values]
    value = float(values)
    if not math.isfinite(value):
        return None
    rounded = float(f"{value:.{DIGITS}g}")
    return int(rounded) if rounded.is_integer() else rounded


def join_names(names: Iterable[str], most: int = 5) -> str:
    """Join names for a sentence; beyond ``most`` names, the rest are only counted.

    >>> join_names(["a", "b", "c"])
    'a, b and c'
    """
    names = list(names)
    if len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} more"]
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]])) if names else ""


def count_of(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun in singular or plural.

    >>> count_of(1, "party", "parties")
    '1 party'
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def capitalised(text: str) -> str:
    """Return the text with its first letter in upper case."""
    return text[:1].upper() + text[1:]
