"""Scores of the runs of Figure 4 and of the scaling study, by kind of model, and their averages.

**own** is the model that the method gives a party: w_k of Fed+, w̃ of FedAvg and the like (deviation
D7 in docs/deviations.md).
**served** is the same, but w̃ for a party that has not been active yet, whose w_k is still the initial
model. With 10 of 1,000 parties per round, that is a third of them after 100 rounds.
**common** is w̃ for every party.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedplus._types import NumpyArray
from fedplus.experiments.run_folder import RunFolder
from fedplus.methods import METHODS
from fedplus.models import Model, ravel
from fedplus.simulation.engine import keys_of_round
from fedplus.simulation.evaluate import summary
from fedplus.simulation.participation import Uniform

MODEL_KINDS = ("own", "served", "common")
AVERAGES = ("pooled", "mean")
"""Over all test samples, as in FedProx, or over the parties."""


@cache
def first_active_rounds(seed: int, rounds: int, cohort: int, parties: int) -> NumpyArray:
    """Return the first round, counted from 1, in which each party is active.

    Returns:
        Array of shape (N,); ``rounds + 1`` for a party that is never active.
    """
    key, sampler = jax.random.split(jax.random.key(seed))[1], Uniform(cohort)

    def cohort_of_round(t: Any) -> Any:
        return sampler(keys_of_round(key, t)[0], t, parties)[0]

    cohorts = np.asarray(jax.lax.map(cohort_of_round, np.arange(rounds)))
    first = np.full(parties, rounds + 1)
    for t in reversed(range(rounds)):
        first[cohorts[t]] = t + 1
    return first


def first_active_rounds_of_run(run: RunFolder) -> NumpyArray:
    """Return ``first_active_rounds`` for the parties of a run."""
    train = run.spec["train"]
    parties = run.status["parties"]
    return first_active_rounds(run.status["seed"], train["rounds"], train["cohort"], parties)


def has_personal_models(run: RunFolder) -> bool:
    """Return whether the method has both personal models and a global model."""
    name = run.status["method"]
    return METHODS[name].used_model == "own" and name != "local"


def scores_by_model(
    line: dict[str, Any], first_active: NumpyArray, personal: bool, is_local: bool
) -> dict[str, NumpyArray]:
    """Return the parties' scores in an evaluated round by kind of model.

    Args:
        line: The round's log line.
        first_active: First active round of each party.
        personal: Whether parties have models of their own next to a global model.
        is_local: Whether the method is local training, which has only own models.

    Returns:
        Kind of model ↦ array of shape (N,).
    """
    own, common = np.array(line["personal_score"]), np.array(line["global_score"])
    if is_local:
        return {"own": own}
    served = np.where(first_active <= line["round"], own, common) if personal else own
    return {"own": own, "served": served, "common": common}


def summarise_scores(
    scores: dict[str, NumpyArray], sizes: Sequence[int]
) -> dict[str, float | None]:
    """Return ``own_pooled``, ``own_mean``, ...; None for models that the method does not have.

    Args:
        scores: Kind of model ↦ the parties' scores.
        sizes: Number of test samples of each party.
    """
    averages: dict[str, float | None] = {}
    for kind in MODEL_KINDS:
        of_kind = summary(scores[kind], np.array(sizes)) if kind in scores else None
        averages |= {f"{kind}_{average}": getattr(of_kind, average, None) for average in AVERAGES}
    return averages


def score_curve(run: RunFolder) -> Iterator[dict[str, Any]]:
    """Yield the average scores of each evaluated round, and the share of parties active so far."""
    first, sizes = first_active_rounds_of_run(run), run.parties["test"]
    is_local = run.status["method"] == "local"
    for line in run.lines:
        scores = scores_by_model(line, first, has_personal_models(run), is_local)
        active = float((first <= line["round"]).mean())
        yield {"round": line["round"], "active": active, **summarise_scores(scores, sizes)}


def average_over_seeds(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean of each column, and the standard deviation of those that end in ``_pooled``."""
    averages: dict[str, Any] = {"seeds": len(records)}
    for name in records[0]:
        values = [record[name] for record in records if record[name] is not None]
        averages[name] = float(np.mean(values)) if values else None
        if name.endswith("_pooled"):
            averages[f"{name}_std"] = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return averages


def load_parameter_vector(path: Path, model: Model) -> NumpyArray:
    """Return the parameters in a safetensors file as one vector of shape (d,)."""
    from safetensors.numpy import load_file

    parts = load_file(path)
    layout = ravel(model.init(jax.random.key(0))).layout
    return np.concatenate([parts[name].ravel() for name, _ in layout])
