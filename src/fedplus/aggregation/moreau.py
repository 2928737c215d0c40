"""The paper's 𝒜 for any ψ: one table from ψ to its solver."""

from collections.abc import Callable
from typing import Any, NamedTuple, final

import jax.numpy as jnp
from jax import lax
from typing_extensions import override

from fedplus._check import require
from fedplus._types import Array, Matrix, Vector, epsilon, settings
from fedplus.aggregation import kernels
from fedplus.aggregation.base import AbstractAggregator, Aggregate, Changed
from fedplus.aggregation.coordinate_median import (
    delta_coordinate_median,
    init_columns,
    update_columns,
)
from fedplus.aggregation.geometric_median import delta_geometric_median, init_pulls, update_pulls
from fedplus.aggregation.mean import Mean
from fedplus.aggregation.recursion import move
from fedplus.psi import L1, L2, AbstractPsi, Anchor, Blocks, Quadratic, Zero

MOST_ITERATIONS = 20_000


@final
@settings
class Moreau(AbstractAggregator):
    r"""The aggregation that ψ defines through its Moreau envelope.

    .. math:: \mathcal A(W) = \operatorname{argmin}_w \tfrac1N \sum_k \hat\psi(w_k - w)

    Zero, Anchor and Quadratic give the mean, L2 the δ-geometric median, L1 the δ-coordinatewise median,
    Blocks each block by its own ψ, and any other ψ the paper's recursion, accelerated. Where several w
    minimise, it is the point at which the recursion, started from the mean, stops.

    Args:
        psi: ψ.

    Paper: eq. (aggregation_def); Alg. 1, l. 10.

    >>> from fedplus.psi import L1
    >>> Moreau(L1(0.5))([[0.0], [1.0], [50.0]]).w.tolist()
    [1.0]
    """

    psi: AbstractPsi

    def __post_init__(self) -> None:
        require(
            isinstance(self.psi, AbstractPsi), "Moreau.psi", repr(self.psi), "a ψ", "E.g. L2(0.1)."
        )

    @property
    def shows_non_finite(self) -> bool:  # type: ignore[override]
        """Whether a non-finite entry of W always makes w̃ non-finite."""
        return type(self.psi) in SOLVERS

    @override
    def solve(self, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
        return _solver(self.psi).solve(self.psi, w_local, weights, start)

    @override
    def init(self, w: Vector, parties: int, changed: int) -> Any:
        return _solver(self.psi).init(self.psi, w, parties, changed)

    @override
    def update(
        self, w_local: Matrix, weights: Vector | None, start: Vector, memory: Any, changed: Changed
    ) -> tuple[Aggregate, Any]:
        if memory == () or weights is not None:
            return self.solve(w_local, weights, start), memory
        return _solver(self.psi).update(self.psi, w_local, start, memory, changed)


class Solver(NamedTuple):
    """How the envelope of one class of ψ is minimised."""

    solve: Callable[[Any, Matrix, Vector | None, Vector | None], Aggregate]
    """(ψ, W, weights, start) ↦ the minimiser."""
    init: Callable[[Any, Vector, int, int], Any] = lambda psi, w, parties, changed: ()
    """(ψ, w, N, changed models in a round) ↦ the initial memory."""
    update: Callable[[Any, Matrix, Vector, Any, Changed], tuple[Aggregate, Any]] | Any = None
    """(ψ, W, start, memory, changed) ↦ the minimiser and the new memory."""


def _solver(psi: AbstractPsi) -> Solver:
    return SOLVERS.get(type(psi), Solver(solve_any))


def solve_any(
    psi: AbstractPsi, w_local: Matrix, weights: Vector | None, start: Vector | None
) -> Aggregate:
    """Nesterov's method on the envelope, whose gradient step is the recursion, with restarts."""
    w_local = jnp.asarray(w_local)
    each = jnp.asarray(kernels.each_weight(w_local, weights))
    accuracy = max(1e-11, 8 * epsilon(w_local))

    class State(NamedTuple):
        w: Vector
        ahead: Vector  # the point that momentum leads to
        momentum: Array
        left: Array
        done: Array
        iterations: Array

    def turn(s: State) -> State:
        step, pull = move(psi, w_local, each, s.ahead)
        left = jnp.linalg.norm(step)
        done = left <= accuracy * pull + 2 * epsilon(step) * jnp.linalg.norm(s.ahead)
        w = jnp.where(done, s.ahead, s.ahead + step)
        uphill = jnp.sum(step * (w - s.w)) < 0
        grown = 0.5 * (1 + jnp.sqrt(1 + 4 * s.momentum**2))
        ahead = jnp.where(uphill, w, w + (s.momentum - 1) / grown * (w - s.w))
        momentum = jnp.where(uphill, 1.0, grown).astype(w.dtype)
        return State(w, ahead, momentum, left, done, s.iterations + 1)

    mean = kernels.weighted_sum(w_local, each / jnp.sum(each))
    begin = mean if start is None else jnp.asarray(start)
    one, infinite = jnp.ones((), begin.dtype), jnp.full((), jnp.inf, begin.dtype)
    first = State(begin, begin, one, infinite, jnp.array(False), jnp.zeros((), jnp.int32))
    last = lax.while_loop(lambda s: ~s.done & (s.iterations < MOST_ITERATIONS), turn, first)
    return Aggregate(last.w, last.iterations, last.left, last.done)


def solve_blocks(
    psi: Blocks, w_local: Matrix, weights: Vector | None, start: Vector | None
) -> Aggregate:
    """Each block of columns by its own ψ."""
    blocks, starts = psi.split(w_local), {} if start is None else psi.split(start)
    found = {
        pattern: _solver(psi.parts[pattern]).solve(
            psi.parts[pattern], block, weights, starts.get(pattern)
        )
        for pattern, block in blocks.items()
    }
    return _joined(psi, found)


def init_blocks(psi: Blocks, w: Vector, parties: int, changed: int) -> Any:
    """The memories of all blocks, or ``()`` if none has one."""
    memories = {
        pattern: Moreau(psi.parts[pattern]).init(part, parties, changed)
        for pattern, part in psi.split(w).items()
    }
    return memories if any(memory != () for memory in memories.values()) else ()


def update_blocks(
    psi: Blocks, w_local: Matrix, start: Vector, memory: Any, changed: Changed
) -> tuple[Aggregate, Any]:
    """Each block of columns with its own memory."""
    starts, befores = psi.split(start), psi.split(changed.before)
    found, after = {}, {}
    for pattern, block in psi.split(w_local).items():
        rows = Changed(changed.rows, befores[pattern])
        found[pattern], after[pattern] = Moreau(psi.parts[pattern]).update(
            block, None, starts[pattern], memory[pattern], rows
        )
    return _joined(psi, found), after


def _joined(psi: Blocks, found: dict[str, Aggregate]) -> Aggregate:
    w, iterations, residuals, converged = zip(*found.values(), strict=True)
    xp = kernels.namespace(w[0])
    return Aggregate(
        psi.join(dict(zip(found, w, strict=True))),
        xp.max(xp.stack(iterations)),
        xp.sqrt(xp.sum(xp.stack(residuals) ** 2)),
        xp.all(xp.stack(converged)),
    )


_MEAN = Solver(
    lambda psi, w_local, weights, start: Mean().solve(w_local, weights, start),
    lambda psi, w, parties, changed: Mean().init(w, parties, changed),
    lambda psi, w_local, start, memory, changed: Mean().update(w_local, None, start, memory, changed),
)
SOLVERS: dict[type, Solver] = {
    Zero: _MEAN,
    Anchor: _MEAN,
    Quadratic: _MEAN,
    L2: Solver(
        lambda psi, w_local, weights, start: delta_geometric_median(w_local, weights, psi.delta, start),
        lambda psi, w, parties, changed: init_pulls(w, parties, changed),
        lambda psi, w_local, start, memory, changed: update_pulls(
            w_local, psi.delta, start, memory, changed
        ),
    ),
    L1: Solver(
        lambda psi, w_local, weights, start: delta_coordinate_median(w_local, weights, psi.delta, start),
        lambda psi, w, parties, changed: init_columns(w, parties, changed),
        lambda psi, w_local, start, memory, changed: update_columns(
            w_local, psi.delta, start, memory, changed
        ),
    ),
    Blocks: Solver(solve_blocks, init_blocks, update_blocks),
}
"""The solver of each ψ; a ψ that is not here is minimised by ``solve_any``."""
