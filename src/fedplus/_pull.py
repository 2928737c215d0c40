"""What the adapters for PyTorch, JAX and scikit-learn have in common."""

from collections.abc import Iterable, Mapping
from typing import Protocol

import numpy as np

from fedplus._types import Host
from fedplus.check import require


class PullTarget(Protocol):
    """What pulls: a ``fedplus.flower.Party``, or anything with κ and an anchor."""

    @property
    def kappa(self) -> float:
        """κ."""

    @property
    def anchor(self) -> dict[str, Host]:
        """w̃ + v_k by name."""


def require_same_shapes(
    arrays: Mapping[str, Host], shapes: Mapping[str, Iterable[int]], what: str
) -> None:
    """Require arrays of a model's names and shapes."""
    require(set(shapes) == set(arrays), what, ", ".join(arrays), f"those of {', '.join(shapes)}")
    for name, shape in shapes.items():
        got, allowed = np.shape(arrays[name]), tuple(shape)
        require(got == allowed, name, f"shape {got}", f"of shape {allowed}")
