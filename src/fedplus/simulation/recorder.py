"""The records of a run: statistics of every round ("figures"), and evaluations."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedplus._types import Array, Matrix, NumpyArray, Vector
from fedplus.aggregation import Moreau
from fedplus.algorithm import AbstractAlgorithm, FedPlus, State
from fedplus.check import require
from fedplus.parameter_groups import ByLayer, per_entry
from fedplus.schedules import at_round, constant_from
from fedplus.simulation.evaluate import (
    Blocks,
    PartyScores,
    blocks_of_parties,
    evaluate_parties,
    max_blocks_per_page,
    split_into_blocks,
)
from fedplus.simulation.evaluated_models import EvaluatedModels, is_adapted
from fedplus.simulation.mesh import replicate, to_host
from fedplus.simulation.paging import Paging
from fedplus.simulation.round_statistics import RoundStatistics
from fedplus.simulation.setup import Setup, is_everyone_active

EVALUATIONS = "evaluations"
FIGURES = "figures"
"""Prefixes of the records' names in a checkpoint."""


class NewEvaluation(NamedTuple):
    """One evaluation of one run, and the statistics of the rounds since the previous evaluation."""

    round: int
    """The number of completed rounds."""
    evaluation: Mapping[str, NumpyArray]
    """This evaluation's entries of ``Run.evaluations``."""
    figures: Mapping[str, NumpyArray]
    """The entries of ``Run.figures`` for the rounds since the previous evaluation."""


