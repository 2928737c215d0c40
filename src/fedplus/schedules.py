"""Settings that depend on the round: a learning rate that decays, or λ = 1 for the first rounds only.

A schedule stands in the place of a number in any method:

>>> from fedplus import presets
>>> method = presets.fedgeomed_plus(eta=Cosine(0.1, 0.01, rounds=50), sigma=1.0, lam=WarmUp(rounds=15))
>>> at_round(method, 0).local.lam, at_round(method, 15).local.lam
(1.0, 0.0)

So does a function of the round, such as an Optax schedule. The simulator and the server of a deployment
call ``at_round`` before each round; so must your own loop.
"""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any, TypeVar, final

import numpy as np
from typing_extensions import override

from fedplus._backend import namespace
from fedplus._types import FIELD_HOOKS, settings, static_field
from fedplus.check import require, require_integer, require_number

T = TypeVar("T")
CHECKED_ROUNDS = (*range(11), 100, 1000, 10_000, 100_000)
"""The rounds at which the values of a schedule are checked."""
SHOWN_ROUNDS = (0, 1, 10, 100, 1000)
"""The rounds whose values stand for a function of the round."""


class AbstractSchedule(ABC):
    """A number that depends on the round t = 0, 1, ..."""

    @abstractmethod
    def __call__(self, t: Any) -> Any:
        """Return the value in round t, a number or, for a traced t, an array."""

    @property
    @abstractmethod
    def constant_from(self) -> float:
        """The first round from which on the value stays the same; infinite if this is not known."""

    @property
    def sampled_values(self) -> list[Any]:
        """The values in some rounds, for ``check.require_number``."""
        rounds = {t for t in CHECKED_ROUNDS if t <= self.constant_from}
        if self.constant_from < float("inf"):
            rounds.add(int(self.constant_from))
        return [self(t) for t in sorted(rounds)]


@final
@settings
class Linear(AbstractSchedule):
    """A linear change from ``first`` in round 0 to ``last``, which it reaches after ``rounds`` rounds.

    Args:
        first: The value in round 0.
        last: The value from round ``rounds`` on.
        rounds: The number of rounds until then.

    >>> [float(Linear(1.0, 0.0, rounds=4)(t)) for t in range(6)]
    [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]
    """

    first: float
    last: float
    rounds: int

    def __post_init__(self) -> None:
        _require_settings(self, "first", "last")

    @override
    def __call__(self, t: Any) -> Any:
        share = namespace(t, self.rounds).clip(t / self.rounds, 0, 1)
        return (1 - share) * self.first + share * self.last

    @property
    @override
    def constant_from(self) -> float:
        return float(self.rounds)


@final
@settings
class Cosine(AbstractSchedule):
    """A change along half a cosine wave, from ``first`` in round 0 to ``last`` after ``rounds`` rounds.

    Args:
        first: The value in round 0.
        last: The value from round ``rounds`` on.
        rounds: The number of rounds until then.

    >>> [round(float(Cosine(1.0, 0.0, rounds=4)(t)), 3) for t in range(6)]
    [1.0, 0.854, 0.5, 0.146, 0.0, 0.0]
    """

    first: float
    last: float
    rounds: int

    def __post_init__(self) -> None:
        _require_settings(self, "first", "last")

    @override
    def __call__(self, t: Any) -> Any:
        xp = namespace(t, self.rounds)
        rest = 0.5 * (1 + xp.cos(np.pi * xp.clip(t / self.rounds, 0, 1)))
        return rest * self.first + (1 - rest) * self.last

    @property
    @override
    def constant_from(self) -> float:
        return float(self.rounds)


@final
@settings
class WarmUp(AbstractSchedule):
    """``first`` for some rounds, and ``then`` afterwards.

    For λ, the defaults are FedAvg's start at w̃ in the first rounds, and Fed+'s start at w_k afterwards.

    Args:
        rounds: The number of rounds with the first value.
        first: The value in these rounds.
        then: The value afterwards.

    >>> [float(WarmUp(rounds=2)(t)) for t in range(4)]
    [1.0, 1.0, 0.0, 0.0]
    """

    rounds: int
    first: float = 1.0
    then: float = 0.0

    def __post_init__(self) -> None:
        _require_settings(self, "first", "then", least=0)

    @override
    def __call__(self, t: Any) -> Any:
        return namespace(t, self.rounds).where(t < self.rounds, self.first, self.then)

    @property
    @override
    def constant_from(self) -> float:
        return float(self.rounds)


@final
@settings
class Inverse(AbstractSchedule):
    """``first`` / (1 + ``rate`` · t), a decreasing learning rate with which FedAvg converges.

    Args:
        first: The value in round 0.
        rate: How fast it decreases; with 1, it is half of ``first`` in round 1.

    Paper: Li et al., On the Convergence of FedAvg on Non-IID Data, ICLR 2020, uses η₀/(1 + t).

    >>> [float(Inverse(1.0)(t)) for t in (0, 1, 3)]
    [1.0, 0.5, 0.25]
    """

    first: float
    rate: float = 1.0

    def __post_init__(self) -> None:
        require_number(self.first, "Inverse.first")
        require_number(self.rate, "Inverse.rate", least=0)

    @override
    def __call__(self, t: Any) -> Any:
        return self.first / (1 + self.rate * t)

    @property
    @override
    def constant_from(self) -> float:
        return float("inf")


