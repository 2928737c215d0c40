"""Differences as the page prints them."""

import math


def signed(value: float, unit: str = "", far: float = math.inf) -> str:
    """One decimal, always with a sign; what is further out than ``far`` is not told to the digit.

    >>> signed(1.25), signed(-0.5, "%"), signed(-2e6, "%", far=1000.0)
    ('+1.2', '−0.5%', '< −1000%')
    """
    if abs(value) >= far:  # Some party's steps diverged.
        return f"{'<' if value < 0 else '>'} {math.copysign(far, value):g}{unit}".replace("-", "−")
    return f"{value:+.1f}{unit}".replace("-", "−")
