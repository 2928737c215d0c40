"""Tune and test the methods of one family on one federation, and write a JSON file per method.

These files are the *pieces* of the study. A piece that exists is not computed again, so a
stopped study continues where it was.
"""

import json
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from papers.practice.candidates import draw_candidates, settings_at_edge
from papers.practice.federations import (
    Spec,
    layout_of,
    load_federation,
    load_grids,
    make_model,
    specs,
    untrained_scores,
)
from papers.practice.methods import FAMILIES, Context, Method, families

from fedplus.algorithm import AbstractAlgorithm
from fedplus.data.federation import Federation
from fedplus.files import write_atomically
from fedplus.kappa import KappaWarning
from fedplus.models import Model
from fedplus.simulation import Run, sweep
from fedplus.work import RETRIES

QUICK_CANDIDATES = 2
EVALUATIONS = 4
"""The number of evaluations of a tested run, at equal distances."""
MAX_LANES = 80
"""The largest number of runs in one program."""


class Job(NamedTuple):
    """One family of methods on one federation."""

    federation: str
    family: str
    quick: bool
    folder: str

    @property
    def spec(self) -> Spec:
        """The specification of the federation."""
        spec = specs()[self.federation]
        return spec.quick() if self.quick else spec

    @property
    def missing(self) -> dict[str, Method]:
        """The methods of the family that have no piece yet."""
        methods = families(FAMILIES[self.spec.families])[self.family]
        return {
            name: method
            for name, method in methods.items()
            if not piece_path(Path(self.folder), self.federation, name).exists()
        }


def piece_path(folder: Path, federation: str, method: str) -> Path:
    """Return the path of the result of a method on a federation."""
    return folder / f"{federation}--{method}.json"


def all_jobs(folder: Path, only: Sequence[str], methods: Sequence[str], quick: bool) -> list[Job]:
    """Return the jobs that have a missing piece.

    Args:
        folder: The folder of the pieces.
        only: A federation is used if its name contains one of these texts. An empty sequence means all.
        methods: Families of methods. An empty sequence means all.
        quick: Whether the jobs are short trials.
    """
    jobs = [
        Job(spec.name, family, quick, str(folder))
        for spec in specs().values()
        if not only or any(text in spec.name for text in only)
        for family in families(FAMILIES[spec.families])
        if not methods or family in methods
    ]
    missing = [job for job in jobs if job.missing]
    # MNIST takes longest, so it starts first.
    return sorted(missing, key=lambda job: not job.spec.data.startswith("mnist"))


