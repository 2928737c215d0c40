"""Parties that send wrong models: each attack is one small function.

An attack takes the models of all parties that report, which of them are bad, and what a bad party
knows; it returns the models that the server gets. A bad party trains like any other and keeps its own
model. (For parties whose *data* is bad see ``fedplus.data.corrupt``.)
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np

from fedplus._types import Array, Matrix, Vector, settings, static_field
from fedplus.check import require


class AttackContext(NamedTuple):
    """What a bad party knows beside the models."""

    key: Array
    w_global: Vector
    """w̃, as the server sent it in this round."""
    w_first: Vector
    """w̃ of round 0."""


Attack = Callable[[Matrix, Array, AttackContext], Matrix]


def sign_flip(scale: float = 1.0) -> Attack:
    """The opposite of what was learned: w̃ − c (w_k − w̃)."""
    return scaling(-scale)


def scaling(scale: float = 10.0) -> Attack:
    """More than what was learned: w̃ + c (w_k − w̃)."""
    return lambda models, bad, known: known.w_global + scale * (models - known.w_global)


def gaussian(scale: float = 1.0) -> Attack:
    """Noise around w̃, of that standard deviation in every coordinate."""

    def attack(models: Matrix, bad: Array, known: AttackContext) -> Matrix:
        return known.w_global + scale * jax.random.normal(known.key, models.shape, models.dtype)

    return attack


def a_little_is_enough(z: float = 1.5) -> Attack:
    """From the honest mean by ``z`` standard deviations: in no coordinate does it stand out much.

    Reference: Baruch, Baruch, Goldberg, 2019.
    """

    def attack(models: Matrix, bad: Array, known: AttackContext) -> Matrix:
        mean, deviation = _honest(models, bad)
        return jnp.broadcast_to(mean - z * deviation, models.shape)

    return attack


def inner_product(epsilon: float = 1.0) -> Attack:
    """Against the honest mean update: w̃ − ε (mean − w̃). Reference: Xie, Koyejo, Gupta, 2020."""

    def attack(models: Matrix, bad: Array, known: AttackContext) -> Matrix:
        mean, _ = _honest(models, bad)
        return jnp.broadcast_to(known.w_global - epsilon * (mean - known.w_global), models.shape)

    return attack


def not_finite(value: float = float("nan")) -> Attack:
    """NaN or Inf: the server drops it and counts it."""
    return lambda models, bad, known: jnp.full_like(models, value)


def replay() -> Attack:
    """The model of round 0, for ever."""
    return lambda models, bad, known: jnp.broadcast_to(known.w_first, models.shape)


@final
@settings
class Fault:
    """Some parties, and what they do.

    >>> Fault(parties=(3, 7), attack=sign_flip(5.0)).parties
    (3, 7)
    """

    parties: tuple[int, ...] = static_field()
    attack: Attack = static_field()


def fault_mask(faults: Sequence[Fault], parties: int) -> Array | None:
    """(faults, N): a program reads it, so that one program does for any parties; None: nobody."""
    if not faults:
        return None
    everyone = np.zeros((len(faults), parties), bool)
    for row, fault in zip(everyone, faults, strict=True):
        row[list(fault.parties)] = True
    return jnp.asarray(everyone)


def transmit(
    faults: Sequence[Fault], known: AttackContext, everyone: Array | None
) -> Callable[[Matrix, Array], Matrix] | None:
    """What the server gets of the models that parties have; None if all are honest."""
    if everyone is None:
        return None

    def received(models: Matrix, who: Array) -> Matrix:
        honest = models
        any_bad = everyone.any(axis=0)[who]
        for i, fault in enumerate(faults):
            mine = known._replace(key=jax.random.fold_in(known.key, i))
            sent = fault.attack(honest, any_bad, mine)
            models = jnp.where(everyone[i][who][:, None], sent, models)
        return models

    return received


def require_faults(faults: Any, parties: int) -> tuple[Fault, ...]:
    """Faults from what a person gives: one, several or none."""
    given = (faults,) if isinstance(faults, Fault) else tuple(faults or ())
    for fault in given:
        require(isinstance(fault, Fault), "faults", repr(fault), "Fault(parties, attack)")
        ok = len(fault.parties) > 0 and all(0 <= k < parties for k in fault.parties)
        require(ok, "Fault.parties", fault.parties, f"some of the parties 0 to {parties - 1}")
    return given


def _honest(models: Matrix, bad: Array) -> tuple[Vector, Vector]:
    """Mean and standard deviation of the honest rows."""
    weight = (~bad).astype(models.dtype)
    weight = weight / jnp.maximum(weight.sum(), 1)
    mean = weight @ models
    return mean, jnp.sqrt(weight @ jnp.square(models - mean))
