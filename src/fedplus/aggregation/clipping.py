"""Centred clipping (Karimireddy et al., 2021) and norm clipping (Sun et al., 2019)."""

from typing import final

import jax.numpy as jnp
import numpy as np
from jax import lax
from typing_extensions import override

from fedplus._types import Array, Matrix, Vector, settings, static_field
from fedplus.aggregation import kernels
from fedplus.aggregation.base import AbstractAggregator, Aggregate
from fedplus.aggregation.coordinate_median import CoordinateMedian
from fedplus.check import require_integer, require_number


@final
@settings
class CentredClipping(AbstractAggregator):
    r"""From the last global model, the mean of what the parties are away from it, each clipped.

    .. math:: v \gets v + \tfrac1N\sum_k (w_k - v)\,\min\{1, \tau/\|w_k - v\|\}

    It begins at ``start``, which a method gives it: the last global model. Without one it begins at the
    coordinatewise median.

    Args:
        tau: Radius τ.
        iterations: How many times, the paper's L.

    Karimireddy, He and Jaggi, Learning from History for Byzantine Robust Optimization, ICML 2021.
    """

    tau: float
    iterations: int = static_field(default=3)

    def __post_init__(self) -> None:
        require_number(self.tau, "CentredClipping.tau", above=0)
        require_integer("CentredClipping.iterations", self.iterations, 1)

    @override
    def solve(self, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
        w_local = jnp.asarray(w_local)
        each = jnp.asarray(kernels.weights_or_ones(w_local, weights))
        begin = CoordinateMedian().solve(w_local, weights, None).w if start is None else start
        # Beyond all distances, one τ is like another; a huge one would make each pull vanish.
        farthest = jnp.max(jnp.abs(w_local - begin)) * w_local.shape[1] ** 0.5
        tau = jnp.minimum(self.tau, 4 * farthest + np.finfo(w_local.dtype).tiny)

        def once(_: Array, carry: tuple[Vector, Array]) -> tuple[Vector, Array]:
            v, _ = carry
            _, pull = kernels.pulls(w_local, each / jnp.sum(each), tau, v)
            return v + tau * pull, tau * jnp.sqrt(jnp.sum(pull**2))

        first = jnp.asarray(begin), jnp.zeros((), w_local.dtype)
        w, moved = lax.fori_loop(0, self.iterations, once, first)
        return Aggregate(w, jnp.full((), self.iterations, jnp.int32), moved, jnp.array(True))


@final
@settings
class NormClipping(AbstractAggregator):
    """The mean of the parties' updates, none longer than ``tau``: centred clipping, once.

    Args:
        tau: The longest update, in parameter units.

    Sun, Kairouz, Suresh and McMahan, Can You Really Backdoor Federated Learning?, 2019.
    """

    tau: float

    def __post_init__(self) -> None:
        require_number(self.tau, "NormClipping.tau", above=0)

    @override
    def solve(self, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
        return CentredClipping(self.tau, 1).solve(w_local, weights, start)
