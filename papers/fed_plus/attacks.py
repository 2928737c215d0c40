"""Attacks: honest parties' accuracy as the share of parties that send wrong models grows."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from papers.fed_plus.results import csv_of, json_of
from papers.fed_plus.specs import spec, wanted
from papers.fed_plus.study import Asked, Files, Study
from papers.fed_plus.training import runs_of, trained

from fedplus.experiments.run_folder import RunFolder
from fedplus.experiments.spec import Fault, Spec, to_toml
from papers.fed_plus import attacks_plot, attacks_text, tuning

NAME = "attacks"
BY = "tuning-attacks"
ATTACKS: dict[str, dict[str, float]] = {
    "sign_flip": {"scale": 3.0},
    "scaling": {"scale": 10.0},
    "gaussian": {"scale": 1.0},
    "a_little_is_enough": {"z": 1.5},
    "inner_product": {"epsilon": 2.0},
}
SHARES = (0.15, 0.3, 0.45)
MOST_SEEDS = 3
QUICK = {"train.rounds": 10, "train.evaluate_every": 10}


class Case(NamedTuple):
    """An attack by a share of the parties: the last ones."""

    attack: str
    share: float

    @property
    def name(self) -> str:
        """Of the folder."""
        return f"{self.attack}-{self.share:g}"

    def bad(self, parties: int) -> list[int]:
        """Who attacks."""
        return list(range(parties - count_of(self.share, parties), parties))


def count_of(share: float, parties: int) -> int:
    """So many of the parties."""
    return round(share * parties)


def cases_of(asked: Asked) -> list[Case]:
    """All of them, one share after the other, for an attack is compiled once; of a quick try two."""
    listed = [Case(attack, share) for share in SHARES for attack in ATTACKS]
    return [listed[0], listed[-1]] if asked.quick else listed


def calm(asked: Asked) -> dict[str, Spec]:
    """Without an attack."""
    one = spec(NAME, QUICK if asked.quick else {}, asked.seeds[:MOST_SEEDS])
    return {NAME: wanted(one, asked)} if asked.only in NAME else {}


def attacked(of: Spec, cases: Sequence[Case]) -> dict[str, Spec]:
    """The specification under each attack; local training hears of none and is left out."""
    methods = [one for one in of.methods if one.name != "local"]
    if not methods:
        return {}
    made = {}
    for case in cases:
        bad = case.bad(of.data.settings["parties"])
        fault = Fault.model_validate(
            {"parties": bad, "attack": case.attack, **ATTACKS[case.attack]}
        )
        train = of.train.model_copy(update={"faults": [fault]})
        title = f"{of.title}: {case.attack} by {len(bad)} parties"
        update = {"train": train, "methods": methods, "title": title}
        made[case.name] = of.model_copy(update=update)
    return made


def all_specs(asked: Asked) -> dict[str, Spec]:
    """What is trained, once every method is tuned: without an attack, and under each."""
    found = tuning.chosen_specs(asked, calm(asked), BY)
    if not found:
        return {}
    return found | attacked(found[NAME], cases_of(asked))


def train(asked: Asked) -> None:
    """Tune where nobody attacks; then train what was chosen, under each attack."""
    tuning.tuned(asked, calm(asked), BY)
    trained(asked, all_specs(asked))


def collect(asked: Asked) -> Files:
    """``attacks.csv``: a row an attack, share and method; and what was chosen."""
    specs = all_specs(asked)
    by_name = {case.name: case for case in cases_of(asked)}
    rows: list[dict[str, Any]] = []
    for name, one in specs.items():
        case = by_name.get(name)
        parties = one.data.settings["parties"]
        honest = parties - count_of(max(SHARES), parties)
        found = rows_of(runs_of(one, asked.folder / name), honest)
        where = {"attack": case.attack if case else "none", "share": case.share if case else 0.0}
        rows += [where | row for row in found]
    if not rows:
        return {}
    return {
        "attacks.csv": csv_of(rows),
        "attacks-tuned.toml": to_toml(specs[NAME]),
        "attacks-tuning.json": json_of(tuning.told(asked, calm(asked))),
    }


def rows_of(runs: Sequence[RunFolder], honest: int) -> list[dict[str, Any]]:
    """A row a method: accuracy of the first ``honest`` parties, who never attack, over the seeds.

    Of a run that diverged there is none; how many did is told.
    """
    rows = []
    for label in dict.fromkeys(str(run.status["label"]) for run in runs):
        mine = [run for run in runs if run.status["label"] == label]
        done = [run for run in mine if run.status["state"] == "finished"]
        scores = np.array([run.lines[-1]["personal_score"][:honest] for run in done], float)
        means = scores.mean(axis=1) if done else np.zeros(0)
        rows.append({
            "method": mine[0].status["method"], "label": label, "seeds": len(mine),
            "failed": len(mine) - len(done), "honest": float(means.mean()) if done else None,
            "honest_std": float(means.std(ddof=1)) if len(done) > 1 else None,
            "worst_party": float(scores.mean(axis=0).min()) if done else None,
        })  # fmt: skip
    return rows


STUDY = Study(
    NAME, "honest parties' accuracy while 0 to 45% of the parties attack",
    train, collect, attacks_plot.draw, attacks_text.blocks,
)  # fmt: skip
