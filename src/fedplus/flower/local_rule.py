"""What a party needs to know of a method, sent by the server with every round: η, σ, λ and ψ.

So the two cannot disagree, and a party's process computes with NumPy alone: Flower starts one for
every message, and JAX would take a second of each.
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
KNOWN: dict[str, type[AbstractPsi]] = {
    psi.__name__: psi for psi in (Zero, Anchor, Quadratic, L2, L1)
}
"""Every ψ that a server can send by name."""
WITHOUT_DELTA = (Zero, Anchor)


class LocalRule(NamedTuple):
    """How a party's steps begin, and what they are pulled to."""

    eta: float
    sigma: float
    lam: float
    prox: Callable[[Host], Host]
    """Of ψ, on a flat vector."""

    @property
    def kappa(self) -> float:
        """κ = 1/(1 + ησ)."""
        return 1 / (1 + self.eta * self.sigma)

    def anchor(self, w_k: Host, w_global: Host) -> Host:
        """w̃ + v_k, what each step is pulled to."""
        theta = self.prox(w_k - w_global)  # Alg. 1, l. 11
        return w_global + theta

    def start(self, w_k: Host, w_global: Host) -> Host:
        """Where the steps start from."""
        return (1 - self.lam) * w_k + self.lam * w_global  # l. 12


def rule_message(local: Any) -> dict[str, str | float]:
    """Return the settings of a ``LocalSolve`` for Flower's message, without ψ if the user wrote it."""
    told: dict[str, str | float] = {
        f"{PREFIX}{name}": float(getattr(local, name)) for name in SETTINGS
    }
    parts = getattr(local.psi, "parts", {"*": local.psi})  # Of Blocks.
    if all(type(part) in KNOWN.values() for part in parts.values()):
        listed = [
            [pattern, type(part).__name__, float(getattr(part, "delta", 0))]
            for pattern, part in parts.items()
        ]
        told[f"{PREFIX}{PSI}"] = json.dumps(listed)
    return told


def rule_from_message(config: Mapping[str, Any], layout: Layout) -> LocalRule:
    """Return the rule of a round from the server's message.

    Raises:
        SettingError: The message lacks a setting, or no method has such a setting.
    """
    told = {name: config.get(f"{PREFIX}{name}") for name in (*SETTINGS, PSI)}
    require(
        told[PSI] is not None, "the server's message", "none with ψ", "one that tells ψ",
        "For a ψ of your own give the party the method, as the server has it: Party(..., method=...).",
    )  # fmt: skip
    require_number(told["eta"], "the server's η", above=0)
    require_number(told["sigma"], "the server's σ", least=0)
    require_number(told["lam"], "the server's λ", least=0, most=1)
    eta, sigma, lam = (float(str(told[name])) for name in SETTINGS)
    parts = {pattern: _psi(name, delta) for pattern, name, delta in json.loads(str(told[PSI]))}
    prox: Any = Blocks(parts, layout).prox  # NumPy arrays give NumPy arrays.
    return LocalRule(eta, sigma, lam, prox)


def _psi(name: str, delta: float) -> AbstractPsi:
    """Return the ψ of that name and δ."""
    require(name in KNOWN, "the server's ψ", repr(name), f"one of {', '.join(KNOWN)}")
    kind: Any = KNOWN[name]
    if kind in WITHOUT_DELTA:
        return cast(AbstractPsi, kind())
    require_number(delta, "the server's δ", above=0)
    return cast(AbstractPsi, kind(delta))


def rule_from_method(method: Any) -> LocalRule:
    """Return the rule of a method that the party was given itself."""
    import jax

    from fedplus.algorithm import FedPlus

    require(isinstance(method, FedPlus), "method", type(method).__name__, "a FedPlus")
    local = method.local
    prox = jax.jit(local.psi.prox)  # One program, not one for each operation.
    return LocalRule(
        float(local.eta), float(local.sigma), float(local.lam), lambda x: np.asarray(prox(x))
    )
