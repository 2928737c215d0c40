"""Scaling: accuracy against the number of parties that train.

Who is judged is not said in the paper, so two readings: the n parties that train, or all N of Figure 4,
of whom those that have not trained use w̃.
"""

import json
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
from papers.fed_plus.judging import added_up, first_of, is_personal, over_seeds, scores
from papers.fed_plus.results import csv_of
from papers.fed_plus.specs import published
from papers.fed_plus.study import Asked, Files, Study
from papers.fed_plus.vectors import vector_of

from fedplus._types import Host
from fedplus.experiments.build import build_federation, build_model
from fedplus.experiments.run_folder import GLOBAL, RunFolder
from fedplus.experiments.spec import Spec, parse_spec
from fedplus.experiments.toml_source import TomlSource
from fedplus.simulation.evaluate import evaluate_parties, split_into_blocks, summary
from papers.fed_plus import benchmarks, scaling_plot, scaling_text

METHODS = ("local", "fedprox", "fedavg+", "fedgeomed+", "fedcomed+")
MOST_SEEDS = 3


def sizes(asked: Asked, data: str) -> list[int]:
    """The numbers of parties, the largest last; a try leaves out what lies between."""
    rows = published()["scaling"]["rows"]
    found = [int(n) for n, _ in rows[data.removesuffix("-shared")]]
    return [found[0], found[-1]] if asked.quick else found


def specs_of(asked: Asked, data: str) -> dict[int, dict[str, Spec]]:
    """Number of parties ↦ specifications by folder; for all of them those of Figure 4."""
    asked = asked._replace(
        seeds=asked.seeds[:MOST_SEEDS], methods=tuple(m for m in METHODS if _kept(m, asked))
    )
    *fewer, whole = sizes(asked, data)
    found = {n: benchmarks.specs_of(asked, data, _smaller(n)) for n in fewer}
    return found | {whole: benchmarks.specs_of(asked, data)}


def _kept(method: str, asked: Asked) -> bool:
    return not asked.named or method in asked.named


def _smaller(n: int) -> dict[str, Any]:
    cohort = published()["figure4"]["cohort"]
    return {"data.first": n, "train.cohort": min(cohort, n)}


def train(asked: Asked) -> None:
    """All numbers of parties; the largest is Figure 4's, and left alone where that is finished."""
    sets = {data: specs_of(asked, data).values() for data in benchmarks.sets(asked)}
    benchmarks.train(asked, [(data, specs) for data, every in sets.items() for specs in every])


def collect(asked: Asked) -> Files:
    """``scaling-NAME.csv`` for each data set that has runs, a row a method and number of parties."""
    files = {}
    for data in benchmarks.sets(asked):
        records = []
        for n, specs in specs_of(asked, data).items():
            found = list(benchmarks.runs(asked, specs))
            whole = next(iter(benchmarks.specs_of(asked, data).values()))
            for method, label, runs in found:
                of = over_seeds([judged(run, whole) for run in runs])
                records.append({"parties": n, "method": method, "label": label, **of})
        if records:
            files[f"scaling-{data}.csv"] = csv_of(records)
    return files


def judged(run: RunFolder, whole: Spec) -> dict[str, float | None]:
    """The last round: of the parties that trained, and of all (``all_pooled``, ``all_mean``)."""
    line, sizes = run.lines[-1], run.parties["test"]
    of = scores(line, first_of(run), is_personal(run), run.status["method"] == "local")
    found = added_up(of, sizes)
    majority = summary(np.array(run.parties["majority"]), np.array(sizes))
    found |= {"majority_pooled": majority.pooled, "majority_mean": majority.mean}
    if "served" not in of:
        return found | {"all_pooled": None, "all_mean": None}
    others, every = _common_to_all(run, _json(whole, run.status["seed"]))
    others[: len(sizes)] = of["served"]
    told = summary(others, every)
    return found | {"all_pooled": told.pooled, "all_mean": told.mean}


def _json(whole: Spec, seed: int) -> str:
    return whole.one(0, seed).model_dump_json(exclude_none=True)


@cache
def _whole(spec_json: str) -> tuple[Any, Any, int, Host]:
    """Model, test samples in blocks, and how many each party of the whole federation has."""
    spec = parse_spec(json.loads(spec_json), TomlSource())
    federation = build_federation(spec.data, TomlSource())
    model = build_model(spec.model, federation, TomlSource())
    return model, *split_into_blocks(federation.test), np.asarray(federation.test.size)


def _common_to_all(run: RunFolder, spec_json: str) -> tuple[Host, Host]:
    """(N,): the score of the run's w̃ at every party of the whole federation, and their samples."""
    model, blocks, rows, size = _whole(spec_json)
    w = vector_of(run.path / GLOBAL, model)
    return np.array(evaluate_parties(model, rows, blocks, jnp.asarray(w[None])).score), size


STUDY = Study(
    "scaling", f"{published()['scaling']['where']}: accuracy against the number of parties",
    train, collect, scaling_plot.draw, scaling_text.blocks,
)  # fmt: skip
