"""Local-Solve, the training of one party in a round: lines 11–14 of the paper's Algorithm 1."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias, final

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.tree_util import Partial

from fedplus._optimizer_check import require_no_schedule, require_no_schedule_state
from fedplus._types import Array, Vector, settings, static_field
from fedplus.check import lookup, require, require_bool, require_learning_rate, require_number
from fedplus.kappa import warn_of_unusual_kappa
from fedplus.parameter_groups import per_entry
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


OPTIMIZERS: dict[str, Callable[..., optax.GradientTransformation]] = {
    "sgd": optax.sgd,
    "momentum": partial(optax.sgd, momentum=0.9),
    "nesterov": partial(optax.sgd, momentum=0.9, nesterov=True),
    "adam": optax.adam,
    "adamw": optax.adamw,
    "adagrad": optax.adagrad,
    "rmsprop": optax.rmsprop,
    "yogi": optax.yogi,
}
"""The optimizers by name: functions from a learning rate to an Optax transformation."""


@final
@settings
class LocalSolve:
    r"""E_k gradient steps on f_k, each followed by a move towards the anchor w̃ + v_k.

    .. math:: w_k \gets \kappa\,[w_k - \eta\nabla f_k(w_k)] + (1-\kappa)\,[\tilde w + v_k],
              \qquad \kappa = 1/(1 + \eta\sigma)

    Each of ψ, η, σ and λ may differ between layers (``Blocks``, ``ByLayer``; see ``fedplus.Layers``),
    and each number may be a schedule over the rounds (``fedplus.schedules``).

    Args:
        psi: The regulariser ψ, which determines the personal part v_k = prox(w_k − w̃).
        eta: Learning rate η > 0. A layer with η = 0 is not trained, and a schedule may reach 0.
        sigma: Penalty constant σ ≥ 0; with 0, steps do not move towards the anchor.
        lam: λ in [0, 1], where the steps start: 0 at the party's own model (Fed+), 1 at w̃ (FedAvg).
        optimizer: What replaces the gradient step: "sgd", "momentum", "nesterov", "adam", "adamw",
            "adagrad", "rmsprop" or "yogi", or a function from a learning rate to an Optax
            transformation, such as ``optax.adam``. Its updates for the learning rate 1 are multiplied
            by η.
        keep_optimizer_state: False: every round begins with a new state, so a party stores nothing and
            an Optax schedule is rejected, because it would begin again in every round. True: each party
            keeps its state from round to round, and an Optax schedule counts the party's own steps.
        begin_step: The step of a round from which on a layer is trained. None: the first.
        end_step: The step of a round from which on a layer is no longer trained. None: it is trained to
            the end of the round.

    Paper: Alg. 1, l. 11–14; Proposition 1.
    """

    psi: AbstractPsi
    eta: Any
    sigma: Any = 0.0
    lam: Any = 0.0
    optimizer: str | Callable[[float], optax.GradientTransformation] = static_field(default="sgd")
    keep_optimizer_state: bool = static_field(default=False)
    begin_step: Any = None
    end_step: Any = None

    def __post_init__(self) -> None:
        require(
            isinstance(self.psi, AbstractPsi),
            "LocalSolve.psi",
            repr(self.psi),
            "a regulariser ψ from fedplus.psi, e.g. L2(0.1)",
        )
        require_learning_rate(self.eta, "LocalSolve.eta")
        require_number(self.sigma, "LocalSolve.sigma", least=0, advice="0 means κ = 1.")
        require_number(
            self.lam,
            "LocalSolve.lam",
            least=0,
            most=1,
            advice="λ mixes w_k with w̃ (Alg. 1, l. 12); Fed+ takes 0, FedAvg 1.",
        )
        require_bool("LocalSolve.keep_optimizer_state", self.keep_optimizer_state)
        for name in ("begin_step", "end_step"):
            if getattr(self, name) is not None:
                require_number(getattr(self, name), f"LocalSolve.{name}", least=0)
        transformation = make_optimizer(self.optimizer)
        # Optimizers with a name have none. The check would make JAX choose its devices.
        if not (self.keep_optimizer_state or isinstance(self.optimizer, str)):
            require_no_schedule(transformation, "LocalSolve.optimizer")
        warn_of_unusual_kappa(self.eta, self.sigma)

    @property
    def kappa(self) -> Any:
        """κ = 1/(1 + ησ), the share of the gradient step's result in line 13; 1 − κ is the anchor's."""
        return 1 / (1 + per_entry(self.eta) * per_entry(self.sigma))

    def init_optimizer(self, w: Vector) -> Vector:
        """Return the state of a party's optimizer at the model w, raveled."""
        state = make_optimizer(self.optimizer).init(w)
        flat: Vector = ravel_pytree(state)[0]
        return flat.astype(w.dtype)

    def __call__(
        self, w_k: Vector, w_global: Vector, batches: Batch, steps: Array | int, grad: Grad
    ) -> Vector:
        """Return the party's model w_k after E_k steps, with a new optimizer state.

        Args:
            w_k: (d,), the party's own model.
            w_global: (d,), w̃.
            batches: One minibatch per step: a pytree of arrays (E, ...) with E ≥ E_k, or a
                ``jax.tree_util.Partial`` that maps a step's index to its minibatch.
            steps: E_k.
            grad: (w, batch) ↦ ∇f_k(w) on that batch.
        """
        return self.solve(w_k, w_global, batches, steps, grad)[0]

    def solve(
        self,
        w_k: Vector,
        w_global: Vector,
        batches: Batch,
        steps: Array | int,
        grad: Grad,
        optimizer_row: Vector | None = None,
        scale: Any = 1.0,
    ) -> tuple[Vector, Vector | None]:
        """Return the party's model w_k after E_k steps, and the state of its optimizer.

        Args:
            w_k: (d,), the party's own model.
            w_global: (d,), w̃.
            batches: As in ``__call__``.
            steps: E_k.
            grad: (w, batch) ↦ ∇f_k(w) on that batch.
            optimizer_row: The state that the last call returned. None: a new one, not returned.
            scale: A factor of η, below 1 if the steps diverged and are repeated.
        """
        optimizer = make_optimizer(self.optimizer)
        gradient, unravel, ravel = with_parameter_shapes(grad)
        v_k = self.psi.prox(w_k - w_global)  # Alg. 1, l. 11
        first = unravel(self.start(w_k, w_global))  # l. 12
        anchor = unravel(w_global + v_k)
        eta_of_entry = scale * per_entry(self.eta)
        kappa_of_entry = 1 / (1 + eta_of_entry * per_entry(self.sigma))
        eta, kappa = (_per_parameter(x, first, unravel) for x in (eta_of_entry, kappa_of_entry))
        select_trained = self._select_trained(first, unravel)

        def step(i: Array, carry: tuple[Params, Any]) -> tuple[Params, Any]:  # l. 13
            w, optimizer_state = carry
            g = gradient(w, batch_at(batches, i))
            g = select_trained(i, g, jax.tree.map(jnp.zeros_like, g))
            update, optimizer_state = optimizer.update(g, optimizer_state, w)
            # w − η∇f_k(w): the sign is in the update, which for "sgd" is −∇f_k(w).
            descended = jax.tree.map(_add_scaled, w, eta, update)
            moved = jax.tree.map(_blend, kappa, descended, anchor)
            return select_trained(i, moved, w), optimizer_state

        if optimizer_row is None:
            optimizer_state, pack = optimizer.init(first), None
            if not self.keep_optimizer_state:
                require_no_schedule_state(optimizer_state, "LocalSolve.optimizer")
        else:
            optimizer_state, pack = _unpack_state(optimizer, optimizer_row, w_k, unravel)
        carry = first, optimizer_state
        solved, optimizer_state = repeat_steps(step, steps, carry, available_steps(batches))
        return ravel(solved), None if pack is None else pack(optimizer_state)  # l. 14

    def start(self, w_k: Vector, w_global: Vector) -> Vector:
        """Return the model at which the party's steps start (Alg. 1, l. 12)."""
        lam = per_entry(self.lam)
        mixed: Array = (1 - lam) * w_k + lam * w_global
        return mixed

    def _select_trained(
        self, params: Params, unravel: Callable[[Vector], Params]
    ) -> Callable[[Array, Params, Params], Params]:
        """Return the function (i, new, old) ↦ the new values of the layers that step i trains."""
        if self.begin_step is None and self.end_step is None:
            return lambda i, new, old: new
        limits = ((self.begin_step, 0), (self.end_step, jnp.inf))
        begin, end = (
            _per_parameter(default if x is None else per_entry(x), params, unravel)
            for x, default in limits
        )

        def select(i: Array, new: Params, old: Params) -> Params:
            return jax.tree.map(
                lambda b, e, x, y: jnp.where((b <= i) & (i < e), x, y), begin, end, new, old
            )

        return select


