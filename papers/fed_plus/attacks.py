"""Attacks: accuracy of the honest parties against the share of parties that send wrong models."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from papers.fed_plus.results import to_csv, to_json
from papers.fed_plus.specs import load_spec, select_methods
from papers.fed_plus.study import Files, Study, StudyOptions
from papers.fed_plus.training import ended_runs, train_specs

from fedplus.experiments.run_folder import RunFolder
from fedplus.experiments.spec import Fault, Spec, to_toml
from papers.fed_plus import attacks_report, tuning

NAME = "attacks"
TUNING_RULES = "tuning-attacks"
ATTACKS: dict[str, dict[str, float]] = {
    "sign_flip": {"scale": 3.0},
    "scaling": {"scale": 10.0},
    "gaussian": {"scale": 1.0},
    "a_little_is_enough": {"z": 1.5},
    "inner_product": {"epsilon": 2.0},
}
SHARES = (0.15, 0.3, 0.45)
MAX_SEEDS = 3
QUICK_SETTINGS = {"train.rounds": 10, "train.evaluate_every": 10}


class Case(NamedTuple):
    """An attack by a share of the parties: the last ones of the federation."""

    attack: str
    share: float

    @property
    def name(self) -> str:
        """Name of the folder of its runs."""
        return f"{self.attack}-{self.share:g}"

    def attackers(self, parties: int) -> list[int]:
        """Return the indices of the parties that attack."""
        return list(range(parties - attacker_count(self.share, parties), parties))


def attacker_count(share: float, parties: int) -> int:
    """Return how many of the parties attack."""
    return round(share * parties)


def attack_cases(options: StudyOptions) -> list[Case]:
    """Return all cases, share by share, so that each attack is compiled once; two in a quick trial."""
    cases = [Case(attack, share) for share in SHARES for attack in ATTACKS]
    return [cases[0], cases[-1]] if options.quick else cases


def unattacked_specs(options: StudyOptions) -> dict[str, Spec]:
    """Return the specification without an attack, by name; none if ``--only`` excludes it."""
    if options.only not in NAME:
        return {}
    spec = load_spec(NAME, QUICK_SETTINGS if options.quick else {}, options.seeds[:MAX_SEEDS])
    return {NAME: select_methods(spec, options)}


def attacked_specs(spec: Spec, cases: Sequence[Case]) -> dict[str, Spec]:
    """Return the specification under each attack, by name.

    Local training is left out: an attack cannot change it.
    """
    methods = [method for method in spec.methods if method.name != "local"]
    if not methods:
        return {}
    specs = {}
    for case in cases:
        attackers = case.attackers(spec.data.settings["parties"])
        fault = Fault.model_validate(
            {"parties": attackers, "attack": case.attack, **ATTACKS[case.attack]}
        )
        train = spec.train.model_copy(update={"faults": [fault]})
        title = f"{spec.title}: {case.attack} by {len(attackers)} parties"
        update = {"train": train, "methods": methods, "title": title}
        specs[case.name] = spec.model_copy(update=update)
    return specs


def all_specs(options: StudyOptions) -> dict[str, Spec]:
    """Return the tuned specification without an attack and under each, by name; none if not tuned."""
    specs = tuning.specs_with_chosen_settings(options, unattacked_specs(options), TUNING_RULES)
    if not specs:
        return {}
    return specs | attacked_specs(specs[NAME], attack_cases(options))


def train(options: StudyOptions) -> None:
    """Tune without an attack, then train with the chosen settings under each attack."""
    tuning.tune_methods(options, unattacked_specs(options), TUNING_RULES)
    train_specs(options, all_specs(options))


def collect(options: StudyOptions) -> Files:
    """Return ``attacks.csv``, one row per attack, share and method, and the chosen settings."""
    specs = all_specs(options)
    cases = {case.name: case for case in attack_cases(options)}
    rows: list[dict[str, Any]] = []
    for name, spec in specs.items():
        attack, share = cases.get(name, ("none", 0.0))
        parties = spec.data.settings["parties"]
        honest = parties - attacker_count(max(SHARES), parties)
        summaries = summarise_runs(ended_runs(spec, options.folder / name), honest)
        rows += [{"attack": attack, "share": share, **summary} for summary in summaries]
    if not rows:
        return {}
    return {
        "attacks.csv": to_csv(rows),
        "attacks-tuned.toml": to_toml(specs[NAME]),
        "attacks-tuning.json": to_json(tuning.all_trials(options, unattacked_specs(options))),
    }


def summarise_runs(runs: Sequence[RunFolder], honest: int) -> list[dict[str, Any]]:
    """Return one row per method: accuracy of the parties that never attack, over the seeds.

    A run that diverged has no accuracy; the column ``failed`` counts these runs.

    Args:
        runs: Runs of one case.
        honest: Number of parties that attack in no case, which are the first ones.
    """
    rows = []
    for label in dict.fromkeys(str(run.status["label"]) for run in runs):
        of_method = [run for run in runs if run.status["label"] == label]
        finished = [run for run in of_method if run.status["state"] == "finished"]
        scores = np.array([run.lines[-1]["personal_score"][:honest] for run in finished], float)
        means = scores.mean(axis=1) if finished else np.zeros(0)
        rows.append({
            "method": of_method[0].status["method"], "label": label, "seeds": len(of_method),
            "failed": len(of_method) - len(finished),
            "honest": float(means.mean()) if finished else None,
            "honest_std": float(means.std(ddof=1)) if len(finished) > 1 else None,
            "worst_party": float(scores.mean(axis=0).min()) if finished else None,
        })  # fmt: skip
    return rows


STUDY = Study(
    NAME, "honest parties' accuracy while 0 to 45% of the parties attack",
    train, collect, attacks_report.draw, attacks_report.blocks,
)  # fmt: skip
