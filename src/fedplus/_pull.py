"""Shared parts of the adapters for PyTorch, JAX and scikit-learn.

The pull of Fed+ moves a stepped model w towards the anchor w̃ + v_k: to κw + (1 − κ)(w̃ + v_k).
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

import numpy as np

from fedplus._types import Host
from fedplus.check import require


class PullTarget(Protocol):
    """The target of the pull: a ``fedplus.flower.Party``, or any object with κ and an anchor."""

    @property
    def kappa(self) -> float:
        """κ, the weight of the stepped model."""

    @property
    def anchor(self) -> dict[str, Host]:
        """w̃ + v_k, the point to which each step is pulled, arrays by name."""


def require_same_shapes(
    arrays: Mapping[str, Host], shapes: Mapping[str, Iterable[int]], kind: str
) -> None:
    """Require that arrays have the names and shapes of a model.

    Args:
        arrays: The arrays by name.
        shapes: The shapes that the model has, by name.
        kind: "parameters" or "buffers", for the error message.

    Raises:
        SettingError: A name or a shape differs.
    """
    require(
        set(shapes) == set(arrays), f"the names of the {kind}", ", ".join(arrays) or "none",
        ", ".join(shapes) or "none",
    )  # fmt: skip
    for name, shape in shapes.items():
        got, allowed = np.shape(arrays[name]), tuple(shape)
        require(got == allowed, name, f"shape {got}", f"of shape {allowed}")
