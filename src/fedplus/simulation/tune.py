"""``tune``: choose the settings of a method on validation samples."""

import inspect
import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from fedplus.algorithm import AbstractAlgorithm
from fedplus.check import require, require_integer
from fedplus.data.federation import Federation
from fedplus.data.split import Split
from fedplus.kappa import KappaWarning
from fedplus.models import Model
from fedplus.simulation.simulate import sweep
from fedplus.work import RETRIES

MAX_LANES = 16
"""The largest number of runs in one program."""


class Trial(NamedTuple):
    """One candidate and its score on the validation samples."""

    settings: Mapping[str, Any]
    mean: float
    """The mean score over parties and seeds; NaN if the candidate diverged."""
    std: float
    """The standard deviation over the seeds."""
    diverged: bool
    """True if a party's steps diverged under any seed even with the smallest step sizes, or its
    score is not finite."""


class TuningResult(NamedTuple):
    """The chosen settings and all trials."""

    method: AbstractAlgorithm[Any]
    """The method with the chosen settings."""
    settings: Mapping[str, Any]
    """The chosen settings."""
    score: float
    """The mean validation score of the chosen settings."""
    trials: tuple[Trial, ...]
    """All trials, the best first."""
    at_edge: tuple[str, ...]
    """Settings whose chosen value is the least or the largest of the grid: try values beyond it."""

    def __str__(self) -> str:
        lines = [f"{'validation score':>20}  settings"]
        for trial in self.trials:
            score = "diverged" if trial.diverged else f"{trial.mean:.4f} ± {trial.std:.4f}"
            settings = ", ".join(f"{name}={_format(x)}" for name, x in trial.settings.items())
            lines.append(f"{score:>20}  {settings}")
        if self.at_edge:
            lines.append(f"Best value at the edge of the grid: {', '.join(self.at_edge)}.")
        return "\n".join(lines)


