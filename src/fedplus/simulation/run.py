"""What a simulation returns."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from fedplus._types import Host
from fedplus.algorithm import AbstractAlgorithm
from fedplus.check import require
from fedplus.data.federation import Federation
from fedplus.models import Model
from fedplus.simulation.engine import unravel_function
from fedplus.simulation.evaluate import Summary, evaluate_parties, split_into_blocks, summary
from fedplus.simulation.evaluated_models import EvaluatedModels
from fedplus.simulation.paging import Paging

Which = Literal["personal", "global"]


@dataclasses.dataclass(frozen=True)
class Run:
    """A finished run: its models, and what was recorded on the way."""

    algorithm: AbstractAlgorithm[Any]
    federation: Federation
    model: Model
    seed: int
    state: Any
    """The algorithm's state after the last round. It only has the last cohort's rows if parties keep
    nothing (``algorithm.is_stateless()``) and neither ``path`` nor ``objective`` needs their models."""
    figures: Mapping[str, Host]
    """Of every round, (T, ...): see ``RoundStatistics``."""
    evaluations: Mapping[str, Host]
    """Of every evaluated round: ``round`` (V,), then (V, N) ``personal_score``, ``personal_loss``,
    ``global_score``, ``global_loss``, ``v_norm``; on request ``path_score`` (V, Λ, N) and
    ``objective`` (V,), which is F_σ."""
    judged: EvaluatedModels
    """Makes the models that parties use of the state."""
    pages: Paging | None = None
    """Where the parties' models are, if they are in a store."""

    @property
    def rounds(self) -> int:
        """T."""
        return len(self.figures["dropped"])

    @property
    def models(self) -> Host:
        """(N, d): the model that each party uses."""
        if self.algorithm.is_stateless():
            return np.broadcast_to(self.w_global, (self.federation.parties, self.w_global.size))
        if self.pages is None:
            return np.asarray(self.judged(self.algorithm, self.state, self.rounds))
        return np.concatenate([
            np.asarray(self.algorithm.models(page))[: len(parties)]
            for parties, page in self.pages.all_of(self.state)
        ])  # fmt: skip

    @property
    def w_global(self) -> Host:
        """(d,): w̃."""
        return np.asarray(self.algorithm.w_global(self.state))

    def parameters(self, party: str | int | None = None) -> Any:
        """A party's model as the model's own parameters; without a party, the global model's."""
        unravel = unravel_function(self.model)
        if party is None:
            return unravel(jnp.asarray(self.w_global))
        k = self._index(party)
        if self.pages is None or self.algorithm.is_stateless():
            return unravel(jnp.asarray(self.models[k]))
        page = self.pages.turned(self.state, np.array([k]))
        return unravel(self.algorithm.models(page, jnp.array([0]))[0])

    def summary(self, which: Which = "personal", at: Literal["last", "best"] = "last") -> Summary:
        """Test scores in a few numbers: of the last evaluation, or of the one with the best mean.

        "Best" is chosen on the data that it is judged on, so it flatters: report it as what it is.
        """
        require(which in ("personal", "global"), "which", repr(which), '"personal" or "global"')
        require(at in ("last", "best"), "at", repr(at), '"last" or "best"')
        scores = self.evaluations[f"{which}_score"]
        better = self.model.task.better
        chosen = len(scores) - 1
        if at == "best":
            means = scores.mean(axis=1)
            chosen = int(means.argmax() if better == "higher" else means.argmin())
        return summary(scores[chosen], self.federation.test.size, better)

    def transfer(self) -> Host:
        """(N, N): row k, the score of party k's model on each party's test samples."""
        blocks, rows = split_into_blocks(self.federation.test)
        found = jax.lax.map(
            lambda w: evaluate_parties(self.model, rows, blocks, w[None]).score,
            jnp.asarray(self.models),
        )
        return np.asarray(found)

    def _index(self, party: str | int) -> int:
        if isinstance(party, str):
            names = self.federation.names
            require(party in names, "party", repr(party), f"one of {', '.join(names[:8])}, …")
            return names.index(party)
        n = self.federation.parties
        require(0 <= party < n, "party", party, f"from 0 to {n - 1}")
        return party

    def __repr__(self) -> str:
        last = self.summary()
        name = self.model.task.score_name
        return (
            f"Run({self.federation.name}: {self.federation.parties} parties, {self.rounds} rounds; "
            f"{name} {last.mean:.4g}, worst tenth {last.worst_decile:.4g})"
        )