class Recorder:
    """Collects the records of a run, as arrays with the axes (round or evaluation, lane, ...).

    Args:
        setup: The run.
        path: Values λ for which (1 − λ) w_k + λ w̃ is evaluated, too.
        objective: Whether F_σ is recorded, too.
    """

    def __init__(
        self,
        setup: Setup,
        path: Sequence[float],
        objective: bool,
    ) -> None:
        federation, mesh = setup.federation, setup.plan.mesh
        self._setup = setup
        self._model = setup.plan.model
        self._path = tuple(path)
        test, rows = split_into_blocks(federation.test)
        self._test = replicate(mesh, test), rows
        self._train = None
        if objective:
            train, rows = split_into_blocks(federation.train)
            self._train = replicate(mesh, train), rows
        self._parts: dict[str, list[NumpyArray]] = {}
        self._figures_since_evaluation: dict[str, list[NumpyArray]] = {}

    def add_figures(self, statistics: RoundStatistics) -> None:
        """Append the statistics of the next rounds, (rounds, ...)."""
        for name, values in statistics._asdict().items():
            self._add(f"{FIGURES}/{name}", values)
            self._figures_since_evaluation.setdefault(name, []).append(np.asarray(values))

    def latest_evaluation(self, lane: int | None) -> NewEvaluation:
        """Return the newest evaluation of one lane; valid until ``begin_interval`` is called."""
        rounds = self._parts[f"{EVALUATIONS}/round"][-1]
        return NewEvaluation(
            int(rounds[-1]),
            {
                name.split("/")[1]: parts[-1][-1, lane or 0]
                for name, parts in self._parts.items()
                if name.startswith(EVALUATIONS) and not name.endswith("/round")
            },
            {
                name: select_lane(np.concatenate(parts), lane)
                for name, parts in self._figures_since_evaluation.items()
            },
        )

    def iter_evaluations(self, lane: int | None) -> Iterator[NewEvaluation]:
        """Yield all evaluations of one lane so far."""
        figures, evaluations = self.records_of_lane(lane)
        begin = 0
        for i, round_ in enumerate(evaluations.get("round", ())):
            yield NewEvaluation(
                int(round_),
                {name: values[i] for name, values in evaluations.items() if name != "round"},
                {name: values[begin:round_] for name, values in figures.items()},
            )
            begin = int(round_)

    def begin_interval(self) -> None:
        """Count the statistics of the following rounds to the next evaluation."""
        self._figures_since_evaluation = {}

    def evaluate(
        self, round_: int,
        lanes: Sequence[tuple[AbstractAlgorithm[Any], Any, EvaluatedModels]],
        paging: Paging | None = None,
    ) -> NumpyArray:  # fmt: skip
        """Evaluate and record each lane's models.

        Args:
            round_: The number of completed rounds.
            lanes: Method and state of each lane, and what returns the models to evaluate.
            paging: The pages of the store, if the parties' models are in a file.

        Returns:
            The mean personal score of each lane, (lanes,).
        """
        if paging is None:
            results = [self._evaluate_state(*lane, *self._test, round_) for lane in lanes]
        else:
            results = [self._evaluate_pages(*lanes[0], paging, round_)]
        self._add(f"{EVALUATIONS}/round", np.array([round_]))
        for name in results[0]:
            self._add(f"{EVALUATIONS}/{name}", np.stack([result[name] for result in results])[None])
        return np.array([result["personal_score"].mean() for result in results])

    def _evaluate_pages(
        self, algorithm: AbstractAlgorithm[Any], state: Any, evaluated_models: EvaluatedModels,
        paging: Paging, round_: int,
    ) -> dict[str, NumpyArray]:  # fmt: skip
        """Return one evaluation of all parties, computed page by page."""
        blocks, rows = self._test
        count = max_blocks_per_page(blocks, paging.rows)
        results: dict[str, list[NumpyArray]] = {}
        for parties, page in paging.iter_pages(state):
            page_blocks = blocks_of_parties(blocks, parties, paging.rows, count)
            for name, values in self._evaluate_state(
                algorithm, page, evaluated_models, page_blocks, rows, round_
            ).items():
                results.setdefault(name, []).append(values[..., : len(parties)])
        return {name: np.concatenate(parts, axis=-1) for name, parts in results.items()}

    def _evaluate_state(
        self, algorithm: AbstractAlgorithm[Any], state: Any, evaluated_models: EvaluatedModels,
        blocks: Blocks, rows: int, round_: int,
    ) -> dict[str, NumpyArray]:  # fmt: skip
        """Return one evaluation of the parties whose rows are in the state."""
        unresolved, algorithm = algorithm, at_round(algorithm, max(round_ - 1, 0))
        w_global = algorithm.w_global(state)

        def test(models: Matrix) -> PartyScores:
            scores: PartyScores = evaluate_parties(self._model, rows, blocks, models)
            return scores

        common = test(w_global[None])
        norms: Any
        diverged: Any = None
        if algorithm.is_stateless() and not is_adapted(algorithm):
            personal, norms = common, np.zeros(len(blocks.size), w_global.dtype)
        else:
            w_local, diverged = evaluated_models(unresolved, state, round_)
            norms = np.zeros(len(blocks.size), w_global.dtype)
            if not algorithm.is_stateless():
                norms = personal_norms(algorithm, state, len(w_local))
            personal = test(w_local)
        result: dict[str, Any] = {
            "personal_score": personal.score,
            "personal_loss": personal.loss,
            "global_score": common.score,
            "global_loss": common.loss,
            "v_norm": norms,
        }
        if diverged is not None:
            result["adaptation_diverged"] = diverged
        if self._path:
            w_local = algorithm.local_models(state)
            scores = [test((1 - lam) * w_local + lam * w_global).score for lam in self._path]
            result["path_score"] = np.stack([to_host(score) for score in scores])
        if self._train is not None:
            assert isinstance(algorithm, FedPlus)
            train, train_rows = self._train
            losses = evaluate_parties(self._model, train_rows, train, state.w_local).loss
            result["objective"] = f_sigma(algorithm, losses, state, w_global)
            result["theorem_1"] = theorem_1_applies(unresolved, state, round_, self._setup)
        return {name: to_host(value) for name, value in result.items()}

    def _add(self, name: str, values: Any) -> None:
        self._parts.setdefault(name, []).append(np.asarray(values))

    def arrays(self) -> dict[str, NumpyArray]:
        """Return all records so far, by name, for a checkpoint."""
        self._parts = {name: [np.concatenate(parts)] for name, parts in self._parts.items()}
        return {name: parts[0] for name, parts in self._parts.items()}

    def restore(self, arrays: Mapping[str, NumpyArray]) -> None:
        """Replace the records with those of a checkpoint."""
        kinds = (FIGURES, EVALUATIONS)
        self._parts = {n: [a] for n, a in arrays.items() if n.split("/")[0] in kinds}
        last_evaluated = arrays.get(f"{EVALUATIONS}/round", [0])[-1]
        self._figures_since_evaluation = {
            name.split("/")[1]: [parts[0][last_evaluated:]]
            for name, parts in self._parts.items()
            if name.startswith(FIGURES)
        }

    def records_of_lane(
        self, lane: int | None
    ) -> tuple[dict[str, NumpyArray], dict[str, NumpyArray]]:
        """Return the figures and the evaluations of one lane."""
        records: dict[str, dict[str, NumpyArray]] = {FIGURES: {}, EVALUATIONS: {}}
        for path, values in self.arrays().items():
            kind, name = path.split("/")
            if kind == FIGURES:
                records[kind][name] = select_lane(values, lane)
            else:
                records[kind][name] = values if name == "round" else values[:, lane or 0]
        return records[FIGURES], records[EVALUATIONS]


