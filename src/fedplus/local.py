"""Local-Solve, the training of one party in a round: lines 11–14 of the paper's Algorithm 1."""

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
"""A pytree of arrays: the samples of one minibatch, or of all minibatches of a party."""

Params: TypeAlias = Any
"""A pytree of arrays: a model's parameters in their own shapes."""


class ParameterGradient(NamedTuple):
    """A gradient with respect to parameters in their own shapes instead of a flat vector.

    With it, ``LocalSolve`` unravels a model once per round instead of at every step.
    """

    grad: Callable[[Params, Batch], Params]
    """(parameters, batch) ↦ gradient, in the same shapes."""
    unravel: Callable[[Vector], Params]
    """Flat vector (d,) ↦ parameters."""
    loss: Callable[[Params, Batch], Array] | None = None
    """(parameters, batch) ↦ f_k(parameters), for methods that compare models by their loss."""


Grad: TypeAlias = Callable[[Vector, Batch], Vector] | ParameterGradient
"""(w, batch) ↦ ∇f_k(w) on that batch."""


@final
@settings
class LocalSolve:
    r"""E_k gradient steps on f_k, each followed by a move towards the anchor w̃ + v_k.

    .. math:: w_k \gets \kappa\,[w_k - \eta\nabla f_k(w_k)] + (1-\kappa)\,[\tilde w + v_k],
              \qquad \kappa = 1/(1 + \eta\sigma)

    Args:
        psi: The regulariser ψ, which determines the personal part v_k = prox(w_k − w̃).
        eta: Learning rate η > 0.
        sigma: Penalty constant σ ≥ 0; with 0, steps do not move towards the anchor.
        lam: λ in [0, 1], where the steps start: 0 at the party's own model (Fed+), 1 at w̃ (FedAvg).
        optimizer: An Optax transformation that replaces the gradient step; its state is initialised
            in every round. ``eta`` then only determines κ, so set it to the optimizer's learning rate.
            Learning-rate schedules are rejected, because they would restart in every round.

    Paper: Alg. 1, l. 11–14; Proposition 1.
    """

    psi: AbstractPsi
    eta: float
    sigma: float = 0.0
    lam: float = 0.0
    optimizer: optax.GradientTransformation | None = static_field(default=None)

    def __post_init__(self) -> None:
        require(
            isinstance(self.psi, AbstractPsi),
            "LocalSolve.psi",
            repr(self.psi),
            "a regulariser ψ from fedplus.psi, e.g. L2(0.1)",
        )
        require_number(self.eta, "LocalSolve.eta", above=0, advice="It is the learning rate.")
        require_number(self.sigma, "LocalSolve.sigma", least=0, advice="0 means κ = 1.")
        require_number(
            self.lam,
            "LocalSolve.lam",
            least=0,
            most=1,
            advice="λ mixes w_k with w̃ (Alg. 1, l. 12); Fed+ takes 0, FedAvg 1.",
        )
        if self.optimizer is not None:
            require_no_schedule(self.optimizer, "LocalSolve.optimizer")
        warn_of_unusual_kappa(self.eta, self.sigma)

    @property
    def kappa(self) -> Any:
        """κ = 1/(1 + ησ), the share of the gradient step's result in line 13; 1 − κ is the anchor's."""
        return 1 / (1 + self.eta * self.sigma)

    def __call__(
        self, w_k: Vector, w_global: Vector, batches: Batch, steps: Array | int, grad: Grad
    ) -> Vector:
        """Return the party's model w_k after E_k steps.

        Args:
            w_k: (d,), the party's own model.
            w_global: (d,), w̃.
            batches: One minibatch per step: a pytree of arrays (E, ...) with E ≥ E_k, or a
                ``jax.tree_util.Partial`` that maps a step's index to its minibatch.
            steps: E_k.
            grad: (w, batch) ↦ ∇f_k(w) on that batch.
        """
        optimizer = self.optimizer or optax.sgd(self.eta)
        gradient, unravel, ravel = with_parameter_shapes(grad)
        v_k = self.psi.prox(w_k - w_global)  # Alg. 1, l. 11
        first = unravel(self.start(w_k, w_global))  # l. 12
        anchor = unravel(w_global + v_k)
        kappa = self.kappa

        def step(i: Array, carry: tuple[Params, Any]) -> tuple[Params, Any]:  # l. 13
            w, optimizer_state = carry
            g = gradient(w, batch_at(batches, i))
            update, optimizer_state = optimizer.update(g, optimizer_state, w)
            descended = optax.apply_updates(w, update)  # w − η∇f_k(w)
            # κ·descended + (1 − κ)·anchor
            return optax.incremental_update(descended, anchor, kappa), optimizer_state

        optimizer_state = optimizer.init(first)
        require_no_schedule_state(optimizer_state, "LocalSolve.optimizer")
        carry = first, optimizer_state
        solved, _ = repeat_steps(step, steps, carry, available_steps(batches))
        return ravel(solved)  # l. 14

    def start(self, w_k: Vector, w_global: Vector) -> Vector:
        """Return the model at which the party's steps start (Alg. 1, l. 12)."""
        return (1 - self.lam) * w_k + self.lam * w_global


def with_parameter_shapes(
    grad: Grad,
) -> tuple[
    Callable[[Params, Batch], Params], Callable[[Vector], Params], Callable[[Params], Vector]
]:
    """Return the gradient function, and the functions that unravel and ravel a model.

    For a gradient with respect to flat vectors, both are the identity.
    """
    if isinstance(grad, ParameterGradient):
        return grad.grad, grad.unravel, lambda params: ravel_pytree(params)[0]
    return grad, lambda w: w, lambda w: w


def repeat_steps(step: Any, steps: Array | int, carry: Any, max_steps: int | None) -> Any:
    """Return ``carry`` after ``steps`` calls of ``carry = step(i, carry)``.

    If ``max_steps`` is given and ``steps`` is an array, the loop always has length ``max_steps`` and
    ignores the results beyond ``steps``. A fixed length is faster under ``vmap`` and on a GPU.
    """
    if isinstance(steps, int) or max_steps is None:
        return lax.fori_loop(0, steps, step, carry)

    def masked(i: Array, carry: Any) -> Any:
        return optax.tree.where(i < steps, step(i, carry), carry)

    return lax.fori_loop(0, max_steps, masked, carry)


def available_steps(batches: Batch) -> int | None:
    """Return the number of minibatches in ``batches``, or None for a ``Partial``."""
    return None if isinstance(batches, Partial) else len(jax.tree.leaves(batches)[0])


def batch_at(batches: Batch, i: Array) -> Batch:
    """Return the minibatch of step ``i``, from a ``Partial`` or from arrays (E, ...)."""
    if isinstance(batches, Partial):
        return batches(i)
    return jax.tree.map(lambda all_steps: all_steps[i], batches)