def run_job(job: Job) -> float:
    """Tune all methods of a family on validation samples, test them, and write their pieces.

    Returns:
        The seconds that it took.
    """
    begin = time.perf_counter()
    warnings.simplefilter("ignore", KappaWarning)
    spec, methods = job.spec, job.missing
    budget = load_grids()["budget"]
    candidates = {name: draw_candidates(spec, method) for name, method in methods.items()}
    if job.quick:
        candidates = {name: found[:QUICK_CANDIDATES] for name, found in candidates.items()}
    trials = {name: [_new_trial(c) for c in found] for name, found in candidates.items()}
    for split in spec.splits:
        federation = load_federation(spec, split, budget["validation_share"])
        assert federation.validation is not None
        federation = federation._replace(test=federation.validation, validation=None)
        context = _context(spec, make_model(spec, federation))
        built = {
            (name, i): methods[name].make(candidate, context)
            for name, found in candidates.items()
            for i, candidate in enumerate(found)
        }
        for (name, i), run in _run_all(spec, federation, built, split, spec.rounds).items():
            trials[name][i]["scores"].append(_mean_score(spec, run))
            trials[name][i]["gave_up"] += int(_divergences(run)[1].sum())
    tuned = time.perf_counter()
    chosen = {
        name: choose(found, make_model(spec, federation).task.better)
        for name, found in trials.items()
    }
    seeds = budget["seeds"][:1] if job.quick else budget["seeds"]
    tests: dict[str, list[dict[str, Any]]] = {name: [] for name in methods}
    for seed in seeds:
        federation = load_federation(spec, seed)
        model = make_model(spec, federation)
        context = _context(spec, model)
        built = {
            (name, 0): methods[name].make(s["settings"], context) for name, s in chosen.items()
        }
        runs = _run_all(spec, federation, built, seed, spec.rounds // EVALUATIONS, attacked=True)
        untrained = untrained_scores(federation, model, seed)
        for (name, _), run in runs.items():
            tests[name].append(_test_record(spec, run, untrained))
    seconds = time.perf_counter() - begin
    for name, method in methods.items():
        piece = {
            "federation": spec.name, "method": name, "quick": job.quick,
            "better": model.task.better, "sizes": federation.train.size.tolist(),
            "settings": chosen[name]["settings"], "validation": chosen[name]["mean"],
            "at_edge": settings_at_edge(spec, method, chosen[name]["settings"]),
            "trials": trials[name], "tests": tests[name],
            "seconds": {"tune": round(tuned - begin, 1), "all": round(seconds, 1)},
            "machine": jax.devices()[0].device_kind,
        }  # fmt: skip
        path = piece_path(Path(job.folder), spec.name, name)
        write_atomically(path, json.dumps(piece).encode())
    return seconds


def choose(trials: Sequence[dict[str, Any]], better: str) -> dict[str, Any]:
    """Return the trial with the best mean validation score over the splits.

    A trial in which a party gave up steps, because they diverged even with smaller step sizes, is
    chosen only if all trials have such a party.

    >>> trials = [{"settings": s, "scores": [x], "gave_up": g}
    ...           for s, x, g in (("a", 0.7, 0), ("b", 0.9, 3), ("c", 0.8, 0))]
    >>> choose(trials, "higher")["settings"]
    'c'
    """
    sign = -1.0 if better == "higher" else 1.0

    def rank(trial: Mapping[str, Any]) -> tuple[bool, bool, float]:
        mean = float(np.mean(trial["scores"]))
        return not np.isfinite(mean), trial["gave_up"] > 0, sign * mean

    best = min(trials, key=rank)
    return {**best, "mean": float(np.mean(best["scores"]))}


def _new_trial(settings: dict[str, Any]) -> dict[str, Any]:
    return {"settings": settings, "scores": [], "gave_up": 0}


def _context(spec: Spec, model: Model) -> Context:
    return Context(spec.rounds, spec.steps, layout_of(model))


def _run_all(
    spec: Spec, federation: Federation, methods: Mapping[Any, AbstractAlgorithm[Any]], seed: int,
    evaluate_every: int, attacked: bool = False,
) -> dict[Any, Run]:  # fmt: skip
    """Train all methods; those that differ only in numbers share one compiled program."""
    model = make_model(spec, federation)
    groups: dict[str, list[Any]] = {}
    for key, method in methods.items():
        groups.setdefault(str(jax.tree.structure(method)), []).append(key)
    runs: dict[Any, Run] = {}
    for keys in groups.values():
        for first in range(0, len(keys), MAX_LANES):
            part = keys[first : first + MAX_LANES]
            swept = sweep(
                [methods[key] for key in part], federation, model, rounds=spec.rounds,
                cohort=spec.cohort, steps=spec.steps, batch_size=spec.batch_size, seeds=[seed],
                evaluate_every=max(1, evaluate_every), diverged="count",
                faults=spec.faults if attacked else (), each="vmap",
            )  # fmt: skip
            runs |= dict(zip(part, swept, strict=True))
    return runs


def _judged(spec: Spec, scores: Any) -> Any:
    """Return the part of the scores, shape (..., N), of all parties but the attackers."""
    return np.asarray(scores)[..., : np.shape(scores)[-1] - spec.attackers]


def _mean_score(spec: Spec, run: Run) -> float:
    return float(_judged(spec, run.evaluations["personal_score"][-1]).mean())


def _divergences(run: Run) -> tuple[Any, Any]:
    """Return the number of rounds with repeated and with given-up steps, two arrays of shape (N,)."""
    parties = run.federation.parties
    cohort, times = np.asarray(run.figures["cohort"]), np.asarray(run.figures["diverged"])
    repeated = np.bincount(cohort.ravel(), (times > 0).ravel(), parties)
    gave_up = np.bincount(cohort.ravel(), (times > RETRIES).ravel(), parties)
    return repeated.astype(int), gave_up.astype(int)


def _test_record(spec: Spec, run: Run, untrained: Any) -> dict[str, Any]:
    """Return the scores and divergences of each judged party, and the mean score over the rounds."""
    scores = _judged(spec, run.evaluations["personal_score"])
    repeated, gave_up = (_judged(spec, counts).tolist() for counts in _divergences(run))
    return {
        "seed": run.seed, "score": _rounded(scores[-1]),
        "untrained": _rounded(_judged(spec, untrained)),
        "curve": [
            [int(t), float(f"{mean:.6g}")]
            for t, mean in zip(run.evaluations["round"], scores.mean(axis=1), strict=True)
        ],
        "repeated": repeated, "gave_up": gave_up,
    }  # fmt: skip


def _rounded(numbers: Any) -> list[float]:
    return [float(f"{x:.6g}") for x in np.asarray(numbers, float)]