def select_lane(values: NumpyArray, lane: int | None) -> NumpyArray:
    """Return the entries of one lane, from an array (rounds, lanes, ...) or one without lanes."""
    return values if lane is None else values[:, lane]


@jax.jit
def f_sigma(algorithm: FedPlus, losses: Vector, state: State, w_global: Vector) -> Array:
    """Return F_σ = (1/N) Σ_k f_k(w_k) + σ ψ̂(w_k − w̃) over the parties that count.

    Args:
        algorithm: The method.
        losses: (N,), the f_k(w_k).
        state: The state of the method.
        w_global: (d,), w̃.
    """
    envelope = jax.vmap(algorithm.psi.envelope)(state.w_local - w_global)
    counted = jnp.ones_like(losses)
    if not isinstance(state.joined, tuple):
        counted = state.joined.astype(losses.dtype)
    mean: Array = jnp.average(losses + algorithm.local.sigma * envelope, weights=counted)
    return mean


def theorem_1_applies(
    algorithm: AbstractAlgorithm[Any], state: State, round_: int, setup: Setup
) -> NumpyArray:
    """Return whether, by the paper's Theorem 1, F_σ may no longer rise after this number of rounds.

    η may change, if it stays small enough. With σ = 0, F_σ is the mean of the f_k, and all parties
    descend on their own f_k.
    """
    assert isinstance(algorithm, FedPlus)
    changing = algorithm.local.psi, algorithm.local.sigma, algorithm.local.lam, algorithm.aggregate
    now = at_round(algorithm, max(round_ - 1, 0))
    local, by_psi = now.local, Moreau(now.shared_psi)
    conditions = {
        "the settings are constant": constant_from(changing) < round_,
        "steps start at w_k": np.all(np.asarray(per_entry(local.lam)) == 0),
        "steps are gradient steps": local.optimizer == "sgd",
        "all steps train all layers": local.begin_step is None and local.end_step is None,
        "ψ defines 𝒜": now.aggregator in (by_psi, by_psi.solver),
        "w̃ is 𝒜(W)": now.server_optimizer is None,
        # Deviation D1.
        "𝒜 gets all models": now.over == "all" or is_everyone_active(setup.plan, setup.inputs),
        "all models count alike": setup.inputs.weights is None,
        "𝒜 gets the models as trained": not setup.plan.faults,
        "all parties have joined": isinstance(state.joined, tuple) or to_host(state.joined).all(),
    }
    return np.array(all(conditions.values()))


def require_objective(algorithms: Sequence[AbstractAlgorithm[Any]], stored: bool) -> None:
    """Require that F_σ can be recorded: for FedPlus, and with all models in memory."""
    for algorithm in algorithms:
        require(
            isinstance(algorithm, FedPlus), "objective", f"True for {type(algorithm).__name__}",
            "False for this method: F_σ is defined for FedPlus only",
        )  # fmt: skip
        assert isinstance(algorithm, FedPlus)
        is_number = not isinstance(algorithm.local.sigma, ByLayer)
        require(
            is_number, "objective", "True with a σ for each layer", "False unless σ is one number"
        )
    require(not stored, "objective", "True", "False with a store: it needs all models at once")


def personal_norms(algorithm: AbstractAlgorithm[Any], state: Any, parties: int) -> Array:
    """Return ‖v_k‖, (N,), one party after the other: all v_k together need as much memory as W."""
    norms: Array = _norms(algorithm, state, np.arange(parties, dtype=np.int32))
    return norms


@jax.jit
def _norms(algorithm: AbstractAlgorithm[Any], state: Any, parties: Array) -> Array:
    norms: Array = jax.lax.map(
        lambda k: jnp.linalg.norm(algorithm.personal_parts(state, k[None])[0]), parties
    )
    return norms
