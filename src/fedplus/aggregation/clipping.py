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
    r"""Centred clipping: steps from the last global model by the mean of clipped differences.

    .. math:: v \gets v + \tfrac1N\sum_k (w_k - v)\,\min\{1, \tau/\|w_k - v\|\}

    The first v is ``start``, which is the last global model in a federated method. Without it, the
    first v is the coordinatewise median.

    Args:
        tau: Radius τ > 0, in parameter units.
        iterations: The number of iterations, L in the paper.

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
        a = jnp.asarray(kernels.weights_or_ones(w_local, weights))
        first = CoordinateMedian().solve(w_local, weights, None).w if start is None else start
        # A τ beyond all distances clips nothing. A huge one is reduced, as quotients by it underflow.
        farthest = jnp.max(jnp.abs(w_local - first)) * w_local.shape[1] ** 0.5
        tau = jnp.minimum(self.tau, 4 * farthest + np.finfo(w_local.dtype).tiny)

        def iterate(_: Array, carry: tuple[Vector, Array]) -> tuple[Vector, Array]:
            v, _ = carry
            _, descent = kernels.distances_and_descent(w_local, a / jnp.sum(a), tau, v)
            return v + tau * descent, tau * jnp.sqrt(jnp.sum(descent**2))

        carry = jnp.asarray(first), jnp.zeros((), w_local.dtype)
        w, last_step = lax.fori_loop(0, self.iterations, iterate, carry)
        return Aggregate(w, jnp.full((), self.iterations, jnp.int32), last_step, jnp.array(True))


@final
@settings
class NormClipping(AbstractAggregator):
    """Norm clipping: the mean of the parties' updates, each scaled to a length of at most ``tau``.

    Args:
        tau: The largest length τ > 0 of an update, in parameter units.

    Sun, Kairouz, Suresh and McMahan, Can You Really Backdoor Federated Learning?, 2019.
    """

    tau: float

    def __post_init__(self) -> None:
        require_number(self.tau, "NormClipping.tau", above=0)

    @override
    def solve(self, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
        return CentredClipping(self.tau, 1).solve(w_local, weights, start)
