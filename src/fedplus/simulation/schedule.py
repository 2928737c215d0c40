"""Who takes part in a round, how long each works, and whose reply arrives: lines 2–4 of Algorithm 1.

All of it is a function of (seed, round), so that a run can go on from any round.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from typing_extensions import override

from fedplus._types import Array, settings, static_field
from fedplus.check import require, require_number
from fedplus.simulation.shuffle import shuffled_position


class AbstractCohort(ABC):
    """S^t."""

    size: int
    """K."""

    @abstractmethod
    def __call__(self, key: Array, round_: Array, parties: int) -> tuple[Array, Array | None]:
        """(K,) different parties, and (K,) whether each is there at all (None: all are)."""

    @abstractmethod
    def check(self, parties: int) -> None:
        """Raise a ``SettingError`` if the federation has not the parties for it."""


@final
@settings
class Uniform(AbstractCohort):
    """``size`` parties, each as likely as the other, in a time that does not grow with N."""

    size: int = static_field()

    @override
    def __call__(self, key: Array, round_: Array, parties: int) -> tuple[Array, Array | None]:
        if self.size == parties:
            everyone: Any = np.arange(parties, dtype=np.int32)  # NumPy's: known beforehand.
            return everyone, None
        i = jnp.arange(self.size, dtype=jnp.int32)
        word = jnp.broadcast_to(jax.random.bits(key), i.shape)
        return shuffled_position(i, jnp.full_like(i, parties), word), None

    @override
    def check(self, parties: int) -> None:
        _require_size(self.size, parties)


@final
@settings
class Weighted(AbstractCohort):
    """``size`` parties without replacement, drawn one after the other in proportion to ``weights``."""

    weights: Array
    """(N,), ≥ 0."""
    size: int = static_field()

    def __post_init__(self) -> None:
        require_number(self.weights, "Weighted.weights", least=0)

    @override
    def __call__(self, key: Array, round_: Array, parties: int) -> tuple[Array, Array | None]:
        return _largest(key, jnp.log(jnp.asarray(self.weights)), self.size)

    @override
    def check(self, parties: int) -> None:
        _require_size(self.size, parties)
        shape = jnp.shape(self.weights)
        require(
            shape == (parties,), "Weighted.weights", f"shape {shape}", f"({parties},), one a party"
        )


@final
@settings
class Trace(AbstractCohort):
    """``size`` of the parties that are there, uniformly; fewer where fewer are there.

    Args:
        available: (T, N), who is there in round t; after T rounds it starts again.
        size: K, at most.
    """

    available: Array
    size: int = static_field()

    @override
    def __call__(self, key: Array, round_: Array, parties: int) -> tuple[Array, Array | None]:
        there = jnp.asarray(self.available, bool)
        now = there[round_ % there.shape[0]]
        return _largest(key, jnp.where(now, 0.0, -jnp.inf), self.size)

    @override
    def check(self, parties: int) -> None:
        _require_size(self.size, parties)
        shape = jnp.shape(self.available)
        require(
            len(shape) == 2 and shape[0] > 0 and shape[1] == parties, "Trace.available",
            f"shape {shape}", f"(rounds, {parties}): a row a round, a column a party",
        )  # fmt: skip


def _largest(key: Array, logits: Array, size: int) -> tuple[Array, Array]:
    """Gumbel's trick: the ``size`` largest of logits + noise are a draw without replacement."""
    noisy, chosen = jax.lax.top_k(logits + jax.random.gumbel(key, logits.shape), size)
    return chosen.astype(jnp.int32), noisy > -jnp.inf


def _require_size(size: int, parties: int) -> None:
    require(
        isinstance(size, int) and 1 <= size <= parties, "cohort", size, f"from 1 to {parties}",
        f"The federation has {parties} parties.",
    )  # fmt: skip


def fewer_units(key: Array, asked: Array) -> Array:
    """From 1 to one less than asked for, each as likely; 1 where 1 is asked for."""
    return jax.random.randint(key, asked.shape, 1, jnp.maximum(asked, 2))


@final
@settings
class Stragglers:
    """Parties of a cohort that do less than they should.

    Args:
        share: Of the cohort; exactly round(share · K) of it in every round.
        drop: Whether the server goes on without their replies, as FedAvg does in FedProx's comparison,
            or takes what they have done.
        units: Of the E_k units of work (epochs, or steps where work is given in steps) that each party
            should do, ``units(key, asked)`` says how many a straggler does. By default 1, ..., or
            E_k − 1, each as likely.

    Reference: Li et al., "Federated optimization in heterogeneous networks", 2020, section 5.2.
    """

    share: float = static_field(default=0.9)
    drop: bool = static_field(default=False)
    units: Callable[[Array, Array], Array] = static_field(default=fewer_units)

    def __post_init__(self) -> None:
        require_number(self.share, "Stragglers.share", least=0, most=1)


class Effort(NamedTuple):
    """How long parties work: E_k = ``units`` · ``unit``."""

    units: Any
    """(N,): epochs, or steps."""
    unit: Any
    """(N,): the steps that one takes."""

    def __call__(
        self, key: Array, cohort: Array, stragglers: Stragglers | None
    ) -> tuple[Array, Array | None]:
        """(K,): E_k; and whose reply arrives in time."""
        units, unit = self.units[cohort], self.unit[cohort]
        if stragglers is None:
            return units * unit, None
        slot = jax.random.permutation(key, len(cohort))
        late = slot < round(stragglers.share * len(cohort))
        done = stragglers.units(jax.random.fold_in(key, 1), units)
        units = jnp.where(late, jnp.minimum(done, units), units)
        return units * unit, ~late if stragglers.drop else None


def cohort_of(given: Any, parties: int) -> AbstractCohort:
    """A cohort from what a person gives: a number, None for everyone, or a cohort."""
    cohort: AbstractCohort = (
        given if isinstance(given, AbstractCohort) else Uniform(parties if given is None else given)
    )
    cohort.check(parties)
    return cohort
