"""Faulty and malicious parties, which send wrong models; each attack is one small function.

An attack takes the models of all reporting parties, a mask of the bad parties and the attacker's
knowledge; it returns the models that the server receives. A bad party trains like any other and keeps
its own model. (For parties with corrupted *data* see ``fedplus.data.corrupt``.)
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np

from fedplus._types import Array, Matrix, Vector, settings, static_field
from fedplus.check import require


class AttackContext(NamedTuple):
    """The knowledge of a bad party, in addition to the models."""

    key: Array
    w_global: Vector
    """w̃ as the server sent it in this round."""
    w_first: Vector
    """w̃ of round 0."""


Attack = Callable[[Matrix, Array, AttackContext], Matrix]
"""(models (K, d), mask of bad parties (K,), context) ↦ sent models (K, d)."""


def sign_flip(scale: float = 1.0) -> Attack:
    """Return the attack that sends the opposite of the update, w̃ − c (w_k − w̃).

    Args:
        scale: The factor c.
    """
    return scaling(-scale)


def scaling(scale: float = 10.0) -> Attack:
    """Return the attack that sends a multiple of the update, w̃ + c (w_k − w̃).

    Args:
        scale: The factor c.
    """
    return lambda models, bad, context: context.w_global + scale * (models - context.w_global)


def gaussian(scale: float = 1.0) -> Attack:
    """Return the attack that sends w̃ plus normal noise.

    Args:
        scale: The standard deviation of the noise in each coordinate.
    """

    def attack(models: Matrix, bad: Array, context: AttackContext) -> Matrix:
        return context.w_global + scale * jax.random.normal(context.key, models.shape, models.dtype)

    return attack


def a_little_is_enough(z: float = 1.5) -> Attack:
    """Return the attack that sends the honest mean minus ``z`` standard deviations per coordinate.

    The sent model is not an outlier in any coordinate.

    Args:
        z: The number of standard deviations.

    Paper: Baruch, Baruch, Goldberg, "A little is enough", 2019.
    """

    def attack(models: Matrix, bad: Array, context: AttackContext) -> Matrix:
        mean, deviation = _honest_moments(models, bad)
        return jnp.broadcast_to(mean - z * deviation, models.shape)

    return attack


def inner_product(epsilon: float = 1.0) -> Attack:
    """Return the attack against the honest mean update, w̃ − ε (mean − w̃).

    Args:
        epsilon: The factor ε.

    Paper: Xie, Koyejo, Gupta, "Fall of empires", 2020.
    """

    def attack(models: Matrix, bad: Array, context: AttackContext) -> Matrix:
        mean, _ = _honest_moments(models, bad)
        return jnp.broadcast_to(
            context.w_global - epsilon * (mean - context.w_global), models.shape
        )

    return attack


def not_finite(value: float = float("nan")) -> Attack:
    """Return the attack that sends NaN or Inf, which the server drops and counts.

    Args:
        value: The value of all entries.
    """
    return lambda models, bad, context: jnp.full_like(models, value)


def replay() -> Attack:
    """Return the attack that always sends the model of round 0."""
    return lambda models, bad, context: jnp.broadcast_to(context.w_first, models.shape)


@final
@settings
class Fault:
    """Some parties and their attack.

    Args:
        parties: Indices of the bad parties.
        attack: What they send, e.g. ``sign_flip(5.0)``.

    >>> Fault(parties=(3, 7), attack=sign_flip(5.0)).parties
    (3, 7)
    """

    parties: tuple[int, ...] = static_field()
    attack: Attack = static_field()


def fault_mask(faults: Sequence[Fault], parties: int) -> Array | None:
    """Return the mask (faults, N) of the bad parties, or None without faults.

    The mask is an input of the compiled program, which therefore serves for any choice of parties.
    """
    if not faults:
        return None
    mask = np.zeros((len(faults), parties), bool)
    for row, fault in zip(mask, faults, strict=True):
        row[list(fault.parties)] = True
    return jnp.asarray(mask)


def transmit(
    faults: Sequence[Fault], context: AttackContext, mask: Array | None
) -> Callable[[Matrix, Array], Matrix] | None:
    """Return the function (models, parties) ↦ models that the server receives; None if all are honest.

    Args:
        faults: The faults of the run.
        context: The knowledge of the bad parties.
        mask: (faults, N), from ``fault_mask``.
    """
    if mask is None:
        return None

    def send(models: Matrix, parties: Array) -> Matrix:
        trained = models
        is_bad = mask.any(axis=0)[parties]
        for i, fault in enumerate(faults):
            own_context = context._replace(key=jax.random.fold_in(context.key, i))
            sent = fault.attack(trained, is_bad, own_context)
            models = jnp.where(mask[i][parties][:, None], sent, models)
        return models

    return send


def require_faults(faults: Any, parties: int) -> tuple[Fault, ...]:
    """Return the ``faults`` argument of ``simulate`` (one fault, several or none) as a tuple.

    Raises:
        SettingError: Something is not a ``Fault``, or a fault has no party or an unknown one.
    """
    checked = (faults,) if isinstance(faults, Fault) else tuple(faults or ())
    for fault in checked:
        require(isinstance(fault, Fault), "faults", repr(fault), "Fault(parties, attack)")
        ok = len(fault.parties) > 0 and all(0 <= k < parties for k in fault.parties)
        require(ok, "Fault.parties", fault.parties, f"some of the parties 0 to {parties - 1}")
    return checked


def _honest_moments(models: Matrix, bad: Array) -> tuple[Vector, Vector]:
    """Return the mean and the standard deviation of the honest rows."""
    weight = (~bad).astype(models.dtype)
    weight = weight / jnp.maximum(weight.sum(), 1)
    mean = weight @ models
    return mean, jnp.sqrt(weight @ jnp.square(models - mean))
