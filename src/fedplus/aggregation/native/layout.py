"""Arrays that loops share with JAX's programs; of a coarse W, where numbers and models are in them."""

from typing import Any, NamedTuple

import jax

from fedplus._types import Array, Vector

Shape: Any = jax.ShapeDtypeStruct  # Untyped in JAX.

KNOWN, LOST, AFAR = range(3)
"""Of what is told: what is known, what rounding may have added to the pull, if the point is far."""
TOLD = 3

DELTA, SHIFT, SQUARE, EXACT, LEFT, LEFT_BEFORE, SLOPE, TURNS, ENDED, CONVERGED = range(10)
"""Of the numbers of a turn: δ; the step's product with the way from the point to the centre, and its
‖·‖₂²; whether the next look is at W itself; then as ``Turn``."""
NUMBERS = 10

W, IMAGE, W_BEFORE, IMAGE_BEFORE, STEP = range(5)
"""Of the models of a turn: w, where it leads, both of the turn before, and w less the point."""
MODELS = 5


class Turn(NamedTuple):
    """How a turn went."""

    left: Array
    """‖·‖₂ of the next step,"""
    left_before: Array
    """and of the one before."""
    slope: Array
    """Σ_k 1 / max(‖w_k − w‖, δ)."""
    turns: Array
    ended: Array
    converged: Array

    @staticmethod
    def of(numbers: Vector) -> "Turn":
        """As the numbers tell."""
        return Turn(*numbers[LEFT:])
