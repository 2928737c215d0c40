"""The schedule of a round: the cohort, the parties' local steps, and stragglers (Alg. 1, l. 2–4).

Everything is a function of (seed, round), so that a run can resume from any round.
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
    """A rule that draws the cohort S^t of each round."""

    size: int
    """K, the number of parties in a cohort."""

    @abstractmethod
    def __call__(self, key: Array, round_: Array, parties: int) -> tuple[Array, Array | None]:
        """Return K different parties and a mask (K,) of those that are available (None: all are)."""

    @abstractmethod
    def check(self, parties: int) -> None:
        """Raise a ``SettingError`` if the cohort does not fit a federation of this many parties."""


@final
@settings
class Uniform(AbstractCohort):
    """Draws ``size`` parties uniformly without replacement, in a time that does not grow with N."""

    size: int = static_field()

    @override
    def __call__(self, key: Array, round_: Array, parties: int) -> tuple[Array, Array | None]:
        if self.size == parties:
            everyone: Any = np.arange(parties, dtype=np.int32)  # NumPy: known when tracing.
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
    """Draws ``size`` parties without replacement, each with probability proportional to its weight.

    Args:
        weights: (N,), ≥ 0.
        size: K.
    """

    weights: Array
    size: int = static_field()

    def __post_init__(self) -> None:
        require_number(self.weights, "Weighted.weights", least=0)

    @override
    def __call__(self, key: Array, round_: Array, parties: int) -> tuple[Array, Array | None]:
        return _gumbel_top_k(key, jnp.log(jnp.asarray(self.weights)), self.size)

    @override
    def check(self, parties: int) -> None:
        _require_size(self.size, parties)
        shape = jnp.shape(self.weights)
        require(
            shape == (parties,), "Weighted.weights", f"shape {shape}",
            f"({parties},), one weight per party",
        )  # fmt: skip


@final
@settings
class Trace(AbstractCohort):
    """Draws up to ``size`` of the parties that are available in a round, uniformly.

    Args:
        available: (T, N), True if party k is available in round t; after T rounds it starts again.
        size: K. If fewer parties are available, the cohort has fewer present parties.
    """

    available: Array
    size: int = static_field()

    @override
    def __call__(self, key: Array, round_: Array, parties: int) -> tuple[Array, Array | None]:
        available = jnp.asarray(self.available, bool)
        is_available = available[round_ % available.shape[0]]
        return _gumbel_top_k(key, jnp.where(is_available, 0.0, -jnp.inf), self.size)

    @override
    def check(self, parties: int) -> None:
        _require_size(self.size, parties)
        shape = jnp.shape(self.available)
        require(
            len(shape) == 2 and shape[0] > 0 and shape[1] == parties, "Trace.available",
            f"shape {shape}", f"(rounds, {parties}), one row per round and one column per party",
        )  # fmt: skip


def _gumbel_top_k(key: Array, logits: Array, size: int) -> tuple[Array, Array]:
    """Draw ``size`` indices without replacement: the largest of logits + Gumbel noise.

    The second result is False for indices of probability 0.
    """
    noisy, chosen = jax.lax.top_k(logits + jax.random.gumbel(key, logits.shape), size)
    return chosen.astype(jnp.int32), noisy > -jnp.inf


def _require_size(size: int, parties: int) -> None:
    require(
        isinstance(size, int) and 1 <= size <= parties, "cohort", size, f"from 1 to {parties}",
        f"The federation has {parties} parties.",
    )  # fmt: skip


def fewer_units(key: Array, units: Array) -> Array:
    """Return 1, ..., or ``units`` − 1, drawn uniformly; 1 if ``units`` is 1."""
    return jax.random.randint(key, units.shape, 1, jnp.maximum(units, 2))


@final
@settings
class Stragglers:
    """Parties of a cohort that do less local work than they should.

    Args:
        share: The share of stragglers in the cohort; every round has exactly round(share · K) of them.
        drop: Whether the server drops their replies, as FedAvg does in FedProx's comparison, or
            aggregates the work that they have done.
        units: ``units(key, planned)`` returns how many units of work (epochs, or steps if work is given
            in steps) a straggler does of those that are planned. The default draws uniformly from 1,
            ..., planned − 1.

    Paper: Li et al., "Federated optimization in heterogeneous networks", 2020, section 5.2.
    """

    share: float = static_field(default=0.9)
    drop: bool = static_field(default=False)
    units: Callable[[Array, Array], Array] = static_field(default=fewer_units)

    def __post_init__(self) -> None:
        require_number(self.share, "Stragglers.share", least=0, most=1)


class Effort(NamedTuple):
    """The local work of each party: E_k = ``units`` · ``steps_per_unit``."""

    units: Any
    """(N,): the number of epochs, or of steps if work is given in steps."""
    steps_per_unit: Any
    """(N,): the number of steps in one unit."""

    def __call__(
        self, key: Array, cohort: Array, stragglers: Stragglers | None
    ) -> tuple[Array, Array | None]:
        """Return E_k, (K,), and a mask of the parties whose replies arrive in time (None: all)."""
        units, steps_per_unit = self.units[cohort], self.steps_per_unit[cohort]
        if stragglers is None:
            return units * steps_per_unit, None
        order = jax.random.permutation(key, len(cohort))
        is_late = order < round(stragglers.share * len(cohort))
        done = stragglers.units(jax.random.fold_in(key, 1), units)
        units = jnp.where(is_late, jnp.minimum(done, units), units)
        return units * steps_per_unit, ~is_late if stragglers.drop else None


def make_cohort(cohort: Any, parties: int) -> AbstractCohort:
    """Return the ``cohort`` argument of ``simulate`` as an ``AbstractCohort``.

    Args:
        cohort: A number of parties, None for all parties, or an ``AbstractCohort``.
        parties: N.

    Raises:
        SettingError: The cohort does not fit the federation.
    """
    rule: AbstractCohort = (
        cohort
        if isinstance(cohort, AbstractCohort)
        else Uniform(parties if cohort is None else cohort)
    )
    rule.check(parties)
    return rule
