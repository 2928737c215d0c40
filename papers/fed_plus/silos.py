"""Real silos: who gains from joining the federation, compared with staying alone."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from papers.fed_plus.results import csv_of, json_of
from papers.fed_plus.specs import names, spec, wanted
from papers.fed_plus.study import Asked, Files, Study
from papers.fed_plus.training import runs_of

from fedplus.experiments.run_folder import RunFolder
from fedplus.experiments.spec import Spec, to_toml
from papers.fed_plus import silos_plot, silos_text, tuning

PREFIX = "silos-"
BY = "tuning-silos"
QUICK = {"train.rounds": 5, "train.evaluate_every": 5}
SMALL = ("silos-hospitals", "silos-patients")
"""The federations of a quick try."""
LEVEL = 0.95
"""Of the interval over seeds that a party's gain has to leave 0 out of."""


def specs_of(asked: Asked) -> dict[str, Spec]:
    """A federation each; without local training there is nothing to compare with."""
    listed = [name for name in names(PREFIX) if asked.only in name]
    if asked.quick:
        listed = [name for name in listed if name in SMALL]
    quick = QUICK if asked.quick else {}
    return {name: wanted(spec(name, quick, asked.seeds), asked, "local") for name in listed}


def train(asked: Asked) -> None:
    """Tune, local training as well; then train what was chosen."""
    tuning.trained_as_chosen(asked, specs_of(asked), BY)


def collect(asked: Asked) -> Files:
    """``silos.csv``: a row a federation, method and party; and what was chosen."""
    specs = specs_of(asked)
    tuned = tuning.chosen_specs(asked, specs, BY)
    rows = [
        {"data": name.removeprefix(PREFIX), **row}
        for name, one in tuned.items()
        for row in rows_of(runs_of(one, asked.folder / name))
    ]
    if not rows:
        return {}
    files = {f"{name}-tuned.toml": to_toml(one) for name, one in tuned.items()}
    told = json_of(tuning.told(asked, specs))
    return files | {"silos.csv": csv_of(rows), "silos-tuning.json": told}


def rows_of(runs: Sequence[RunFolder]) -> list[dict[str, Any]]:
    """Of every method but local training and every party: score, gain over local, what is sure.

    A gain is the difference under one seed, with the same split and as many steps: of accuracies in
    points, of squared errors in % of the error alone; + is better. Where steps diverged the error is
    infinite, the gain −∞, and nothing is sure.
    """
    scores: dict[str, dict[int, np.ndarray[Any, Any]]] = {}
    for run in runs:
        if run.status["state"] == "finished":
            last = np.array(run.lines[-1]["personal_score"], float)
            scores.setdefault(run.status["method"], {})[run.status["seed"]] = last
    alone = scores.pop("local", {})
    if not runs or not alone:
        return []
    parties, higher = runs[0].parties, runs[0].status["better"] == "higher"
    rows = []
    for method, by_seed in scores.items():
        seeds = sorted(by_seed.keys() & alone.keys())
        if not seeds:
            continue
        mine, own = (np.stack([of[seed] for seed in seeds]) for of in (by_seed, alone))
        mine = np.where(np.isnan(mine), 0.0 if higher else np.inf, mine)
        gains = 100 * (mine - own if higher else 1 - mine / own)
        half = half_width(gains)
        rows += [
            {
                "method": method, "party": name, "samples": parties["train"][k],
                "seeds": len(seeds), "better": runs[0].status["better"],
                "alone": own[:, k].mean(), "score": mine[:, k].mean(),
                "gain": gains[:, k].mean(), "half_width": None if half is None else half[k],
            }
            for k, name in enumerate(parties["names"])
        ]  # fmt: skip
    return rows


def half_width(gains: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """(seeds, N) ↦ (N,): of Student's interval for the mean over seeds; ∞ where one diverged.

    None with one seed.
    """
    from scipy.stats import t

    count = len(gains)
    if count < 2:
        return None
    known = np.isfinite(gains).all(axis=0)
    wide = np.where(known, gains, 0.0).std(axis=0, ddof=1) / np.sqrt(count)
    found: np.ndarray[Any, Any] = np.where(
        known, wide * float(t.ppf((1 + LEVEL) / 2, count - 1)), np.inf
    )
    return found


STUDY = Study(
    "silos", "who gains from joining: hospitals, patients, schools, writers",
    train, collect, silos_plot.draw, silos_text.blocks,
)  # fmt: skip
