"""What is written down of a run: figures of every round, and evaluations."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from fedplus._types import Array, Host, Matrix, Vector
from fedplus.algorithm import AbstractAlgorithm, FedPlus
from fedplus.check import require
from fedplus.data.federation import Federation
from fedplus.models import Model
from fedplus.simulation.evaluate import (
    Blocks,
    PartyScores,
    blocks_of_parties,
    evaluate_parties,
    most_blocks,
    split_into_blocks,
)
from fedplus.simulation.evaluated_models import EvaluatedModels
from fedplus.simulation.mesh import replicate, to_host
from fedplus.simulation.paging import Paging
from fedplus.simulation.round_statistics import RoundStatistics

EVALUATIONS = "evaluations"
FIGURES = "figures"


class NewEvaluation(NamedTuple):
    """What is new with an evaluation, of one run."""

    round: int
    """Rounds done."""
    evaluation: Mapping[str, Host]
    """As in ``Run.evaluations``, of this one."""
    figures: Mapping[str, Host]
    """As in ``Run.figures``, of the rounds since the evaluation before."""


class Recorder:
    """Collects figures and evaluations; the arrays of each begin with the time, then the lane."""

    def __init__(
        self,
        federation: Federation,
        model: Model,
        path: Sequence[float],
        objective: bool,
        models: EvaluatedModels,
        mesh: Mesh | None = None,
    ) -> None:
        self._model = model
        self._models = models
        self._path = tuple(path)
        test, rows = split_into_blocks(federation.test)
        self._test = replicate(mesh, test), rows
        self._train = None
        if objective:
            train, rows = split_into_blocks(federation.train)
            self._train = replicate(mesh, train), rows
        self._book: dict[str, list[Host]] = {}
        self._fresh: dict[str, list[Host]] = {}

    def add_figures(self, figures: RoundStatistics) -> None:
        """Of the rounds since the last ones."""
        for name, values in figures._asdict().items():
            self._add(f"{FIGURES}/{name}", values)
            self._fresh.setdefault(name, []).append(np.asarray(values))

    def newest(self, lane: int | None) -> NewEvaluation:
        """The evaluation just made, of one lane; ask for all lanes before the next round."""
        rounds = self._book[f"{EVALUATIONS}/round"][-1]
        return NewEvaluation(
            int(rounds[-1]),
            {
                name.split("/")[1]: parts[-1][-1, lane or 0]
                for name, parts in self._book.items()
                if name.startswith(EVALUATIONS) and not name.endswith("/round")
            },
            {name: _of_lane(np.concatenate(parts), lane) for name, parts in self._fresh.items()},
        )

    def earlier(self, lane: int | None) -> Iterator[NewEvaluation]:
        """The evaluations so far, one after the other."""
        figures, evaluations = self.of_lane(lane)
        begin = 0
        for i, round_ in enumerate(evaluations.get("round", ())):
            yield NewEvaluation(
                int(round_),
                {name: values[i] for name, values in evaluations.items() if name != "round"},
                {name: values[begin:round_] for name, values in figures.items()},
            )
            begin = int(round_)

    def forget_fresh(self) -> None:
        """From here on figures belong to the next evaluation."""
        self._fresh = {}

    def evaluate(
        self, round_: int, lanes: Sequence[tuple[AbstractAlgorithm[Any], Any]],
        pages: Paging | None = None,
    ) -> Host:  # fmt: skip
        """Judge each lane's models; (lanes,): the mean personal score."""
        if pages is None:
            found = [
                self._judged(algorithm, state, *self._test, round_) for algorithm, state in lanes
            ]
        else:
            found = [self._page_by_page(*lanes[0], pages, round_)]
        self._add(f"{EVALUATIONS}/round", np.array([round_]))
        for name in found[0]:
            self._add(f"{EVALUATIONS}/{name}", np.stack([one[name] for one in found])[None])
        return np.array([one["personal_score"].mean() for one in found])

    def _page_by_page(
        self, algorithm: AbstractAlgorithm[Any], state: Any, pages: Paging, round_: int
    ) -> dict[str, Host]:
        blocks, rows = self._test
        most = most_blocks(blocks, pages.rows)
        found: dict[str, list[Host]] = {}
        for parties, page in pages.all_of(state):
            mine = blocks_of_parties(blocks, parties, pages.rows, most)
            for name, values in self._judged(algorithm, page, mine, rows, round_).items():
                found.setdefault(name, []).append(values[..., : len(parties)])
        return {name: np.concatenate(parts, axis=-1) for name, parts in found.items()}

    def _judged(
        self, algorithm: AbstractAlgorithm[Any], state: Any, blocks: Blocks, rows: int, round_: int
    ) -> dict[str, Host]:
        w_global = algorithm.w_global(state)

        def test(models: Matrix) -> PartyScores:
            judged: PartyScores = evaluate_parties(self._model, rows, blocks, models)
            return judged

        common = test(w_global[None])
        norms: Any
        if algorithm.is_stateless():
            personal, norms = common, np.zeros(len(blocks.size), w_global.dtype)
        else:
            w_local = self._models(algorithm, state, round_)
            personal, norms = test(w_local), personal_norms(algorithm, state, len(w_local))
        found: dict[str, Any] = {
            "personal_score": personal.score,
            "personal_loss": personal.loss,
            "global_score": common.score,
            "global_loss": common.loss,
            "v_norm": norms,
        }
        if self._path:
            own = algorithm.local_models(state)
            between = [test((1 - lam) * own + lam * w_global) for lam in self._path]
            found["path_score"] = np.stack([to_host(b.score) for b in between])
        if self._train is not None:
            assert isinstance(algorithm, FedPlus)
            train, train_rows = self._train
            losses = evaluate_parties(self._model, train_rows, train, state.w_local).loss
            found["objective"] = f_sigma(algorithm, losses, state.w_local, w_global)
        return {name: to_host(value) for name, value in found.items()}

    def _add(self, name: str, values: Any) -> None:
        self._book.setdefault(name, []).append(np.asarray(values))

    def arrays(self) -> dict[str, Host]:
        """Everything so far, by name."""
        self._book = {name: [np.concatenate(parts)] for name, parts in self._book.items()}
        return {name: parts[0] for name, parts in self._book.items()}

    def restore(self, arrays: Mapping[str, Host]) -> None:
        """Go on from what a checkpoint holds."""
        kinds = (FIGURES, EVALUATIONS)
        self._book = {n: [a] for n, a in arrays.items() if n.split("/")[0] in kinds}
        judged = arrays.get(f"{EVALUATIONS}/round", [0])[-1]
        self._fresh = {
            name.split("/")[1]: [parts[0][judged:]]
            for name, parts in self._book.items()
            if name.startswith(FIGURES)
        }

    def of_lane(self, lane: int | None) -> tuple[dict[str, Host], dict[str, Host]]:
        """Figures and evaluations of one lane."""
        found: dict[str, dict[str, Host]] = {FIGURES: {}, EVALUATIONS: {}}
        for name, values in self.arrays().items():
            kind, what = name.split("/")
            if kind == FIGURES:
                found[kind][what] = _of_lane(values, lane)
            else:
                found[kind][what] = values if what == "round" else values[:, lane or 0]
        return found[FIGURES], found[EVALUATIONS]