def tune(
    make: Callable[..., AbstractAlgorithm[Any]], grid: Mapping[str, Sequence[Any]],
    federation: Federation, model: Model, *, rounds: int, seeds: Sequence[int] = (0,),
    samples: int | None = None, seed: int = 0, **settings: Any,
) -> TuningResult:  # fmt: skip
    """Run a method with several settings and choose the best by the validation score.

    Candidates run as one program if they differ in numbers only: in the values of settings such as η,
    σ and δ, but not in ψ, the aggregator or other settings that are no numbers. Test samples are not
    used.

    Args:
        make: Returns the method for given settings: a preset, or a class such as ``baselines.Ditto``.
        grid: The values to try for each setting; a setting that is fixed has one value.
        federation: A federation with validation samples (``validation_share``).
        model: The model that the parties train.
        rounds: T of each candidate.
        seeds: Each candidate runs with each seed; the mean score decides.
        samples: The number of combinations to try, drawn at random. None: all combinations.
        seed: The seed of that draw.
        **settings: Arguments of ``simulate``: cohort, steps or epochs, batch_size, ...

    Returns:
        The best method and all trials. A candidate with which a party's steps diverged, even with the
        smallest step sizes, is never chosen.

    Raises:
        SettingError: An argument is invalid, or all candidates diverged.

    >>> import fedplus as fp
    >>> federation = fp.data.load("digits-robust", validation_share=0.2, parties=3)
    >>> tuned = fp.tune(
    ...     fp.presets.fedavg, {"eta": (1e-4, 0.1)}, federation, fp.models.logistic(64, 10),
    ...     rounds=5, steps=10,
    ... )
    >>> tuned.settings, tuned.at_edge
    ({'eta': 0.1}, ('eta',))
    """
    require(bool(grid), "grid", "no settings", "values to try for at least one setting")
    for name, values in grid.items():
        ok = isinstance(values, (Sequence, np.ndarray)) and not isinstance(values, str)
        require(ok and len(values) > 0, f"grid[{name!r}]", repr(values), "a list of values to try")
    grid = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in grid.items()}
    parameters = inspect.signature(make).parameters
    for name in grid:
        require(
            name in parameters, "grid", name, f"settings of the method: {', '.join(parameters)}"
        )
    missing = [n for n, p in parameters.items() if p.default is p.empty and n not in grid]
    require(not missing, "grid", ", ".join(grid), f"complete; it lacks {', '.join(missing)}")
    has_seeds = isinstance(seeds, (Sequence, range)) and len(seeds) > 0
    require(has_seeds, "seeds", repr(seeds), "at least one, e.g. (0, 1, 2)")
    candidates = [
        dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())
    ]
    if samples is not None:
        require_integer("samples", samples)
        chosen = np.random.default_rng(seed).permutation(len(candidates))[:samples]
        candidates = [candidates[i] for i in sorted(chosen.tolist())]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KappaWarning)  # It matters for the chosen settings only.
        methods = [make(**candidate) for candidate in candidates]
    validated = _test_on_validation(federation, methods[0].needs_validation)
    trials: list[Trial] = []
    for indices in _group_by_structure(methods, max(1, MAX_LANES // len(seeds))):
        runs = sweep(
            [methods[i] for i in indices], validated, model, rounds=rounds, seeds=seeds,
            evaluate_every=rounds, diverged="count", **settings,
        )  # fmt: skip
        for position, i in enumerate(indices):
            own_runs = runs[position * len(seeds) : (position + 1) * len(seeds)]
            trials.append(_make_trial(candidates[i], own_runs))
    sign = 1.0 if model.task.better == "lower" else -1.0
    trials.sort(key=lambda trial: (trial.diverged, sign * trial.mean))
    best = trials[0]
    require(
        not best.diverged, "grid", f"{len(trials)} candidates that all diverged",
        "settings of which at least one does not diverge",
        "Try a tenth of the learning rates, or scale the inputs.",
    )  # fmt: skip
    edge = tuple(name for name, values in grid.items() if is_at_edge(best.settings[name], values))
    return TuningResult(make(**best.settings), best.settings, best.mean, tuple(trials), edge)


def _test_on_validation(federation: Federation, needs_validation: bool) -> Federation:
    """Return the federation with its validation samples in the place of its test samples.

    If the method itself needs validation samples, each of the two purposes gets half of them.
    """
    validation = federation.validation
    require(
        validation is not None, "federation", "no validation samples", "one with validation samples",
        "Set validation_share to 0.2; settings must not be chosen on test samples.",
    )  # fmt: skip
    assert validation is not None
    if not needs_validation:
        return federation._replace(test=validation, validation=None)
    require(
        bool(validation.size.min() >= 2), "federation", "a party with one validation sample",
        "one with at least two validation samples per party, because this method trains with some",
    )  # fmt: skip
    pairs = [validation.party(k) for k in range(federation.parties)]
    halves = [
        Split.from_parties([(x[part], y[part]) for x, y in pairs])
        for part in (slice(None, None, 2), slice(1, None, 2))
    ]
    return federation._replace(test=halves[0], validation=halves[1])


def _group_by_structure(
    methods: Sequence[AbstractAlgorithm[Any]], most: int
) -> Iterator[list[int]]:
    """Yield the indices of methods that can run as one program, at most ``most`` at a time."""
    groups: dict[str, list[int]] = {}
    for i, method in enumerate(methods):
        groups.setdefault(str(jax.tree.structure(method)), []).append(i)
    for indices in groups.values():
        for first in range(0, len(indices), most):
            yield indices[first : first + most]


def _make_trial(candidate: Mapping[str, Any], runs: Sequence[Any]) -> Trial:
    means = np.array([run.summary().mean for run in runs])
    gave_up = any(bool((run.figures["diverged"] > RETRIES).any()) for run in runs)
    diverged = gave_up or not bool(np.isfinite(means).all())
    mean = float("nan") if diverged else float(means.mean())
    return Trial(candidate, mean, float(means.std()), diverged)


def is_at_edge(value: Any, values: Sequence[Any]) -> bool:
    """Return whether the value is the least or the largest of several numbers."""
    numbers = [v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool)]
    return len(set(numbers)) > 1 and value in (min(numbers), max(numbers))


def _format(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
