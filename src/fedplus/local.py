"""Local-Solve: what a party does in a round. Lines 11–14 of the paper's Algorithm 1."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, final

import jax
import optax
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.tree_util import Partial

from fedplus._optimizer_check import require_no_schedule, require_no_schedule_state
from fedplus._types import Array, Vector, settings, static_field
from fedplus.check import require, require_number
from fedplus.kappa import warn_of_unusual_kappa
from fedplus.psi import AbstractPsi

Batch: TypeAlias = Any

Params: TypeAlias = Any


class ParameterGradient(NamedTuple):
    """A gradient over parameters in their own shapes.

    LocalSolve then unravels a model once per round instead of at every step.
    """

    grad: Callable[[Params, Batch], Params]
    """(parameters, batch) ↦ gradient, in the same shapes."""
    unravel: Callable[[Vector], Params]
    loss: Callable[[Params, Batch], Array] | None = None
    """(parameters, batch) ↦ f_k, for methods that compare models by their loss."""


Grad: TypeAlias = Callable[[Vector, Batch], Vector] | ParameterGradient
"""(w, batch) ↦ ∇f_k(w) on that batch."""


@final
@settings
class LocalSolve:
    r"""E_k steps towards lower loss, each followed by a pull towards the anchor w̃ + v_k.

    .. math:: w_k \gets \kappa\,[w_k - \eta\nabla f_k(w_k)] + (1-\kappa)\,[\tilde w + v_k],
              \qquad \kappa = 1/(1 + \eta\sigma)

    Args:
        psi: ψ, which makes the personal part v_k = prox(w_k − w̃).
        eta: Learning rate η > 0.
        sigma: Penalty σ ≥ 0; 0 means no pull.
        lam: Where a party starts: 0 at its own model (Fed+), 1 at the global one (FedAvg).
        optimizer: An Optax transformation to take the place of the gradient step; it is begun afresh
            each round, and the same pull follows. ``eta`` then only sets κ, so give it the
            optimizer's learning rate. Learning-rate schedules are rejected: they would restart in
            every round.

    Paper: Alg. 1, l. 11–14; Proposition 1.
    """

    psi: AbstractPsi
    eta: float
    sigma: float = 0.0
    lam: float = 0.0
    optimizer: optax.GradientTransformation | None = static_field(default=None)

    def __post_init__(self) -> None:
        require(isinstance(self.psi, AbstractPsi), "LocalSolve.psi", repr(self.psi), "a ψ")
        require_number(self.eta, "LocalSolve.eta", above=0, advice="It is the learning rate.")
        require_number(self.sigma, "LocalSolve.sigma", least=0, advice="0 means no pull (κ = 1).")
        require_number(
            self.lam, "LocalSolve.lam", least=0, most=1,
            advice="λ mixes w_k with w̃ (Alg. 1, l. 12); Fed+ takes 0, FedAvg 1.",
        )  # fmt: skip
        if self.optimizer is not None:
            require_no_schedule(self.optimizer, "LocalSolve.optimizer")
        warn_of_unusual_kappa(self.eta, self.sigma)

    @property
    def kappa(self) -> Any:
        """κ = 1/(1 + ησ), the share of the descended model that a step keeps."""
        return 1 / (1 + self.eta * self.sigma)

    def __call__(
        self, w_k: Vector, w_global: Vector, batches: Batch, steps: Array | int, grad: Grad
    ) -> Vector:
        """Return w_k after ``steps`` (E_k) steps.

        Args:
            w_k: The party's own model.
            w_global: w̃.
            batches: One minibatch per step: a pytree of arrays (E, ...), or a ``jax.tree_util.Partial``
                that makes the batch from the step's number.
            steps: E_k.
            grad: (w, batch) ↦ ∇f_k(w) on that batch.
        """
        theta = self.psi.prox(w_k - w_global)  # Alg. 1, l. 11
        start = self.start(w_k, w_global)  # l. 12
        kappa = self.kappa
        optimizer = self.optimizer or optax.sgd(self.eta)
        gradient, unravel, ravel = with_parameter_shapes(grad)
        anchor = unravel(w_global + theta)

        def step(i: Array, carry: tuple[Params, Any]) -> tuple[Params, Any]:  # l. 13
            w, memory = carry
            update, memory = optimizer.update(gradient(w, batch_at(batches, i)), memory, w)
            descended = optax.apply_updates(w, update)
            moved = optax.incremental_update(descended, anchor, kappa)  # κ·descended + (1−κ)·anchor
            return moved, memory

        begin = unravel(start)
        memory = optimizer.init(begin)
        require_no_schedule_state(memory, "LocalSolve.optimizer")
        solved, _ = repeat_steps(step, steps, (begin, memory), available_steps(batches))
        return ravel(solved)  # l. 14

    def start(self, w_k: Vector, w_global: Vector) -> Vector:
        """Return the model from which the party's steps start (Alg. 1, l. 12)."""
        return (1 - self.lam) * w_k + self.lam * w_global


def with_parameter_shapes(
    grad: Grad,
) -> tuple[
    Callable[[Params, Batch], Params], Callable[[Vector], Params], Callable[[Params], Vector]
]:
    """Return the gradient, and functions from a flat vector to its parameters and back.

    For a gradient over flat vectors both functions are the identity.
    """
    if isinstance(grad, ParameterGradient):
        return grad.grad, grad.unravel, lambda params: ravel_pytree(params)[0]
    return grad, lambda w: w, lambda w: w


def repeat_steps(step: Any, steps: Array | int, carry: Any, most: int | None) -> Any:
    """Apply ``step`` to ``carry`` ``steps`` times.

    If ``most`` bounds the number of steps, the loop has that length and further steps change nothing:
    a fixed length is faster under ``vmap`` and on a GPU.
    """
    if isinstance(steps, int) or most is None:
        return lax.fori_loop(0, steps, step, carry)

    def masked(i: Array, carry: Any) -> Any:
        return optax.tree.where(i < steps, step(i, carry), carry)

    return lax.fori_loop(0, most, masked, carry)


def available_steps(batches: Batch) -> int | None:
    """Return the number of steps that there are batches for, or None if a ``Partial`` makes them."""
    return None if isinstance(batches, Partial) else len(jax.tree.leaves(batches)[0])


def batch_at(batches: Batch, i: Array) -> Batch:
    """Return the batch of step ``i``: made by a ``Partial``, or looked up in arrays (E, ...)."""
    if isinstance(batches, Partial):
        return batches(i)
    return jax.tree.map(lambda all_steps: all_steps[i], batches)
