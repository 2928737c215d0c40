"""The paper's aggregation 𝒜 for any ψ (Alg. 1, l. 10); ``SOLVERS`` maps each ψ to its solver."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, final

import jax.numpy as jnp
from typing_extensions import override

from fedplus._backend import namespace
from fedplus._types import Array, Matrix, Vector, settings
from fedplus.aggregation.base import AbstractAggregator, Aggregate, ChangedRows
from fedplus.aggregation.coordinate_median import CoordinateMedian
from fedplus.aggregation.geometric_median import GeometricMedian
from fedplus.aggregation.mean import Mean
from fedplus.aggregation.recursion import Recursion
from fedplus.check import require
from fedplus.psi import L1, L2, AbstractPsi, Anchor, Blocks, Quadratic, Zero


@final
@settings
class Moreau(AbstractAggregator):
    r"""The aggregation that ψ defines through its Moreau envelope.

    .. math:: \mathcal A(W) = \operatorname{argmin}_w \tfrac1N \sum_k \hat\psi(w_k - w)

    It is the mean for Zero, Anchor and Quadratic, the δ-geometric median for L2, the δ-coordinatewise
    median for L1, and each block's own aggregation for Blocks. Any other ψ is solved by the paper's
    recursion with acceleration. If several w minimise, the result is the point at which the recursion
    stops when it starts at the mean, or for some ψ at ``start`` if it is given.

    Args:
        psi: The regulariser ψ.

    Paper: eq. (aggregation_def); Alg. 1, l. 10.

    >>> from fedplus.psi import L1
    >>> Moreau(L1(0.5))([[0.0], [1.0], [50.0]]).w.tolist()
    [1.0]
    """

    psi: AbstractPsi

    def __post_init__(self) -> None:
        require(
            isinstance(self.psi, AbstractPsi),
            "Moreau.psi",
            repr(self.psi),
            "a regulariser ψ from fedplus.psi, e.g. L2(0.1)",
        )

    @property
    def propagates_nan(self) -> bool:  # type: ignore[override]
        """True if a non-finite entry of W always makes w̃ non-finite."""
        return self.solver.propagates_nan

    @cached_property
    def solver(self) -> AbstractAggregator:
        """The aggregator that minimises the envelope of this ψ."""
        if type(self.psi) in SOLVERS:
            return SOLVERS[type(self.psi)](self.psi)
        return Recursion(self.psi, tolerance=1e-11, max_iterations=20_000, accelerated=True)

    @override
    def solve(self, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
        return self.solver.solve(w_local, weights, start)

    @override
    def init(self, w: Vector, parties: int, changed: int) -> Any:
        return self.solver.init(w, parties, changed)

    @override
    def solve_incremental(
        self,
        w_local: Matrix,
        counted: Array | None,
        start: Vector,
        memory: Any,
        changed: ChangedRows,
    ) -> tuple[Aggregate, Any]:
        return self.solver.solve_incremental(w_local, counted, start, memory, changed)


@final
@settings
class BlockSolver(AbstractAggregator):
    """The aggregator for ``Blocks``, which solves each block of columns with the solver of its ψ.

    Args:
        psi: The blocks.
    """

    psi: Blocks

    @property
    def propagates_nan(self) -> bool:  # type: ignore[override]
        """True if this holds for all blocks."""
        return all(Moreau(part).propagates_nan for part in self.psi.parts.values())

    @override
    def solve(self, w_local: Matrix, weights: Vector | None, start: Vector | None) -> Aggregate:
        starts = {} if start is None else self.psi.split(start)
        results = {
            pattern: Moreau(self.psi.parts[pattern]).solve(block, weights, starts.get(pattern))
            for pattern, block in self.psi.split(w_local).items()
        }
        return self._join(results)

    @override
    def init(self, w: Vector, parties: int, changed: int) -> Any:
        memories = {
            pattern: Moreau(self.psi.parts[pattern]).init(part, parties, changed)
            for pattern, part in self.psi.split(w).items()
        }
        return memories if any(memory != () for memory in memories.values()) else ()

    @override
    def solve_incremental(
        self,
        w_local: Matrix,
        counted: Array | None,
        start: Vector,
        memory: Any,
        changed: ChangedRows,
    ) -> tuple[Aggregate, Any]:
        starts, befores = self.psi.split(start), self.psi.split(changed.before)
        results, memories = {}, {}
        for pattern, block in self.psi.split(w_local).items():
            solver, part = Moreau(self.psi.parts[pattern]), starts[pattern]
            rows = changed._replace(before=befores[pattern])
            if memory[pattern] != () or counted is None:
                results[pattern], memories[pattern] = solver.update(
                    block, None, part, memory[pattern], rows, counted
                )
                continue
            weights = counted.astype(block.dtype)
            # A row of weight 0 must be a copy of another model.
            block = jnp.where(counted[:, None], block, block[jnp.argmax(weights)])
            results[pattern], memories[pattern] = solver.solve(block, weights, part), ()
        return self._join(results), memories

    def _join(self, results: dict[str, Aggregate]) -> Aggregate:
        """Return the aggregate of all columns from those of the blocks."""
        w, iterations, residuals, converged = zip(*results.values(), strict=True)
        xp = namespace(w[0])
        return Aggregate(
            self.psi.concatenate(dict(zip(results, w, strict=True))),
            xp.max(xp.stack(iterations)),
            xp.sqrt(xp.sum(xp.stack(residuals) ** 2)),
            xp.all(xp.stack(converged)),
        )


SOLVERS: dict[type, Callable[[Any], AbstractAggregator]] = {
    Zero: lambda psi: Mean(),
    Anchor: lambda psi: Mean(),
    Quadratic: lambda psi: Mean(),
    L2: lambda psi: GeometricMedian(psi.delta),
    L1: lambda psi: CoordinateMedian(psi.delta),
    Blocks: BlockSolver,
}
"""The solver of each ψ; any other ψ is minimised by the accelerated ``Recursion``."""
