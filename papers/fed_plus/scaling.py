"""Scaling: accuracy against the number of parties that train.

The paper does not say which parties it evaluates, so there are two readings: the n parties that train,
or all N of Figure 4, of which those that have not trained use w̃.
"""

import json
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
from papers.fed_plus.evaluation import (
    average_over_seeds,
    first_active_rounds_of_run,
    has_personal_models,
    load_parameter_vector,
    scores_by_model,
    summarise_scores,
)
from papers.fed_plus.fedprox_federations import (
    MAX_SEEDS,
    data_sets,
    finished_runs,
    specs_by_folder,
    train_data_sets,
)
from papers.fed_plus.results import to_csv
from papers.fed_plus.specs import published_results
from papers.fed_plus.study import Files, Study, StudyOptions

from fedplus._types import NumpyArray
from fedplus.experiments.build import build_federation, build_model
from fedplus.experiments.run_folder import GLOBAL, RunFolder
from fedplus.experiments.spec import Spec, parse_spec
from fedplus.experiments.toml_source import TomlSource
from fedplus.simulation.evaluate import evaluate_parties, split_into_blocks, summary
from papers.fed_plus import scaling_report

METHODS = ("local", "fedprox", "fedavg+", "fedgeomed+", "fedcomed+")


def party_counts(options: StudyOptions, data: str) -> list[int]:
    """Return the numbers of parties, in ascending order; a quick trial has the first and the last."""
    rows = published_results()["scaling"]["rows"]
    counts = [int(n) for n, _ in rows[data.removesuffix("-shared")]]
    return [counts[0], counts[-1]] if options.quick else counts


def specs_by_party_count(options: StudyOptions, data: str) -> dict[int, dict[str, Spec]]:
    """Return the specifications by number of parties and folder; the largest number is Figure 4's."""
    selected = options.selected_methods
    methods = tuple(method for method in METHODS if not selected or method in selected)
    options = options._replace(seeds=options.seeds[:MAX_SEEDS], methods=methods)
    *fewer, whole = party_counts(options, data)
    specs = {n: specs_by_folder(options, data, _settings_for(n)) for n in fewer}
    return specs | {whole: specs_by_folder(options, data)}


def _settings_for(n: int) -> dict[str, Any]:
    cohort = published_results()["figure4"]["cohort"]
    return {"data.first": n, "train.cohort": min(cohort, n)}


def train(options: StudyOptions) -> None:
    """Train with all numbers of parties; runs of the largest number are shared with Figure 4."""
    specs_of_data = [
        (data, specs)
        for data in data_sets(options)
        for specs in specs_by_party_count(options, data).values()
    ]
    train_data_sets(options, specs_of_data)


def collect(options: StudyOptions) -> Files:
    """Return ``scaling-NAME.csv`` for each data set with runs: one row per method and party count."""
    files = {}
    for data in data_sets(options):
        whole = next(iter(specs_by_folder(options, data).values()))
        records = [
            {
                "parties": n, "method": method, "label": label,
                **average_over_seeds([summarise_run(run, whole) for run in runs]),
            }
            for n, specs in specs_by_party_count(options, data).items()
            for method, label, runs in finished_runs(options, specs)
        ]  # fmt: skip
        if records:
            files[f"scaling-{data}.csv"] = to_csv(records)
    return files


def summarise_run(run: RunFolder, whole: Spec) -> dict[str, float | None]:
    """Return the average scores in the last round.

    Args:
        run: A run of the first n parties.
        whole: Specification of the whole federation.

    Returns:
        Averages over the parties that trained, and over all parties (``all_pooled``, ``all_mean``).
    """
    sizes, is_local = run.parties["test"], run.status["method"] == "local"
    first = first_active_rounds_of_run(run)
    scores = scores_by_model(run.lines[-1], first, has_personal_models(run), is_local)
    averages = summarise_scores(scores, sizes)
    majority = summary(np.array(run.parties["majority"]), np.array(sizes))
    averages |= {"majority_pooled": majority.pooled, "majority_mean": majority.mean}
    if "served" not in scores:
        return averages | {"all_pooled": None, "all_mean": None}
    spec_json = whole.for_run(0, run.status["seed"]).model_dump_json(exclude_none=True)
    all_scores, all_sizes = _score_global_model_everywhere(run, spec_json)
    all_scores[: len(sizes)] = scores["served"]
    over_all = summary(all_scores, all_sizes)
    return averages | {"all_pooled": over_all.pooled, "all_mean": over_all.mean}


@cache
def _load_whole_federation(spec_json: str) -> tuple[Any, Any, Any, NumpyArray]:
    """Return the model, and the test samples of the whole federation: blocks, rows and sizes."""
    spec = parse_spec(json.loads(spec_json), TomlSource())
    federation = build_federation(spec.data, TomlSource())
    model = build_model(spec.model, federation, TomlSource())
    return model, *split_into_blocks(federation.test), np.asarray(federation.test.size)


def _score_global_model_everywhere(run: RunFolder, spec_json: str) -> tuple[NumpyArray, NumpyArray]:
    """Return the score of the run's w̃ at every party of the whole federation, and the test sizes."""
    model, blocks, rows, sizes = _load_whole_federation(spec_json)
    w = load_parameter_vector(run.path / GLOBAL, model)
    return np.array(evaluate_parties(model, rows, blocks, jnp.asarray(w[None])).score), sizes


STUDY = Study(
    "scaling",
    f"{published_results()['scaling']['where']}: accuracy against the number of parties",
    train, collect, scaling_report.draw, scaling_report.blocks,
)  # fmt: skip
