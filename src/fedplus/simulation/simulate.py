"""``simulate`` and ``sweep``: train a method on a federation for some rounds.

To resume a stopped run, repeat the call with the same ``checkpoint`` folder and ``resume=True``.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.sharding import Mesh

from fedplus.algorithm import AbstractAlgorithm
from fedplus.check import require, require_integer
from fedplus.data.federation import Federation
from fedplus.models import Model
from fedplus.simulation.checkpointing import Checkpointer
from fedplus.simulation.cpu_devices import first_replica, without_memory
from fedplus.simulation.divergence import (
    DivergenceMonitor,
    warn_of_given_up_steps,
)
from fedplus.simulation.engine import MAX_ROUNDS_PER_CALL, run_rounds
from fedplus.simulation.evaluated_models import EvaluatedModels
from fedplus.simulation.faults import Fault
from fedplus.simulation.interrupt import catch_interrupt
from fedplus.simulation.mesh import to_host
from fedplus.simulation.paging import open_paging
from fedplus.simulation.participation import AbstractCohort, Stragglers
from fedplus.simulation.progress import progress_bar
from fedplus.simulation.recorder import (
    NewEvaluation,
    Recorder,
    require_objective,
    select_lane,
)
from fedplus.simulation.round_statistics import RoundStatistics
from fedplus.simulation.run import Run
from fedplus.simulation.setup import set_up
from fedplus.simulation.trim_heap import compile_and_trim, trim_if_slow

SECONDS_PER_CALL = 0.5
"""The program returns to Python after about this time, for the progress bar and for Ctrl-C."""


def simulate(
    algorithm: AbstractAlgorithm[Any],
    federation: Federation,
    model: Model,
    *,
    rounds: int,
    cohort: int | AbstractCohort | None = None,
    steps: int | npt.ArrayLike | None = None,
    epochs: float | npt.ArrayLike | None = None,
    batch_size: int = 20,
    seed: int = 0,
    weights: npt.ArrayLike | Literal["size"] | None = None,
    stragglers: Stragglers | None = None,
    faults: Fault | Sequence[Fault] = (),
    evaluate_every: int | None = None,
    path: Sequence[float] = (),
    objective: bool = False,
    each: Literal["auto", "vmap", "map"] = "auto",
    mesh: Mesh | None = None,
    cores: int | Literal["auto"] = "auto",
    store: str | Path | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: int | None = None,
    resume: bool = False,
    progress: bool | str | None = None,
    observe: Callable[[NewEvaluation], None] | None = None,
) -> Run:
    """Train a method on a federation.

    Args:
        algorithm: A method, e.g. ``presets.fedgeomed_plus(eta=0.02, sigma=1.0, delta=0.1)``.
        federation: The parties' data.
        model: The model that the parties train.
        rounds: T.
        cohort: The number of parties in a round, drawn uniformly, or a rule such as ``Weighted`` or
            ``Trace``. None: all parties.
        steps: E_k, the number of minibatches in a round: one number, or one per party.
        epochs: The same in passes through a party's samples. Give either ``steps`` or ``epochs``.
        batch_size: B.
        seed: The seed of all random numbers; the same seed gives the same result.
        weights: The parties' weights in the aggregate, (N,), or "size" for their numbers of samples.
            None: equal weights.
        stragglers: Parties that do less local work than they should.
        faults: Parties that send wrong models.
        evaluate_every: The number of rounds between two evaluations; by default there are 20
            evaluations. The last round is always evaluated.
        path: Values λ for which (1 − λ) w_k + λ w̃ is evaluated, too (the paper's Figure 3).
        objective: Whether to record F_σ over all training samples, too.
        each: Train the parties of a cohort in parallel ("vmap") or sequentially ("map").
        mesh: Devices that share the work, on one machine or (with ``jax.distributed``) on several.
        cores: The number of CPU cores that share the parties of a round. "auto": all cores, if JAX is
            not initialised yet. The number changes results by rounding errors only.
        store: A folder for the parties' models if they do not fit into memory. It works only with
            ``FedPlus(..., over="active")``, e.g. ``presets.fedavg(...)``, not with the baselines.
        checkpoint: A folder for checkpoints.
        checkpoint_every: The number of rounds between two checkpoints; by default there is about one a
            minute.
        resume: Whether to continue from the newest checkpoint in that folder, if there is one. The
            settings must be the same as before; only ``rounds`` may be larger.
        progress: Whether to show a progress bar. None: on a terminal; a text: on a terminal, with this
            label.
        observe: A function that is called with every new evaluation. A resumed run calls it first with
            the evaluations that the checkpoint holds.

    Returns:
        The models, the statistics of every round and the evaluations.

    Raises:
        SettingError: An argument is invalid; nothing has been trained.
        DivergedError: The run makes no progress any more: the local steps of all active parties
            diverged, even with smaller steps, in one round or in several in a row, and these were 10
            parties or more than half of all. The last good checkpoint is kept. If only some parties
            gave up steps, a warning at the end of the run names them.

    >>> import fedplus as fp
    >>> federation = fp.data.load("digits-robust", parties=3)
    >>> method = fp.presets.fedavg(eta=0.02)
    >>> run = fp.simulate(method, federation, fp.models.logistic(64, 10), rounds=2, steps=5)
    >>> run.models.shape
    (3, 650)
    """
    arguments = dict(locals())
    for name in ("algorithm", "seed", "observe"):
        del arguments[name]
    observe_lane = None if observe is None else lambda lane, evaluation: observe(evaluation)
    (run,) = sweep([algorithm], seeds=[seed], observe=observe_lane, **arguments)
    return run


def sweep(
    algorithms: Sequence[AbstractAlgorithm[Any]], federation: Federation, model: Model, *,
    rounds: int, seeds: Sequence[int] = (0,), evaluate_every: int | None = None,
    path: Sequence[float] = (), objective: bool = False, checkpoint: str | Path | None = None,
    checkpoint_every: int | None = None, resume: bool = False,
    progress: bool | str | None = None,
    store: str | Path | None = None, diverged: Literal["raise", "count"] = "raise",
    observe: Callable[[int, NewEvaluation], None] | None = None, **settings: Any,
) -> list[Run]:  # fmt: skip
    """Train every method with every seed, all in one program.

    Args:
        algorithms: The methods, which must differ in numbers only (δ, σ, η): one preset with several
            settings.
        federation: The parties' data.
        model: The model that the parties train.
        rounds: T.
        seeds: The seeds of all random numbers; each method is trained with each of them.
        evaluate_every: As in ``simulate``.
        path: As in ``simulate``.
        objective: As in ``simulate``.
        checkpoint: As in ``simulate``.
        checkpoint_every: As in ``simulate``.
        resume: As in ``simulate``.
        progress: As in ``simulate``.
        store: As in ``simulate``.
        diverged: What happens if a run makes no progress any more because local steps diverge: "raise"
            raises a ``DivergedError`` as in ``simulate``, and "count" continues without these steps.
            ``figures["diverged"]`` counts how often steps diverged and were repeated.
        observe: A function that is called with the index of the run and each new evaluation.
        settings: Other arguments of ``simulate``.

    Returns:
        One run per method and seed: all seeds of the first method, then those of the second, ...

    Raises:
        SettingError: An argument is invalid; nothing has been trained.
        DivergedError: A run makes no progress any more, and ``diverged`` is "raise".
    """
    setup = set_up(
        algorithms,
        federation,
        model,
        rounds=rounds,
        seeds=seeds,
        paged=store is not None,
        keep_all_models=bool(path) or objective,
        **settings,
    )
    paging = None if store is None else open_paging(setup, Path(store), resume)
    if evaluate_every is not None:
        require_integer("evaluate_every", evaluate_every)
    every = evaluate_every or max(1, rounds // 20)
    if objective:
        require_objective(algorithms, stored=store is not None)
    evaluated_models = [EvaluatedModels(setup, lane) for lane in range(len(setup.runs))]
    recorder = Recorder(setup, path, objective)
    recorded = {"path": [float(lam) for lam in path], "objective": bool(objective)}
    checkpointer = Checkpointer.create(checkpoint, checkpoint_every, setup, recorded, paging)
    t, state = checkpointer.restore_or_start(setup.state, recorder, resume)
    require(t <= rounds, "rounds", rounds, f"at least {t}, the completed rounds of the checkpoint")
    lanes: Sequence[int | None] = range(len(setup.runs)) if setup.plan.has_lanes else [None]
    if observe is not None:
        for lane in lanes:
            for evaluation in recorder.iter_evaluations(lane):
                observe(lane or 0, evaluation)
    monitor = DivergenceMonitor(federation.names)
    if diverged == "raise" and t > 0:
        for lane in lanes:
            figures, _ = recorder.records_of_lane(lane)
            monitor.observe(lane or 0, figures["cohort"], figures["diverged"], 0)
    score_text, rounds_per_call = "", 1
    with progress_bar(rounds, t, progress) as show, catch_interrupt() as interrupt:
        if paging is None and t < rounds:
            state = compile_and_trim(setup, state, t)
        while t < rounds:
            next_evaluation = (t // every + 1) * every
            end = min(rounds, t + rounds_per_call, next_evaluation, checkpointer.next_stop(t))
            end = end if paging is None else min(end, t + paging.max_rounds)
            begin_time = time.perf_counter()
            if paging is None:
                state, log = run_rounds(
                    setup.plan, setup.inputs, setup.lane, state, np.int32(t), np.int32(end)
                )
            else:
                state, log = paging.run_rounds(state, t, end)
            statistics: RoundStatistics = to_host(log).read(end - t)
            if diverged == "raise":
                for lane in lanes:
                    monitor.observe(
                        lane or 0, select_lane(np.asarray(statistics.cohort), lane),
                        select_lane(np.asarray(statistics.diverged), lane), t, checkpointer.latest,
                    )  # fmt: skip
            rate = (end - t) / (time.perf_counter() - begin_time)
            most = min(MAX_ROUNDS_PER_CALL, 2 * rounds_per_call + 1)
            rounds_per_call = int(np.clip(rate * SECONDS_PER_CALL, 1, most))
            recorder.add_figures(statistics)
            t = end
            if t % every == 0 or t == rounds:
                with trim_if_slow():
                    one_state = first_replica(setup.plan.cores, state)
                    evaluated = [
                        (method, own, of_lane)
                        for (method, _, own), of_lane in zip(
                            setup.iter_lanes(one_state), evaluated_models, strict=True
                        )
                    ]
                    score = recorder.evaluate(t, evaluated, paging)
                score_text = f"{model.task.score_name} {score.mean():.4g}"
                if observe is not None:
                    for lane in lanes:
                        observe(lane or 0, recorder.latest_evaluation(lane))
                recorder.begin_interval()
            checkpointer.save_if_due(t, state, recorder, is_last=t == rounds)
            show(t, score_text)
            if interrupt.is_requested and t < rounds:
                raise KeyboardInterrupt(checkpointer.save_interrupted(t, state, recorder))
    state = first_replica(setup.plan.cores, state)
    if setup.plan.mesh is not None:
        state = jax.tree.map(jnp.asarray, to_host(state))
    runs = [
        Run(
            algorithm, federation, model, seed, without_memory(lane_state),
            *recorder.records_of_lane(lane), evaluated_models[lane or 0], paging,
        )
        for lane, (algorithm, seed, lane_state) in zip(lanes, setup.iter_lanes(state), strict=True)
    ]  # fmt: skip
    if diverged == "raise":
        for run in runs:
            warn_of_given_up_steps(federation.names, run.figures, run.evaluations)
    return runs
