"""How runs of Figure 4 and of the scaling study are judged: whose model, and how parties are added up.

**own**: the model that the method gives a party: w_k of Fed+, w̃ of FedAvg and its like (D7).
**served**: the same, but w̃ for a party that has not been active yet, whose w_k is still the first
model: with 10 of 1,000 parties a round that is a third of them after 100 rounds.
**common**: w̃ for everyone.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import jax
import numpy as np

from fedplus._types import Host
from fedplus.experiments.run_folder import RunFolder
from fedplus.methods import METHODS
from fedplus.simulation.engine import keys_of_round
from fedplus.simulation.evaluate import summary
from fedplus.simulation.schedule import Uniform

KINDS = ("own", "served", "common")
WAYS = ("pooled", "mean")
"""Every test sample counts the same, as in FedProx; every party does."""


@cache
def first_active(seed: int, rounds: int, cohort: int, parties: int) -> Host:
    """(N,): the round, from 1 on, in which each party is first active; more than ``rounds``: never."""
    key, who = jax.random.split(jax.random.key(seed))[1], Uniform(cohort)

    def of_round(t: Any) -> Any:
        return who(keys_of_round(key, t)[0], t, parties)[0]

    cohorts = np.asarray(jax.lax.map(of_round, np.arange(rounds)))
    first = np.full(parties, rounds + 1)
    for t in reversed(range(rounds)):
        first[cohorts[t]] = t + 1
    return first


def first_of(run: RunFolder) -> Host:
    """The same of a run's parties."""
    train = run.spec["train"]
    parties = run.status["parties"]
    return first_active(run.status["seed"], train["rounds"], train["cohort"], parties)


def is_personal(run: RunFolder) -> bool:
    """Whether its parties have models of their own and a server has one beside them."""
    name = run.status["method"]
    return METHODS[name].judged == "own" and name != "local"


def scores(line: dict[str, Any], first: Host, personal: bool, alone: bool) -> dict[str, Host]:
    """(N,) each: of an evaluated round by whose model; of local training its own alone."""
    own, common = np.array(line["personal_score"]), np.array(line["global_score"])
    if alone:
        return {"own": own}
    served = np.where(first <= line["round"], own, common) if personal else own
    return {"own": own, "served": served, "common": common}


def added_up(of: dict[str, Host], size: Sequence[int]) -> dict[str, float | None]:
    """``own_pooled``, ``own_mean``, ...: None for what there is not."""
    found: dict[str, float | None] = {}
    for kind in KINDS:
        told = summary(of[kind], np.array(size)) if kind in of else None
        found |= {f"{kind}_{way}": getattr(told, way, None) for way in WAYS}
    return found


def curve(run: RunFolder) -> Iterator[dict[str, Any]]:
    """Each evaluated round in a few numbers."""
    first, size, alone = first_of(run), run.parties["test"], run.status["method"] == "local"
    for line in run.lines:
        of = scores(line, first, is_personal(run), alone)
        active = float((first <= line["round"]).mean())
        yield {"round": line["round"], "active": active, **added_up(of, size)}


def over_seeds(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The mean of each number, and of the pooled ones the standard deviation."""
    made: dict[str, Any] = {"seeds": len(found)}
    for name in found[0]:
        known = [one[name] for one in found if one[name] is not None]
        made[name] = float(np.mean(known)) if known else None
        if name.endswith("_pooled"):
            made[f"{name}_std"] = float(np.std(known, ddof=1)) if len(known) > 1 else None
    return made
