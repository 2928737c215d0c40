"""The last models of runs that were judged on training days, judged on the days after them."""

import jax.numpy as jnp
import numpy as np
from papers.fed_plus.failure import BASIS_POINTS, FailureRun
from papers.fed_plus.vectors import vector_of

from fedplus._types import Host
from fedplus.data.federation import Federation
from fedplus.data.split import Split
from fedplus.experiments.build import build_federation, build_model
from fedplus.experiments.run_folder import MODELS, party_file_name
from fedplus.experiments.spec import Spec
from fedplus.experiments.toml_source import TomlSource
from fedplus.models import Model
from fedplus.simulation.evaluate import constant_answer, evaluate_parties, split_into_blocks


def held_out(group: list[FailureRun]) -> dict[str, float]:
    """Mean over parties and seeds on validation and test days, in basis points a day."""
    spec = Spec.model_validate(group[0].folder.spec)
    data = spec.data.model_copy(update={"judged_on": "test"})
    federation = build_federation(data, TomlSource())
    model = build_model(spec.model, federation, TomlSource())
    found: dict[str, float] = {}
    for name, split in (("validation", federation.validation), ("test", federation.test)):
        assert split is not None
        scores = [_score(model, split, models_of(run, federation, model)) for run in group]
        uniform = constant_answer(federation._replace(test=split), model.task)
        assert uniform is not None
        found[name] = BASIS_POINTS * float(np.mean(scores))
        found[f"uniform_{name}"] = BASIS_POINTS * float(np.mean(uniform))
    return found


def models_of(run: FailureRun, federation: Federation, model: Model) -> Host:
    """(N, d): the models that the parties ended with."""
    folder = run.folder.path / MODELS
    return np.stack([vector_of(folder / party_file_name(name), model) for name in federation.names])


def _score(model: Model, split: Split, models: Host) -> float:
    blocks, rows = split_into_blocks(split)
    return float(np.mean(evaluate_parties(model, rows, blocks, jnp.asarray(models)).score))
