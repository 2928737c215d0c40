"""The part of a method that parties apply, sent by the server in every round: η, σ, λ and ψ.

Because the server sends it, server and parties cannot disagree. A party computes with NumPy alone:
Flower starts a new process for every message, and importing JAX takes about a second.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import numpy as np

from fedplus._types import Host, Layout
from fedplus.check import require, require_number
from fedplus.psi import L1, L2, AbstractPsi, Anchor, Blocks, Quadratic, Zero

SETTINGS, PSI = ("eta", "sigma", "lam"), "psi"
PREFIX = "fedplus-"
PSI_CLASSES: dict[str, type[AbstractPsi]] = {
    psi.__name__: psi for psi in (Zero, Anchor, Quadratic, L2, L1)
}
"""The classes of ψ that a server can send, by name."""
WITHOUT_DELTA = (Zero, Anchor)


class LocalRule(NamedTuple):
    """The start and the anchor of a party's steps, with the settings of the method.

    Attributes:
        eta: Learning rate η.
        sigma: Strength σ of the pull.
        lam: λ, the weight of w̃ in the start.
        prox: The proximal operator of ψ, on a flat vector.
    """

    eta: float
    sigma: float
    lam: float
    prox: Callable[[Host], Host]

    @property
    def kappa(self) -> float:
        """κ = 1/(1 + ησ)."""
        return 1 / (1 + self.eta * self.sigma)

    def anchor(self, w_k: Host, w_global: Host) -> Host:
        """Return w̃ + v_k, the point to which each step is pulled."""
        theta = self.prox(w_k - w_global)  # Alg. 1, l. 11
        return w_global + theta

    def start(self, w_k: Host, w_global: Host) -> Host:
        """Return the model from which the steps start."""
        return (1 - self.lam) * w_k + self.lam * w_global  # l. 12


def rule_to_message(local: Any) -> dict[str, str | float]:
    """Return the settings of a ``LocalSolve`` for Flower's message.

    A ψ that the user wrote cannot be sent; the result then has no entry for it.
    """
    config: dict[str, str | float] = {
        f"{PREFIX}{name}": float(getattr(local, name)) for name in SETTINGS
    }
    parts = getattr(local.psi, "parts", {"*": local.psi})  # Only Blocks has parts.
    if all(type(part) in PSI_CLASSES.values() for part in parts.values()):
        entries = [
            [pattern, type(part).__name__, float(getattr(part, "delta", 0))]
            for pattern, part in parts.items()
        ]
        config[f"{PREFIX}{PSI}"] = json.dumps(entries)
    return config


def rule_from_message(config: Mapping[str, Any], layout: Layout) -> LocalRule:
    """Return the rule of a round from the server's message.

    Args:
        config: The configuration in the message.
        layout: Names and sizes of the model's parameters.

    Raises:
        SettingError: The message lacks a setting, or has a value that is not allowed.
    """
    settings = {name: config.get(f"{PREFIX}{name}") for name in (*SETTINGS, PSI)}
    require(
        settings[PSI] is not None, "ψ", "a message without ψ", "in the server's message",
        "If you wrote ψ yourself, give the party the server's method: Party(..., method=...).",
    )  # fmt: skip
    require_number(settings["eta"], "the server's η", above=0)
    require_number(settings["sigma"], "the server's σ", least=0)
    require_number(settings["lam"], "the server's λ", least=0, most=1)
    eta, sigma, lam = (float(str(settings[name])) for name in SETTINGS)
    entries = json.loads(str(settings[PSI]))
    parts = {pattern: _make_psi(name, delta) for pattern, name, delta in entries}
    prox: Any = Blocks(parts, layout).prox  # With NumPy arrays it returns NumPy arrays.
    return LocalRule(eta, sigma, lam, prox)


def _make_psi(name: str, delta: float) -> AbstractPsi:
    """Return the ψ with this name and δ."""
    allowed = f"one of {', '.join(PSI_CLASSES)}"
    require(name in PSI_CLASSES, "the server's ψ", repr(name), allowed)
    psi_class: Any = PSI_CLASSES[name]
    if psi_class in WITHOUT_DELTA:
        return cast(AbstractPsi, psi_class())
    require_number(delta, "the server's δ", above=0)
    return cast(AbstractPsi, psi_class(delta))


def rule_from_method(method: Any) -> LocalRule:
    """Return the rule of a method that was given to the party directly.

    Raises:
        SettingError: ``method`` is not a ``FedPlus``.
    """
    import jax

    from fedplus.algorithm import FedPlus

    require(isinstance(method, FedPlus), "method", type(method).__name__, "a FedPlus")
    local = method.local
    prox = jax.jit(local.psi.prox)  # So that JAX compiles one program, not one per operation.
    return LocalRule(
        float(local.eta), float(local.sigma), float(local.lam), lambda x: np.asarray(prox(x))
    )
