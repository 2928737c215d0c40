"""Numbers and names as a reader wants them."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

DIGITS = 4
"""Significant digits of every number on the page."""
UNKNOWN = "–"
FAR = 30.0
"""Errors that are this many times apart get a logarithmic axis."""


class Score(NamedTuple):
    """What the score is called, which direction is better, and how it is written."""

    name: str
    better: str

    @property
    def factor(self) -> float:
        """Shares are shown in %."""
        return 100.0 if self.name == "accuracy" else 1.0

    @property
    def axis(self) -> str:
        """The title of an axis."""
        return f"{self.name}, %" if self.factor == 100 else self.name

    @property
    def sign(self) -> float:
        """+1 where higher is better."""
        return -1.0 if self.better == "lower" else 1.0

    def log(self, *values: Any) -> bool:
        """Whether these want a logarithmic axis: errors that are far apart."""
        known = np.concatenate([np.ravel(np.asarray(each, float)) for each in values])
        known = known[np.isfinite(known)]
        if self.better != "lower" or not known.size or known.min() <= 0:
            return False
        return bool(known.max() > FAR * known.min())

    def text(self, value: float) -> str:
        """A score in words."""
        if not math.isfinite(value):
            return UNKNOWN
        return f"{100 * value:.1f} %" if self.factor == 100 else significant_digits(value)

    def difference(self, value: float) -> str:
        """A difference of scores, with its sign."""
        if self.factor == 100:
            return f"{100 * value:+.1f} points".replace("-", "−")
        return f"{'+' if value >= 0 else '−'}{significant_digits(abs(value))} {self.name}"

    def spread(self, values: Any) -> str:
        """Mean ± s.d. over seeds; the mean alone of one."""
        known = np.asarray(values, float)
        if not known.size or not np.isfinite(known).all():
            return UNKNOWN
        if known.size == 1:
            return self.text(float(known[0]))
        if self.factor == 100:
            return f"{100 * known.mean():.1f} ± {100 * known.std(ddof=1):.1f} %"
        return f"{significant_digits(float(known.mean()))} ± {known.std(ddof=1):.2g}"


def significant_digits(value: float) -> str:
    """A number with a few significant digits."""
    return f"{value:.{DIGITS}g}" if math.isfinite(value) else UNKNOWN


def round_for_json(values: Any) -> Any:
    """Numbers with a few significant digits, None for NaN and Inf, as JSON wants them.

    >>> rounded(np.array([0.123456, np.nan, 40.0]))
    [0.1235, None, 40]
    """
    if isinstance(values, (list, tuple, np.ndarray)):
        return [round_for_json(value) for value in values]
    value = float(values)
    if not math.isfinite(value):
        return None
    few = float(f"{value:.{DIGITS}g}")
    return int(few) if few.is_integer() else few


def join_names(names: Iterable[str], most: int = 5) -> str:
    """Names in a sentence.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    names = list(names)
    if len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} more"]
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]])) if names else ""


def count_of(number: int, what: str, many: str | None = None) -> str:
    """A number of things.

    >>> count(1, "party", "parties")
    '1 party'
    """
    return f"{number:,} {what if number == 1 else many or what + 's'}"


def capitalised(text: str) -> str:
    """With a capital."""
    return text[:1].upper() + text[1:]