def _of_lane(values: Host, lane: int | None) -> Host:
    return values if lane is None else values[:, lane]


@jax.jit
def f_sigma(algorithm: FedPlus, losses: Vector, w_local: Matrix, w_global: Vector) -> Array:
    """F_σ from the parties' losses on their own data: (1/N) Σ_k f_k(w_k) + σ ψ̂(w_k − w̃)."""
    envelope = jax.vmap(algorithm.local.psi.envelope)(w_local - w_global)
    mean: Array = jnp.mean(losses + algorithm.local.sigma * envelope)
    return mean


def require_objective(algorithms: Sequence[AbstractAlgorithm[Any]], stored: bool) -> None:
    """Require that F_σ can be recorded."""
    for algorithm in algorithms:
        require(
            isinstance(algorithm, FedPlus), "objective", type(algorithm).__name__,
            "recorded for FedPlus, whose objective F_σ is",
        )  # fmt: skip
    require(not stored, "objective", "True", "False with a store: it needs all models at once")


def personal_norms(algorithm: AbstractAlgorithm[Any], state: Any, parties: int) -> Array:
    """(N,): ‖v_k‖, a party at a time: v for all at once would be another W."""
    norms: Array = _norms(algorithm, state, np.arange(parties, dtype=np.int32))
    return norms


@jax.jit
def _norms(algorithm: AbstractAlgorithm[Any], state: Any, parties: Array) -> Array:
    norms: Array = jax.lax.map(
        lambda k: jnp.linalg.norm(algorithm.personal_parts(state, k[None])[0]), parties
    )
    return norms
