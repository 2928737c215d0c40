"""``Run``: the result of a simulation."""

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from fedplus._types import NumpyArray
from fedplus.algorithm import AbstractAlgorithm
from fedplus.check import require
from fedplus.data.federation import Federation
from fedplus.models import Model
from fedplus.schedules import at_round
from fedplus.simulation.engine import unravel_function
from fedplus.simulation.evaluate import Summary, evaluate_parties, split_into_blocks, summary
from fedplus.simulation.evaluated_models import EvaluatedModels
from fedplus.simulation.join import LocalTraining, join_parties
from fedplus.simulation.paging import Paging
from fedplus.simulation.validate import require_fit
from fedplus.work import RETRIES, RETRY_SCALE

Which = Literal["personal", "global"]


@dataclasses.dataclass(frozen=True)
class Run:
    """A finished run: its models and its records."""

    algorithm: AbstractAlgorithm[Any]
    federation: Federation
    model: Model
    seed: int
    state: Any
    """The algorithm's state after the last round. It has the rows of the last cohort only if the method
    is stateless (``algorithm.is_stateless()``) and neither ``path`` nor ``objective`` is recorded."""
    figures: Mapping[str, NumpyArray]
    """The statistics of every round, (T, ...); see ``RoundStatistics``."""
    evaluations: Mapping[str, NumpyArray]
    """The V evaluations: ``round`` (V,), then (V, N) ``personal_score``, ``personal_loss``,
    ``global_score``, ``global_loss``, ``v_norm``; on request ``path_score`` (V, Λ, N) and
    ``objective`` (V,), which is F_σ; with methods that adapt a model before it is used,
    ``adaptation_diverged`` (V, N), how often these steps diverged (see ``Adapted``)."""
    evaluated_models: EvaluatedModels
    """Returns the parties' models for a state."""
    paging: Paging | None = None
    """The pages of the store, if the parties' models are in a file."""

    @property
    def rounds(self) -> int:
        """T, the number of rounds."""
        return len(self.figures["dropped"])

    @property
    def models(self) -> NumpyArray:
        """The model that each party uses, (N, d)."""
        if self.paging is None:
            return np.asarray(self.evaluated_models(self.algorithm, self.state, self.rounds).models)
        return np.concatenate([
            np.asarray(at_round(self.algorithm, self.rounds - 1).models(page))[: len(parties)]
            for parties, page in self.paging.iter_pages(self.state)
        ])  # fmt: skip

    @property
    def w_global(self) -> NumpyArray:
        """The global model w̃, (d,)."""
        return np.asarray(self.algorithm.w_global(self.state))

    def join(
        self,
        x: npt.ArrayLike,
        y: npt.ArrayLike,
        *,
        steps: int,
        rounds: int = 1,
        batch_size: int = 20,
    ) -> NumpyArray:
        """Return the model, (d,), of a party that joins now; ``parameters`` unravels it.

        The party starts where the method lets a late party start, and trains while w̃ and the other
        parties' models stay as they are. With a method whose parties all use one global model, such
        as FedAvg, the result is w̃, which the training of one party does not change. Settings that
        depend on the round have the values of the last round, but learning rates, which may have
        decayed to 0, those of the first. If all its local steps diverge, or those with which it adapts
        its model, the party keeps the model at which they start, and a warning says so.

        Args:
            x: The party's inputs (n, ...).
            y: Its labels (n, ...).
            steps: The number of local steps in a round.
            rounds: The number of rounds; with each, the party's personal part is computed anew.
            batch_size: B.

        Raises:
            SettingError: The samples do not fit the model, or with this method no party can train
                without the others (``L2GD``, ``FedFomo``).
        """
        party = Federation.from_arrays([(x, y)], test=[(x, y)], names=["the new party"])
        shapes = [(*a.x.shape[1:], *a.y.shape[1:]) for a in (party.train, self.federation.train)]
        require(
            shapes[0] == shapes[1], "the new party's samples", f"shape {shapes[0]}",
            f"of shape {shapes[1]}, like those of the others",
        )  # fmt: skip
        require_fit(party, self.model)
        training = LocalTraining(steps, rounds, batch_size)
        joined = join_parties(
            self.algorithm, self.state, self.model, party.train, training,
            rounds_before=self.rounds, seed=self.seed,
        )  # fmt: skip
        if joined.given_up[0] == rounds or joined.kept_unadapted[0]:
            in_all = f" in all {rounds} rounds" if joined.given_up[0] == rounds else ""
            warnings.warn(
                f"The new party's local steps diverged{in_all}, even with "
                f"{1 / RETRY_SCALE**RETRIES:g} times smaller steps, so it keeps the model at which "
                "they started. The usual cause is a learning rate that is too high for its samples: "
                "scale its inputs like those of the others, or train with a smaller eta.",
                stacklevel=2,
            )
        model: NumpyArray = joined.models[0]
        return model

    def parameters(self, party: str | int | NumpyArray | None = None) -> Any:
        """Return the parameters of one party's model as a pytree.

        Args:
            party: The name or the index of a party, a model (d,), or None for the global model.

        Raises:
            SettingError: The federation has no such party.
        """
        unravel = unravel_function(self.model)
        if party is None or isinstance(party, np.ndarray):
            return unravel(jnp.asarray(self.w_global if party is None else party))
        k = self._party_index(party)
        if self.paging is None or self.algorithm.is_stateless():
            return unravel(jnp.asarray(self.models[k]))
        page = self.paging.load_page(self.state, np.array([k]))
        algorithm = at_round(self.algorithm, self.rounds - 1)
        return unravel(algorithm.models(page, jnp.array([0]))[0])

    def summary(self, which: Which = "personal", at: Literal["last", "best"] = "last") -> Summary:
        """Return a summary of the parties' test scores.

        Args:
            which: The personal models or the global model.
            at: The last evaluation, or the one with the best mean score. The best one is chosen on the
                test samples themselves, so its score is biased; say so where you report it.
        """
        require(which in ("personal", "global"), "which", repr(which), '"personal" or "global"')
        require(at in ("last", "best"), "at", repr(at), '"last" or "best"')
        scores = self.evaluations[f"{which}_score"]
        better = self.model.task.better
        index = len(scores) - 1
        if at == "best":
            means = scores.mean(axis=1)
            index = int(means.argmax() if better == "higher" else means.argmin())
        return summary(scores[index], self.federation.test.size, better)

    def transfer(self) -> NumpyArray:
        """Return the scores (N, N) of every model (row) on every party's test samples (column)."""
        blocks, rows = split_into_blocks(self.federation.test)
        scores = jax.lax.map(
            lambda w: evaluate_parties(self.model, rows, blocks, w[None]).score,
            jnp.asarray(self.models),
        )
        return np.asarray(scores)

    def _party_index(self, party: str | int) -> int:
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