def make_optimizer(
    optimizer: str | Callable[[float], optax.GradientTransformation],
    setting: str = "LocalSolve.optimizer",
) -> optax.GradientTransformation:
    """Return an optimizer's Optax transformation, for the learning rate 1.

    Raises:
        SettingError: It is neither a name of ``OPTIMIZERS`` nor a function of a learning rate.
    """
    make = lookup(optimizer, OPTIMIZERS, "optimizer") if isinstance(optimizer, str) else optimizer
    require(
        callable(make), setting, type(optimizer).__name__,
        "a name or a function from a learning rate to an Optax transformation",
        "E.g. optimizer=optax.adam with eta=0.001, instead of optimizer=optax.adam(0.001).",
    )  # fmt: skip
    return make(1.0)


def _unpack_state(
    optimizer: optax.GradientTransformation, row: Vector, w: Vector,
    unravel: Callable[[Vector], Params],
) -> tuple[Any, Callable[[Any], Vector]]:  # fmt: skip
    """Return an optimizer's state from a raveled one, and the function that ravels it again."""
    flat, unravel_state = ravel_pytree(optimizer.init(unravel(w)))
    require(
        flat.size == row.size, "LocalSolve.optimizer",
        f"one with {row.size} numbers for flat and {flat.size} for shaped parameters",
        "an optimizer whose state has the same size whether parameters are flat or shaped",
        "Others, such as optax.adafactor, cannot be used with keep_optimizer_state.",
    )  # fmt: skip
    return unravel_state(row.astype(flat.dtype)), lambda state: ravel_pytree(state)[0].astype(
        row.dtype
    )


def _per_parameter(x: Any, params: Params, unravel: Callable[[Vector], Params]) -> Params:
    """Return a number, or one number per entry, for each parameter."""
    if jnp.ndim(x) == 0:
        return jax.tree.map(lambda _: x, params)
    return unravel(jnp.asarray(x, jnp.result_type(float)))


def _add_scaled(w: Array, scale: Any, update: Array) -> Array:
    moved: Array = (w + scale * update).astype(w.dtype)
    return moved


def _blend(share: Any, new: Array, old: Array) -> Array:
    """Return share · new + (1 − share) · old."""
    mixed: Array = (share * new + (1 - share) * old).astype(new.dtype)
    return mixed


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
