"""Server optimizers: how the global model moves towards the aggregate of the parties' models.

Without one, w̃ becomes 𝒜(W). With one, the server treats Δ = 𝒜(W) − w̃ as a direction of descent, as in
"Adaptive Federated Optimization" (Reddi et al., ICLR 2021).
"""

from abc import ABC, abstractmethod
from typing import Any, Literal, NamedTuple, final

import jax
import jax.numpy as jnp
import optax
from typing_extensions import override

from fedplus._types import Array, Vector, settings, static_field
from fedplus.check import require, require_learning_rate, require_number


class AbstractServerOptimizer(ABC):
    """A rule by which w̃ moves along Δ = 𝒜(W) − w̃. Its methods are pure functions of a state."""

    @abstractmethod
    def init(self, w: Vector) -> Any:
        """Return the state before the first round.

        Args:
            w: The shared part of the first model.
        """

    @abstractmethod
    def step(self, w: Vector, aggregate: Vector, state: Any) -> tuple[Vector, Any]:
        """Return the next w̃ and the next state.

        Args:
            w: (d,), w̃.
            aggregate: (d,), 𝒜(W).
            state: What ``init`` or the last ``step`` returned.
        """


class Moments(NamedTuple):
    """The state of ``AdaptiveServer``."""

    first: Vector
    """(d,): m, the running average of Δ."""
    second: Vector
    """(d,): v, the running average of Δ² or, for Adagrad, their sum."""


@final
@settings
class AdaptiveServer(AbstractServerOptimizer):
    r"""FedAdam, FedYogi and FedAdagrad: a step size for each coordinate.

    .. math:: m \gets \beta_1 m + (1-\beta_1)\Delta, \qquad
              \tilde w \gets \tilde w + \eta_s\,m / (\sqrt v + \tau)

    where v ← β₂v + (1 − β₂)Δ² (Adam), v ← v − (1 − β₂)Δ² sign(v − Δ²) (Yogi) or v ← v + Δ² (Adagrad).
    As in the paper, moments have no bias correction, and v begins at τ².

    Args:
        rule: "adam", "yogi" or "adagrad".
        eta: The server's learning rate η_s > 0.
        beta1: β₁ in [0, 1), the share of the last average of Δ.
        beta2: β₂ in [0, 1), the same for its square; Adagrad does not use it.
        tau: τ > 0, which bounds the step where v is small.

    Paper: Reddi et al., Adaptive Federated Optimization, ICLR 2021, Algorithm 2.
    """

    rule: Literal["adam", "yogi", "adagrad"] = static_field()
    eta: float
    beta1: float = 0.9
    beta2: float = 0.99
    tau: float = 1e-3

    def __post_init__(self) -> None:
        is_known = self.rule in ("adam", "yogi", "adagrad")
        require(is_known, "AdaptiveServer.rule", repr(self.rule), '"adam", "yogi" or "adagrad"')
        require_learning_rate(self.eta, "AdaptiveServer.eta", "It is the server's learning rate.")
        for name in ("beta1", "beta2"):
            require_number(getattr(self, name), f"AdaptiveServer.{name}", least=0, below=1)
        require_number(self.tau, "AdaptiveServer.tau", above=0)

    @override
    def init(self, w: Vector) -> Moments:
        return Moments(jnp.zeros_like(w), jnp.full_like(w, jnp.square(jnp.asarray(self.tau))))

    @override
    def step(self, w: Vector, aggregate: Vector, state: Moments) -> tuple[Vector, Moments]:
        direction = aggregate - w
        square = direction**2
        first = self.beta1 * state.first + (1 - self.beta1) * direction
        second: Array = state.second
        if self.rule == "adam":
            second = self.beta2 * second + (1 - self.beta2) * square
        elif self.rule == "yogi":
            second = second - (1 - self.beta2) * square * jnp.sign(second - square)
        else:
            second = second + square
        return w + self.eta * first / (jnp.sqrt(second) + self.tau), Moments(first, second)


@final
@settings
class MomentumServer(AbstractServerOptimizer):
    r"""FedAvgM: heavy-ball momentum on the server.

    .. math:: m \gets \beta m + \Delta, \qquad \tilde w \gets \tilde w + \eta_s m

    Args:
        eta: The server's learning rate η_s > 0; with 1 and β = 0, w̃ becomes 𝒜(W).
        beta: β in [0, 1), the share of the last step that is repeated.

    Paper: Hsu, Qi and Brown, Measuring the Effects of Non-Identical Data Distribution, 2019.
    """

    eta: float = 1.0
    beta: float = 0.9

    def __post_init__(self) -> None:
        require_learning_rate(self.eta, "MomentumServer.eta", "It is the server's learning rate.")
        require_number(self.beta, "MomentumServer.beta", least=0, below=1)

    @override
    def init(self, w: Vector) -> Vector:
        return jnp.zeros_like(w)

    @override
    def step(self, w: Vector, aggregate: Vector, state: Vector) -> tuple[Vector, Vector]:
        momentum = self.beta * state + (aggregate - w)
        return w + self.eta * momentum, momentum


@final
@settings
class OptaxServer(AbstractServerOptimizer):
    """Any Optax transformation, which gets −Δ as the gradient.

    Args:
        optimizer: The transformation, with its learning rate, such as ``optax.adam(0.01)``.
    """

    optimizer: optax.GradientTransformation = static_field()

    def __post_init__(self) -> None:
        is_valid = isinstance(self.optimizer, optax.GradientTransformation)
        require(
            is_valid, "OptaxServer.optimizer", repr(self.optimizer), "an Optax transformation",
            "E.g. optax.adam(0.01).",
        )  # fmt: skip

    @override
    def init(self, w: Vector) -> Any:
        return self.optimizer.init(w)

    @override
    def step(self, w: Vector, aggregate: Vector, state: Any) -> tuple[Vector, Any]:
        update, state = self.optimizer.update(w - aggregate, state, w)
        return optax.apply_updates(w, update), jax.tree.map(jnp.asarray, state)
