"""What a party needs to know of a method, sent by the server with every round: η, σ, λ and ψ.

So the two cannot disagree, and a party's process computes with NumPy alone: Flower starts one for
every message, and JAX would take a second of each.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from fedplus._check import require, require_number
from fedplus._prox import PROX, owner
from fedplus._types import Host, Layout

SETTINGS, PSI = ("eta", "sigma", "lam"), "psi"
PREFIX = "fedplus-"


class Rule(NamedTuple):
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


def sent(local: Any) -> dict[str, str | float]:
    """The configuration that tells a party of a ``LocalSolve``; without ψ if it is the user's own."""
    told: dict[str, str | float] = {
        f"{PREFIX}{name}": float(getattr(local, name)) for name in SETTINGS
    }
    parts = getattr(local.psi, "parts", {"*": local.psi})  # Of Blocks.
    if all(_is_known(part) for part in parts.values()):
        listed = [
            [pattern, type(part).__name__, float(getattr(part, "delta", 0))]
            for pattern, part in parts.items()
        ]
        told[f"{PREFIX}{PSI}"] = json.dumps(listed)
    return told


def _is_known(psi: Any) -> bool:
    """Whether it is one of ours that a party can compute by its name."""
    return type(psi).__module__.startswith("fedplus.psi.") and type(psi).__name__ in PROX


def of_server(config: Mapping[str, Any], layout: Layout) -> Rule:
    """The rule of a round, as the server tells it.

    Raises:
        SettingError: It does not tell, or what no method has.
    """
    told = {name: config.get(f"{PREFIX}{name}") for name in (*SETTINGS, PSI)}
    require(
        told[PSI] is not None, "the server's message", "none with ψ", "one that tells ψ",
        "For a ψ of your own give the party the method, as the server has it: Party(..., method=...).",
    )  # fmt: skip
    require_number(told["eta"], "the server's η", above=0)
    require_number(told["sigma"], "the server's σ", least=0)
    require_number(told["lam"], "the server's λ", least=0, most=1)
    parts = json.loads(str(told[PSI]))
    for _, name, delta in parts:
        require(name in PROX, "the server's ψ", repr(name), f"one of {', '.join(PROX)}")
        require_number(delta, "the server's δ", least=0)
    eta, sigma, lam = (float(str(told[name])) for name in SETTINGS)
    return Rule(eta, sigma, lam, _blockwise(parts, layout))


def of_method(method: Any) -> Rule:
    """The rule of a method that the party has itself."""
    import jax

    from fedplus.algorithm import FedPlus

    require(isinstance(method, FedPlus), "method", type(method).__name__, "a FedPlus")
    local = method.local
    prox = jax.jit(local.psi.prox)  # One program, not one for each operation.
    return Rule(
        float(local.eta), float(local.sigma), float(local.lam), lambda x: np.asarray(prox(x))
    )


def _blockwise(parts: list[tuple[str, str, float]], layout: Layout) -> Callable[[Host], Host]:
    """All parameters of a pattern are one vector, as in ``psi.Blocks``."""
    patterns = [pattern for pattern, _, _ in parts]
    owners = [owner(name, patterns) for name, _ in layout]
    known = None not in owners
    require(known, "the server's ψ", ", ".join(patterns), "one with a pattern for every parameter")
    of_entries = np.repeat([patterns.index(str(one)) for one in owners], [n for _, n in layout])

    def prox(x: Host) -> Host:
        theta = np.empty_like(x)
        for i, (_, name, delta) in enumerate(parts):
            mine = of_entries == i
            theta[mine] = PROX[name](x[mine], np.float32(delta), np)
        return theta

    return prox