@final
@settings
class Function(AbstractSchedule):
    """Any function of the round. A method wraps a function that is given for a number in this class.

    Args:
        function: t ↦ the value, which JAX can trace.

    >>> Function(lambda t: 0.1 * 0.5**t)(1)
    0.05
    """

    function: Callable[[Any], Any] = static_field()

    def __post_init__(self) -> None:
        require(callable(self.function), "Function.function", repr(self.function), "a function")

    @override
    def __repr__(self) -> str:
        return _show_values(self)

    @override
    def __call__(self, t: Any) -> Any:
        return self.function(t)

    @property
    @override
    def constant_from(self) -> float:
        return float("inf")


@final
@settings
class Combination(AbstractSchedule):
    """A function of several settings, of which some are schedules; see ``combine``.

    Args:
        function: The function of the settings' values.
        inputs: The settings.
    """

    function: Callable[..., Any] = static_field()
    inputs: tuple[Any, ...]

    @override
    def __repr__(self) -> str:
        return _show_values(self)

    @override
    def __call__(self, t: Any) -> Any:
        return self.function(*at_round(self.inputs, t))

    @property
    @override
    def constant_from(self) -> float:
        return constant_from(self.inputs)


def _show_values(schedule: AbstractSchedule) -> str:
    """Return some values of a function of the round, whose name does not tell them.

    A run that is resumed, or a federation that continues, compares them with those of before.
    """
    values = ", ".join(f"{float(schedule(t)):.6g} in round {t}" for t in SHOWN_ROUNDS)
    return f"{type(schedule).__name__}({values})"


def combine(function: Callable[..., Any], *inputs: Any) -> Any:
    """Return ``function(*inputs)``; if an input is a schedule, the schedule of these values.

    Args:
        function: The function, of as many numbers as there are inputs.
        inputs: Numbers, schedules or functions of the round.

    >>> import operator
    >>> combine(operator.mul, 2.0, 3.0), combine(operator.mul, Inverse(1.0), 3.0)(1)
    (6.0, 1.5)
    """
    wrapped = tuple(wrap_function(x) for x in inputs)
    return Combination(function, wrapped) if schedules_of(wrapped) else function(*wrapped)


def wrap_function(value: Any) -> Any:
    """Return a function of the round as a ``Function``, and other values as they are."""
    return Function(value) if isinstance(value, (FunctionType, partial)) else value


def _wrap_functions(obj: Any) -> None:
    """Replace each function that was given for a number by a ``Function``.

    Raises:
        SettingError: A static field, which cannot change during a run, has a schedule.
    """
    for field in dataclasses.fields(obj):
        value, is_static = getattr(obj, field.name), field.metadata.get("static")
        name = f"{type(obj).__name__}.{field.name}"
        require(not (is_static and is_schedule(value)), name, repr(value), "constant")
        if not is_static:
            object.__setattr__(obj, field.name, wrap_function(value))


FIELD_HOOKS.append(_wrap_functions)


def is_schedule(value: object) -> bool:
    """Return True if a value is a schedule."""
    return isinstance(value, AbstractSchedule)


def at_round(method: T, t: Any) -> T:
    """Return a method, or other settings, with each schedule replaced by its value in round t.

    Args:
        method: A pytree, such as a method or an aggregator.
        t: The round, from 0. It may be traced.

    >>> at_round({"eta": Linear(1.0, 0.0, rounds=2), "sigma": 3.0}, 1)
    {'eta': 0.5, 'sigma': 3.0}
    """
    if not schedules_of(method):
        return method
    import jax

    def resolve(leaf: Any) -> Any:
        value = leaf(t) if is_schedule(leaf) else leaf
        return value.item() if isinstance(value, (np.generic, np.ndarray)) else value

    resolved: T = jax.tree.map(resolve, method, is_leaf=is_schedule)
    return resolved


def schedules_of(method: Any) -> list[AbstractSchedule]:
    """Return the schedules among the settings of a method.

    >>> schedules_of({"eta": WarmUp(rounds=15), "sigma": 3.0})
    [WarmUp(rounds=15, first=1.0, then=0.0)]
    """
    import jax

    return [leaf for leaf in jax.tree.leaves(method, is_leaf=is_schedule) if is_schedule(leaf)]


def constant_from(method: Any) -> float:
    """Return the first round from which on no setting changes; infinite if this is not known.

    Theorem 1 needs this of ψ, σ, λ and the aggregator; η may change.

    Args:
        method: A pytree, such as a method or an aggregator.

    >>> constant_from(WarmUp(rounds=15))
    15.0
    """
    return max((schedule.constant_from for schedule in schedules_of(method)), default=0.0)


def _require_settings(schedule: Any, *numbers: str, least: int = 1) -> None:
    """Require finite numbers, and a whole number of rounds."""
    name = type(schedule).__name__
    for number in numbers:
        require_number(getattr(schedule, number), f"{name}.{number}")
    require_integer(f"{name}.rounds", schedule.rounds, least)
