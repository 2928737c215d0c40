"""``Scaling``: fills gaps and standardises inputs, with statistics computed without sharing rows.

Each party computes ``Moments`` of its training samples: count, mean and variance of each input.
``pool_moments`` combines them into those of all samples together.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from fedplus._types import NumpyArray
from fedplus.check import require

Standardise = Literal["pooled", "party", "no"]
STANDARDISE_RULES = ("pooled", "party", "no")
NO_PARTY = ""
"""Stands for rows of no known party, which are scaled like all parties' samples together."""
RELATIVE_ZERO = 1e-6
"""An input whose deviation is smaller than this share of its mean counts as constant."""


@dataclasses.dataclass(frozen=True)
class Moments:
    """Count, mean and variance of each input over some samples; gaps (NaN) do not count."""

    count: NumpyArray
    mean: NumpyArray
    variance: NumpyArray

    @classmethod
    def of(cls, x: NumpyArray) -> "Moments":
        """Return the moments of inputs (n, ...)."""
        is_known = ~np.isnan(x)
        count = is_known.sum(0)
        divisor = np.maximum(count, 1)
        mean = np.where(is_known, x, 0).sum(0, dtype=float) / divisor
        squares = np.where(is_known, np.square(x.astype(float) - mean), 0)
        return cls(count, mean, squares.sum(0) / divisor)


def pool_moments(moments: Sequence[Moments]) -> Moments:
    """Return the moments of all parties' samples together, from those of each party.

    >>> parts = np.array([[1.0], [2.0]]), np.array([[6.0]])
    >>> pooled = pool_moments([Moments.of(part) for part in parts])
    >>> pooled.count.item(), pooled.mean.item(), round(pooled.variance.item(), 3)
    (3, 3.0, 4.667)
    """
    counts = np.stack([m.count for m in moments])
    means = np.stack([m.mean for m in moments])
    variances = np.stack([m.variance for m in moments])
    count = counts.sum(0)
    shares = counts / np.maximum(count, 1)
    mean = (shares * means).sum(0)
    return Moments(count, mean, (shares * (variances + np.square(means - mean))).sum(0))


@dataclasses.dataclass(frozen=True)
class Scaling:
    """Fills gaps and standardises: x ↦ (x − mean)/deviation, where a missing x is ``fill``.

    Args:
        fill: (features,), or one row per party.
        mean: The same shape; 0 for inputs that are not standardised.
        deviation: The same shape; 1 for inputs that are not standardised.
        parties: The parties of the rows; empty if all parties share one.
    """

    fill: NumpyArray
    mean: NumpyArray
    deviation: NumpyArray
    parties: tuple[str, ...] = ()
    """The last one is ``NO_PARTY``: the scaling over all parties, for rows of none of them."""

    @classmethod
    def fit(
        cls, moments: Mapping[str, Moments], are_numbers: Any = True, how: Standardise = "pooled"
    ) -> "Scaling":
        """Compute the scaling from each party's moments.

        Args:
            moments: The moments of each party's training samples, by its name.
            are_numbers: Mask of the inputs to standardise.
            how: "pooled" uses the mean and the deviation over all parties' samples, "party" each
                party's own, "no" only fills gaps, with the mean over all parties.
        """
        allowed = ", ".join(STANDARDISE_RULES)
        require(how in STANDARDISE_RULES, "standardise", repr(how), f"one of: {allowed}")
        pooled = pool_moments(list(moments.values()))
        if how != "party":
            return cls._from_moments(pooled, are_numbers, how)
        rows = [cls._from_moments(m, are_numbers, how, pooled) for m in moments.values()]
        rows.append(cls._from_moments(pooled, are_numbers, how))
        fill, mean, deviation = (
            np.stack([getattr(row, name) for row in rows]) for name in ("fill", "mean", "deviation")
        )
        return cls(fill, mean, deviation, (*moments, NO_PARTY))

    @classmethod
    def _from_moments(
        cls, own: Moments, are_numbers: Any, how: Standardise, otherwise: Moments | None = None
    ) -> "Scaling":
        """Return the scaling of some samples; ``otherwise`` is for inputs without any value there."""
        other = own if otherwise is None else otherwise
        mean = np.where(own.count > 0, own.mean, other.mean)
        deviation = np.sqrt(np.where(own.count > 0, own.variance, other.variance))
        is_constant = deviation <= RELATIVE_ZERO * np.maximum(
            np.abs(mean), np.finfo(np.float32).tiny
        )
        if how == "no":
            return cls(mean, np.zeros_like(mean), np.ones_like(mean))
        divisor = np.where(np.logical_and(are_numbers, ~is_constant), deviation, 1.0)
        return cls(mean, np.where(are_numbers, mean, 0.0), divisor)

    @property
    def standardises(self) -> bool:
        """Whether it changes any input that is present."""
        return bool(np.any(self.mean != 0) or np.any(self.deviation != 1))

    def of_party(self, party: str | None) -> "Scaling":
        """Return the scaling of one party's samples; None stands for rows of no known party.

        Raises:
            SettingError: Each party has its own scaling, and this party has none.
        """
        if not self.parties:
            return self
        name = NO_PARTY if party is None else party
        require(
            name in self.parties, "party", repr(party), f"one of: {', '.join(self.parties[:-1])}",
            "Each party has its own mean and deviation.",
        )  # fmt: skip
        row = self.parties.index(name)
        return Scaling(self.fill[row], self.mean[row], self.deviation[row])

    def apply(self, x: NumpyArray) -> NumpyArray:
        """Return the inputs (n, ...) filled and scaled, as float32; ``of_party`` chooses the row."""
        return ((np.where(np.isnan(x), self.fill, x) - self.mean) / self.deviation).astype(
            np.float32
        )

    def then(self, later: "Scaling") -> "Scaling":
        """Return the scaling that does what this one and then ``later`` do."""
        fill, mean, deviation = self.fill, self.mean, self.deviation
        if self.parties and later.parties:
            rows = [self.parties.index(party) for party in later.parties]
            fill, mean, deviation = fill[rows], mean[rows], deviation[rows]
        mean, deviation = mean + deviation * later.mean, deviation * later.deviation
        return Scaling(
            np.broadcast_to(fill, mean.shape), mean, deviation, later.parties or self.parties
        )
