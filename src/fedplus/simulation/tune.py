"""``tune``: the settings of a method, chosen on validation samples, the same way for every method."""

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

LANES = 16
"""The most runs that are one program."""


class Trial(NamedTuple):
    """One candidate and how it did on the validation samples."""

    settings: Mapping[str, Any]
    mean: float
    """Over parties and seeds; NaN if it diverged."""
    std: float
    """Over the seeds."""
    diverged: bool
    """Whether a party's model went to NaN or Inf under any seed."""


class Tuned(NamedTuple):
    """What was chosen, and everything that was tried."""

    method: AbstractAlgorithm[Any]
    settings: Mapping[str, Any]
    score: float
    trials: tuple[Trial, ...]
    """The best first."""
    at_edge: tuple[str, ...]
    """Settings whose chosen value is the least or largest that was tried: try beyond."""

    def __str__(self) -> str:
        lines = [f"{'validation score':>20}  settings"]
        for trial in self.trials:
            told = "diverged" if trial.diverged else f"{trial.mean:.4f} ± {trial.std:.4f}"
            shown = ", ".join(f"{name}={_short(value)}" for name, value in trial.settings.items())
            lines.append(f"{told:>20}  {shown}")
        if self.at_edge:
            lines.append(f"The best {', '.join(self.at_edge)} is at the edge of what was tried.")
        return "\n".join(lines)


def tune(
    make: Callable[..., AbstractAlgorithm[Any]], grid: Mapping[str, Sequence[Any]],
    federation: Federation, model: Model, *, rounds: int, seeds: Sequence[int] = (0,),
    samples: int | None = None, seed: int = 0, **settings: Any,
) -> Tuned:  # fmt: skip
    """Try settings of a method and take the best; only validation samples judge.

    Candidates that differ in numbers alone run as one program. Test samples play no part.

    Args:
        make: Makes the method of its settings: a preset, or a class such as ``baselines.Ditto``.
        grid: Values to try for each setting; one value where there is nothing to choose.
        federation: With validation samples (``validation_share``).
        model: What the parties train.
        rounds: T, of each candidate.
        seeds: Each candidate is run with each; the mean decides.
        samples: Try so many combinations drawn at random, instead of all.
        seed: Of that draw.
        **settings: As for ``simulate``: cohort, steps or epochs, batch_size, ...

    Returns:
        The best method and all trials. A candidate under which any party diverged is never chosen.

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
    known = inspect.signature(make).parameters
    for name in grid:
        require(name in known, "grid", name, f"settings of the method: {', '.join(known)}")
    missing = [n for n, p in known.items() if p.default is p.empty and n not in grid]
    require(not missing, "grid", ", ".join(grid), f"given with {', '.join(missing)}")
    some = isinstance(seeds, (Sequence, range)) and len(seeds) > 0
    require(some, "seeds", repr(seeds), "at least one, e.g. (0, 1, 2)")
    candidates = [
        dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())
    ]
    if samples is not None:
        require_integer("samples", samples)
        chosen = np.random.default_rng(seed).permutation(len(candidates))[:samples]
        candidates = [candidates[i] for i in sorted(chosen.tolist())]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KappaWarning)  # Only what is chosen need be sensible.
        methods = [make(**candidate) for candidate in candidates]
    judged = _on_validation(federation, methods[0].compares)
    trials: list[Trial] = []
    for batch in _alike(methods, max(1, LANES // len(seeds))):
        runs = sweep(
            [methods[i] for i in batch], judged, model, rounds=rounds, seeds=seeds,
            evaluate_every=rounds, diverged="count", **settings,
        )  # fmt: skip
        for place, i in enumerate(batch):
            mine = runs[place * len(seeds) : (place + 1) * len(seeds)]
            trials.append(_trial(candidates[i], mine))
    sign = 1.0 if model.task.better == "lower" else -1.0
    trials.sort(key=lambda trial: (trial.diverged, sign * trial.mean))
    best = trials[0]
    require(
        not best.diverged, "grid", f"{len(trials)} candidates that all diverged",
        "settings of which one trains", "Try a tenth of the learning rates, or scale the inputs.",
    )  # fmt: skip
    edge = tuple(name for name, values in grid.items() if is_at_edge(best.settings[name], values))
    return Tuned(make(**best.settings), best.settings, best.mean, tuple(trials), edge)


def _on_validation(federation: Federation, compares: bool) -> Federation:
    """The federation judged on its validation samples; half of them, where the method uses the rest."""
    held = federation.validation
    require(
        held is not None, "federation", "no validation samples", "one with validation samples",
        "Set validation_share=0.2: nothing may be chosen on test samples.",
    )  # fmt: skip
    assert held is not None
    if not compares:
        return federation._replace(test=held, validation=None)
    require(
        bool(held.size.min() >= 2), "federation", "a party with one validation sample",
        "one with at least two a party, for this method trains with some",
    )  # fmt: skip
    pairs = [held.party(k) for k in range(federation.parties)]
    halves = [
        Split.of([(x[part], y[part]) for x, y in pairs])
        for part in (slice(None, None, 2), slice(1, None, 2))
    ]
    return federation._replace(test=halves[0], validation=halves[1])


def _alike(methods: Sequence[AbstractAlgorithm[Any]], most: int) -> Iterator[list[int]]:
    """Numbers of methods that can run as one program, at most so many at a time."""
    kinds: dict[str, list[int]] = {}
    for i, method in enumerate(methods):
        kinds.setdefault(str(jax.tree.structure(method)), []).append(i)
    for alike in kinds.values():
        for first in range(0, len(alike), most):
            yield alike[first : first + most]


def _trial(candidate: Mapping[str, Any], runs: Sequence[Any]) -> Trial:
    diverged = any(bool(run.figures["diverged"].any()) for run in runs)
    means = np.array([run.summary().mean for run in runs])
    mean = float("nan") if diverged else float(means.mean())
    return Trial(candidate, mean, float(means.std()), diverged)


def is_at_edge(value: Any, values: Sequence[Any]) -> bool:
    """Whether it is the least or the largest number of several."""
    numbers = [v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool)]
    return len(set(numbers)) > 1 and value in (min(numbers), max(numbers))


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
