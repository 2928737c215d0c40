"""The range of κ = 1/(1 + ησ) that the paper recommends, and a warning for settings outside it."""

import sys
import warnings
from typing import Any

import numpy as np

RECOMMENDED_RANGE = (0.9, 0.999)


class KappaWarning(UserWarning):
    """The warning that κ = 1/(1 + ησ) lies outside the range that the paper recommends."""


def warn_of_unusual_kappa(eta: Any, sigma: Any) -> None:
    """Warn if κ = 1/(1 + ησ) lies outside the recommended range, unless σ = 0.

    Traced numbers, arrays of several settings, schedules and settings by layer are not checked.
    """
    is_number = all(isinstance(x, (int, float, np.number)) for x in (eta, sigma))
    if not is_number or sigma == 0:
        return
    kappa = float(1 / (1 + eta * sigma))
    least, most = RECOMMENDED_RANGE
    if not least <= kappa <= most:
        warnings.warn(
            f"κ = 1/(1 + ησ) = {kappa:.6g} lies outside [{least}, {most}], the range that the Fed+ "
            f"paper recommends. For η = {eta:g} it needs a σ in "
            f"[{(1 / most - 1) / eta:.3g}, {(1 / least - 1) / eta:.3g}].",
            KappaWarning,
            stacklevel=_levels_to_caller(),
        )


def _levels_to_caller() -> int:
    """Return the ``stacklevel`` of the first caller outside fedplus, where the warning points."""
    level, frame = 0, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("fedplus."):
        level, frame = level + 1, frame.f_back
    return level + 1
