"""The part of a method that parties apply, sent by the server in every round: η, σ, λ, ψ and more.

Because the server sends it, server and parties cannot disagree. A party computes with NumPy alone:
Flower starts a new process for every message, and importing JAX takes about a second.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import numpy as np

from fedplus._pull import ParameterPull
from fedplus._types import Layout, NumpyArray
from fedplus.check import require, require_number
from fedplus.parameter_groups import ByLayer, ParameterGroups
from fedplus.psi import L1, L2, AbstractPsi, Anchor, Blocks, Quadratic, Zero

PREFIX = "fedplus-"
PSI, PRIVATE = f"{PREFIX}psi", f"{PREFIX}private"
SETTINGS, STEPS = ("eta", "sigma", "lam"), ("begin_step", "end_step")
SYMBOLS = {"eta": "η", "sigma": "σ", "lam": "λ"}
PSI_CLASSES: dict[str, type[AbstractPsi]] = {
    psi.__name__: psi for psi in (Zero, Anchor, Quadratic, L2, L1)
}
"""The classes of ψ that a server can send, by name."""
WITHOUT_DELTA = (Zero, Anchor)


class LocalRule(NamedTuple):
    """The start, the anchor and the pull of a party's steps in one round.

    Attributes:
        eta: η, the largest of all layers.
        lam: λ of each entry of the shared layers, or of all: the weight of w̃ in the start.
        pulls: How a step moves each parameter, by name; also the private ones.
        private: The names of the parameters that never leave the party.
        prox: The proximal operator of ψ, on the flat vector of the shared layers.
    """

    eta: float
    lam: Any
    pulls: dict[str, ParameterPull]
    private: tuple[str, ...]
    prox: Callable[[NumpyArray], NumpyArray]

    @property
    def kappa(self) -> float | dict[str, float]:
        """κ = 1/(1 + ησ), by name if it differs between parameters."""
        by_name = {name: pull.kappa for name, pull in self.pulls.items()}
        return by_name if len(set(by_name.values())) > 1 else next(iter(by_name.values()))

    @property
    def last_begin(self) -> float:
        """The number of steps after which all layers have begun that are trained at all."""
        return max(
            (p.begin for p in self.pulls.values() if p.share > 0 and p.begin < p.end), default=0
        )

    def anchor(self, w_k: NumpyArray, w_global: NumpyArray) -> NumpyArray:
        """Return w̃ + v_k of the shared layers, the point to which each step is pulled."""
        theta = self.prox(w_k - w_global)  # Alg. 1, l. 11
        return w_global + theta

    def start(self, w_k: NumpyArray, w_global: NumpyArray) -> NumpyArray:
        """Return the shared layers of the model from which the steps start."""
        start: NumpyArray = (1 - self.lam) * w_k + self.lam * w_global  # l. 12
        return start


def rule_to_message(method: Any) -> dict[str, str | float | list[str]]:
    """Return the settings of a method for Flower's message.

    A ψ that the user wrote cannot be sent; the result then has no entry for it.

    Args:
        method: A ``FedPlus`` without schedules (see ``schedules.at_round``).
    """
    local, config = method.local, dict[str, str | float | list[str]]()
    for name in (*SETTINGS, *STEPS):
        value = getattr(local, name)
        if value is not None:
            config[_key(name)] = _to_message(value)
    if method.private is not None:
        config[PRIVATE] = list(method.private.names)
    psi = method.shared_psi
    parts = getattr(psi, "parts", {"*": psi})  # Only Blocks has parts.
    if all(type(part) in PSI_CLASSES.values() for part in parts.values()):
        entries = [
            [pattern, type(part).__name__, float(getattr(part, "delta", 0))]
            for pattern, part in parts.items()
        ]
        config[PSI] = json.dumps(entries)
    return config


def _key(setting: str) -> str:
    """Return the key of a setting in the message."""
    return PREFIX + setting.replace("_", "-")


def _to_message(value: Any) -> str | float:
    """Return a number, or a list of [pattern, number] as JSON if it differs between layers."""
    if not isinstance(value, ByLayer):
        return float(value)
    numbers = {pattern: float(number) for pattern, number in value.values.items()}
    if len(set(numbers.values())) == 1:
        return next(iter(numbers.values()))
    return json.dumps(list(numbers.items()))


def rule_from_message(
    config: Mapping[str, Any],
    layout: Layout,
    prox: Callable[[NumpyArray], NumpyArray] | None = None,
) -> LocalRule:
    """Return the rule of a round from the server's message.

    Args:
        config: The configuration in the message.
        layout: Names and sizes of the shared parameters, which the server sends.
        prox: The proximal operator of a ψ that cannot be sent. None: the message has ψ.

    Raises:
        SettingError: The message lacks a setting, or has a value that is not allowed.
    """
    private = tuple(map(str, config.get(PRIVATE, ())))
    names = [name for name, _ in layout] + list(private)
    eta, sigma, lam = (_by_name(config, name, names) for name in SETTINGS)
    begin, end = (
        _by_name(config, name, names) if _key(name) in config else dict.fromkeys(names, x)
        for name, x in zip(STEPS, (0.0, float("inf")), strict=True)
    )
    largest = max(eta.values())
    is_uniform = min(eta.values()) == largest
    pulls = {
        name: ParameterPull(
            # Private layers have no global model to move to.
            1.0 if name in private else 1 / (1 + eta[name] * sigma[name]),
            1.0 if is_uniform else eta[name] / largest, begin[name], end[name],
        )
        for name in names
    }  # fmt: skip
    has_one = len({lam[name] for name, _ in layout}) == 1
    weights = np.repeat([lam[name] for name, _ in layout], [size for _, size in layout])
    start_weight = lam[names[0]] if has_one else weights.astype(np.float32)
    return LocalRule(largest, start_weight, pulls, private, prox or _read_prox(config, layout))


def _by_name(config: Mapping[str, Any], setting: str, names: list[str]) -> dict[str, float]:
    """Return a setting of the message by name of a parameter, after a check of its values."""
    value, shown = config.get(_key(setting)), f"the server's {SYMBOLS.get(setting, setting)}"
    entries: dict[str, Any] = dict(json.loads(value)) if isinstance(value, str) else {"*": value}
    for number in entries.values():
        require_number(number, shown, least=0, most=1 if setting == "lam" else None)
    groups = ParameterGroups(tuple(entries), tuple((name, 1) for name in names), shown)
    return {name: float(entries[str(groups.pattern_of(name))]) for name in names}


def _read_prox(config: Mapping[str, Any], layout: Layout) -> Callable[[NumpyArray], NumpyArray]:
    """Return the proximal operator of the ψ in the message."""
    require(
        PSI in config, "ψ", "a message without ψ", "in the server's message",
        "If you wrote ψ yourself, give the party the server's method: Party(..., method=...).",
    )  # fmt: skip
    entries = json.loads(str(config[PSI]))
    parts = {pattern: _make_psi(name, delta) for pattern, name, delta in entries}
    prox: Any = Blocks(parts, layout).prox  # With NumPy arrays it returns NumPy arrays.
    return prox  # type: ignore[no-any-return]


def _make_psi(name: str, delta: float) -> AbstractPsi:
    """Return the ψ with this name and δ."""
    allowed = f"one of {', '.join(PSI_CLASSES)}"
    require(name in PSI_CLASSES, "the server's ψ", repr(name), allowed)
    psi_class: Any = PSI_CLASSES[name]
    if psi_class in WITHOUT_DELTA:
        return cast(AbstractPsi, psi_class())
    require_number(delta, "the server's δ", above=0)
    return cast(AbstractPsi, psi_class(delta))


def prox_of_method(method: Any, layout: Layout, t: int) -> Callable[[NumpyArray], NumpyArray]:
    """Return the proximal operator in round t of a method that was given to the party directly.

    Raises:
        SettingError: ``method`` is not a ``FedPlus``, or has another layout than the server's model.
    """
    import jax

    from fedplus.algorithm import FedPlus
    from fedplus.schedules import at_round

    require(isinstance(method, FedPlus), "method", type(method).__name__, "a FedPlus")
    psi = at_round(method, t).shared_psi
    if isinstance(psi, Blocks):
        has_same = psi.layout == layout
        require(has_same, "method's layout", psi.layout, f"that of the server's model: {layout}")
    prox = jax.jit(psi.prox)  # So that JAX compiles one program, not one per operation.
    return lambda x: np.asarray(prox(x))
