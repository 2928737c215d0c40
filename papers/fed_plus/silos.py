"""Real silos: which parties gain from joining the federation, compared with training alone."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from papers.fed_plus.results import to_csv, to_json
from papers.fed_plus.specs import load_spec, select_methods, spec_names
from papers.fed_plus.study import Files, Study, StudyOptions
from papers.fed_plus.training import ended_runs

from fedplus.experiments.run_folder import RunFolder
from fedplus.experiments.runner import prepare
from fedplus.experiments.spec import Spec, parse_spec, to_toml
from fedplus.experiments.toml_source import TomlSource
from fedplus.simulation.evaluate import evaluate_parties, split_into_blocks
from fedplus.simulation.setup import init_model
from papers.fed_plus import silos_report, tuning

PREFIX = "silos-"
TUNING_RULES = "tuning-silos"
QUICK_SETTINGS = {"train.rounds": 5, "train.evaluate_every": 5}
QUICK_SPECS = ("silos-hospitals", "silos-patients")
"""The specifications of a quick trial."""
CONFIDENCE_LEVEL = 0.95
"""Level of the confidence interval over seeds. A gain is significant if the interval excludes 0."""


def study_specs(options: StudyOptions) -> dict[str, Spec]:
    """Return the specifications by name, one per federation.

    They always contain local training, with which the other methods are compared.
    """
    names = [name for name in spec_names(PREFIX) if options.only in name]
    if options.quick:
        names = [name for name in names if name in QUICK_SPECS]
    settings = QUICK_SETTINGS if options.quick else {}
    specs = {name: load_spec(name, settings, options.seeds) for name in names}
    return {name: select_methods(spec, options, "local") for name, spec in specs.items()}


def train(options: StudyOptions) -> None:
    """Tune all methods, local training as well, then train with the chosen settings."""
    tuning.tune_and_train(options, study_specs(options), TUNING_RULES)


def collect(options: StudyOptions) -> Files:
    """Return ``silos.csv``, one row per federation, method and party, and the chosen settings.

    ``silos-diverged.csv`` has the parties, by seed, whose local steps diverged in some round.
    """
    specs = study_specs(options)
    tuned = tuning.specs_with_chosen_settings(options, specs, TUNING_RULES)
    runs = {name: ended_runs(spec, options.folder / name) for name, spec in tuned.items()}
    rows, diverged = (
        [
            {"data": name.removeprefix(PREFIX), **row}
            for name, of_federation in runs.items()
            for row in rows_of(of_federation)
        ]
        for rows_of in (party_gains, diverged_parties)
    )
    if not rows:
        return {}
    files = {f"{name}-tuned.toml": to_toml(spec) for name, spec in tuned.items()}
    trials = to_json(tuning.all_trials(options, specs))
    tables = {"silos.csv": to_csv(rows), "silos-diverged.csv": to_csv(diverged)}
    return files | tables | {"silos-tuning.json": trials}


def diverged_parties(runs: Sequence[RunFolder]) -> list[dict[str, Any]]:
    """Return the parties, by method and seed, whose steps diverged, with their and the untrained score.

    ``repeated`` counts the rounds in which steps were repeated with smaller ones, ``given_up`` those in
    which that did not help.
    """
    untrained: dict[int, np.ndarray[Any, Any]] = {}
    rows = []
    for run in runs:
        counts = [line["diverged"] for line in run.lines if "diverged" in line]
        if not counts:
            continue
        repeated, given_up = (
            np.sum([count[name] for count in counts], axis=0) for name in ("repeated", "given_up")
        )
        seed = run.status["seed"]
        if seed not in untrained:
            untrained[seed] = untrained_scores(parse_spec(run.spec, TomlSource()), seed)
        score = run.lines[-1]["personal_score"]
        rows += [
            {
                "method": run.status["method"], "seed": seed, "party": run.parties["names"][k],
                "repeated": repeated[k], "given_up": given_up[k], "better": run.status["better"],
                "untrained": untrained[seed][k], "score": score[k],
            }
            for k in np.flatnonzero(repeated)
        ]  # fmt: skip
    return rows


def untrained_scores(spec: Spec, seed: int) -> np.ndarray[Any, Any]:
    """Return each party's test score, (N,), of the model with which a run of this seed begins."""
    prepared = prepare(spec, seed)
    blocks, rows = split_into_blocks(prepared.federation.test)
    _, w_first = init_model(prepared.model, jax.random.key(seed))
    scores = evaluate_parties(prepared.model, rows, blocks, w_first[None]).score
    return np.asarray(scores, float)


def party_gains(runs: Sequence[RunFolder]) -> list[dict[str, Any]]:
    """Return score, gain over local training and its confidence interval by method and party.

    A gain is the difference under one seed, with the same split and the same number of steps: of
    accuracies in points, of squared errors in % of the local error; positive is better. If a party's
    steps diverged, its error is infinite, its gain −∞, and the gain is not significant.
    """
    scores: dict[str, dict[int, np.ndarray[Any, Any]]] = {}
    for run in runs:
        if run.status["state"] == "finished":
            last = np.array(run.lines[-1]["personal_score"], float)
            scores.setdefault(run.status["method"], {})[run.status["seed"]] = last
    local_scores = scores.pop("local", {})
    if not runs or not local_scores:
        return []
    parties, is_accuracy = runs[0].parties, runs[0].status["better"] == "higher"
    rows = []
    for method, by_seed in scores.items():
        seeds = sorted(by_seed.keys() & local_scores.keys())
        if not seeds:
            continue
        joint, alone = (np.stack([of[seed] for seed in seeds]) for of in (by_seed, local_scores))
        joint = np.where(np.isnan(joint), 0.0 if is_accuracy else np.inf, joint)
        gains = 100 * (joint - alone if is_accuracy else 1 - joint / alone)
        half_width = confidence_half_width(gains)
        rows += [
            {
                "method": method, "party": name, "samples": parties["train"][k],
                "seeds": len(seeds), "better": runs[0].status["better"],
                "alone": alone[:, k].mean(), "score": joint[:, k].mean(),
                "gain": gains[:, k].mean(),
                "half_width": None if half_width is None else half_width[k],
            }
            for k, name in enumerate(parties["names"])
        ]  # fmt: skip
    return rows


def confidence_half_width(gains: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Return half the width of Student's confidence interval for each party's mean over seeds.

    Args:
        gains: Array of shape (seeds, N).

    Returns:
        Array of shape (N,), ∞ for a party that diverged under some seed; None with one seed.
    """
    from scipy.stats import t

    count = len(gains)
    if count < 2:
        return None
    finite = np.isfinite(gains).all(axis=0)
    std_error = np.where(finite, gains, 0.0).std(axis=0, ddof=1) / np.sqrt(count)
    half_width: np.ndarray[Any, Any] = np.where(
        finite, std_error * float(t.ppf((1 + CONFIDENCE_LEVEL) / 2, count - 1)), np.inf
    )
    return half_width


STUDY = Study(
    "silos", "who gains from joining: hospitals, patients, schools, writers",
    train, collect, silos_report.draw, silos_report.blocks,
)  # fmt: skip
