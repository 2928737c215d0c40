"""Shared parts of ``Party`` and of the adapters for PyTorch, JAX and scikit-learn.

The pull of Fed+ moves a stepped model w towards the anchor w̃ + v_k: to κw + (1 − κ)(w̃ + v_k).
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from fedplus._types import NumpyArray
from fedplus.check import require


class PullTarget(Protocol):
    """The target of the pull: a ``fedplus.flower.Party``, or any object with κ and an anchor."""

    @property
    def kappa(self) -> Any:
        """κ, the weight of the stepped model; by name if it differs between parameters."""

    @property
    def eta(self) -> float:
        """η, the largest of all layers. Only an adapter that sets the learning rate reads it."""

    @property
    def anchor(self) -> dict[str, NumpyArray]:
        """w̃ + v_k, the point to which each step is pulled, arrays by name."""


class ParameterPull(NamedTuple):
    """How a step moves one parameter.

    Attributes:
        kappa: κ, the weight of the stepped parameter.
        share: The share of the step that counts, if η differs between layers: the layer's η divided
            by the largest η. With 0 the parameter is frozen.
        begin: The step of a round from which on the parameter is trained.
        end: The step of a round from which on it is no longer trained.
    """

    kappa: float
    share: float = 1.0
    begin: float = 0.0
    end: float = float("inf")

    @property
    def needs_before(self) -> bool:
        """Return True if the result depends on the parameter before the step."""
        return self != ParameterPull(self.kappa)

    def is_scheduled(self, step: int) -> bool:
        """Return True if this step of the round, counted from 0, is from ``begin`` to ``end``."""
        return self.begin <= step < self.end

    def is_trained(self, step: int) -> bool:
        """Return True if this step of the round, counted from 0, trains the parameter."""
        return self.share > 0 and self.is_scheduled(step)

    def apply(
        self, before: NumpyArray | None, w: NumpyArray, anchor: NumpyArray, step: int
    ) -> NumpyArray:
        """Return the parameter after a step and its pull (Alg. 1, l. 13).

        Args:
            before: The parameter before the step. None is enough unless ``needs_before``.
            w: The parameter after the step.
            anchor: The anchor of the parameter.
            step: The number of the step in this round, from 0.
        """
        if before is not None:
            if not self.is_trained(step):
                return before
            w = before + self.share * (w - before)
        return self.kappa * w + (1 - self.kappa) * anchor


def parameter_pulls(party: PullTarget) -> dict[str, ParameterPull]:
    """Return how a step moves each parameter, by name."""
    pulls: dict[str, ParameterPull] | None = getattr(party, "pulls", None)
    if pulls is not None:
        return pulls
    return dict.fromkeys(party.anchor, ParameterPull(party.kappa))


def require_same_shapes(
    arrays: Mapping[str, NumpyArray], shapes: Mapping[str, Iterable[int]], kind: str
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
