"""``simulate``: a method, a federation and a model, for some rounds."""

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
from fedplus.simulation.checkpointing import Checkpointing
from fedplus.simulation.cpu_devices import first_replica, without_memory
from fedplus.simulation.engine import CAPACITY, run_rounds
from fedplus.simulation.evaluated_models import EvaluatedModels
from fedplus.simulation.faults import Fault
from fedplus.simulation.interrupt import catch_interrupt
from fedplus.simulation.memory import memory_of_compiled, run_and_trim
from fedplus.simulation.mesh import to_host
from fedplus.simulation.paging import open_paging
from fedplus.simulation.progress import progress as shown
from fedplus.simulation.recorder import NewEvaluation, Recorder, require_objective
from fedplus.simulation.round_statistics import RoundStatistics
from fedplus.simulation.run import Run
from fedplus.simulation.schedule import AbstractCohort, Stragglers
from fedplus.simulation.setup import Setup, set_up

PAUSE = 0.5
"""Seconds that the program runs, more or less, before it lets Python look up."""


class DivergedError(RuntimeError):
    """A party's model went to NaN or Inf."""


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
    """Train, and return the run: the models, figures of every round, evaluations.

    Args:
        algorithm: A method, e.g. ``presets.fedgeomed_plus(eta=0.02, sigma=1.0, delta=0.1)``.
        federation: The parties' data.
        model: What they train.
        rounds: T.
        cohort: How many parties take part in a round, drawn uniformly; or ``Weighted``, ``Trace``.
            None: all.
        steps: E_k, minibatches a round: one number, or one a party.
        epochs: The same, in passes through a party's samples. Give one of the two.
        batch_size: B.
        seed: Of everything random: same seed, same result.
        weights: Of the parties in the aggregate: "size" for their numbers of samples, or (N,).
        stragglers: Parties that do less than they should.
        faults: Parties that send wrong models.
        evaluate_every: So many rounds; by default there are 20 evaluations. The last round always is.
        path: Judge also (1 − λ) w_k + λ w̃ for these λ (the paper's Figure 3).
        objective: Record also F_σ over all training samples.
        each: Parties of a cohort all at once ("vmap") or one after the other ("map").
        mesh: Devices that share the work, on one machine or (``jax.distributed``) on several.
        cores: How many of a CPU's cores share the parties of a round; "auto": all of them, if JAX has
            computed nothing before. With another number results differ by rounding.
        store: A folder to keep the parties' models in where they outgrow memory; for methods that
            aggregate the active parties alone (``over="active"``).
        checkpoint: A folder to keep checkpoints in.
        checkpoint_every: So many rounds; by default about once a minute.
        resume: Go on from the newest checkpoint in that folder, if there is one.
        progress: Show a progress bar; None: on a terminal; a text: on a terminal, with this text.
        observe: Called with what is new after every evaluation; of a run that goes on from a
            checkpoint, first with the evaluations that it holds.

    Raises:
        SettingError: Something does not fit; nothing has been trained.
        DivergedError: A party's model went to NaN or Inf; the last good checkpoint is kept.
    """
    given = dict(locals())
    for name in ("algorithm", "seed", "observe"):
        del given[name]
    one = None if observe is None else lambda lane, evaluated: observe(evaluated)
    (run,) = sweep([algorithm], seeds=[seed], observe=one, **given)
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
    """Several runs as one program: every method with every seed, in that order.

    The methods must differ in numbers alone (δ, σ, η): the same preset with other settings. With
    ``diverged="count"`` a run in which a party's model went to NaN or Inf goes on without that party's
    steps, and ``figures["diverged"]`` tells. ``observe`` gets the number of the run, too. All other
    arguments are those of ``simulate``.
    """
    setup = set_up(
        algorithms,
        federation,
        model,
        rounds=rounds,
        seeds=seeds,
        paged=store is not None,
        keep=bool(path) or objective,
        **settings,
    )
    pages = None if store is None else open_paging(setup, Path(store), resume)
    if evaluate_every is not None:
        require_integer("evaluate_every", evaluate_every)
    every = evaluate_every or max(1, rounds // 20)
    if objective:
        require_objective(algorithms, stored=store is not None)
    judged = EvaluatedModels(setup)
    book = Recorder(federation, model, path, objective, judged, setup.plan.mesh)
    recorded = {"path": [float(lam) for lam in path], "objective": bool(objective)}
    keeper = Checkpointing.of(checkpoint, checkpoint_every, setup, recorded, pages)
    t, state = keeper.begin(setup.state, book, resume)
    require(t <= rounds, "rounds", rounds, f"at least {t}, the rounds that the checkpoint has done")
    lanes: Sequence[int | None] = range(len(setup.runs)) if setup.plan.lanes else [None]
    if observe is not None:
        for lane in lanes:
            for one in book.earlier(lane):
                observe(lane or 0, one)
    said, budget = "", 1
    with shown(rounds, t, progress) as show, catch_interrupt() as interrupt:
        if pages is None and t < rounds:
            state = memory_of_compiled(setup, state, t)
        while t < rounds:
            end = min(rounds, t + budget, (t // every + 1) * every, keeper.next_stop(t))
            end = end if pages is None else min(end, t + pages.most_rounds)
            begun = time.perf_counter()
            if pages is None:
                state, told = run_rounds(
                    setup.plan, setup.inputs, setup.lane, state, np.int32(t), np.int32(end)
                )
            else:
                state, told = pages.play(state, t, end)
            figures: RoundStatistics = to_host(told).read(end - t)
            if diverged == "raise":
                _require_finite(figures, t, setup, keeper.saved)
            rate = (end - t) / (time.perf_counter() - begun)
            budget = int(np.clip(rate * PAUSE, 1, min(CAPACITY, 2 * budget + 1)))
            book.add_figures(figures)
            t = end
            if t % every == 0 or t == rounds:
                with run_and_trim():
                    score = book.evaluate(
                        t, setup.split(first_replica(setup.plan.cores, state)), pages
                    )
                said = f"{model.task.score_name} {score.mean():.4g}"
                if observe is not None:
                    for lane in lanes:
                        observe(lane or 0, book.newest(lane))
                book.forget_fresh()
            keeper.offer(t, state, book, last=t == rounds)
            show(t, said)
            if interrupt.asked and t < rounds:
                raise KeyboardInterrupt(keeper.interrupted(t, state, book))
    state = first_replica(setup.plan.cores, state)
    if setup.plan.mesh is not None:
        state = jax.tree.map(jnp.asarray, to_host(state))
    return [
        Run(
            algorithm, federation, model, seed, without_memory(one), *book.of_lane(lane), judged,
            pages,
        )
        for lane, (algorithm, seed, one) in zip(lanes, setup.finished(state), strict=True)
    ]  # fmt: skip


def _require_finite(figures: RoundStatistics, begin: int, setup: Setup, saved: Path | None) -> None:
    diverged = np.asarray(figures.diverged)
    if not diverged.any():
        return
    first = int(diverged.reshape(len(diverged), -1).any(axis=1).argmax())
    which = np.unique(np.asarray(figures.cohort)[first][diverged[first]])
    names = [repr(setup.federation.names[k]) for k in which[:5]]
    told = ", ".join(names) + (", …" if len(which) > 5 else "")
    kept = f" The last good checkpoint is {saved}." if saved else ""
    raise DivergedError(
        f"In round {begin + first + 1} the models of {len(which)} parties ({told}) went to NaN or Inf. "
        "A learning rate that is too high for the data does that: try a tenth of eta, or scale the "
        f"inputs.{kept}"
    )
