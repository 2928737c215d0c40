"""The last models of runs that were judged on training days, judged on the days after them."""

import jax.numpy as jnp
import numpy as np

from fedplus._types import Host
from fedplus.data.federation import Federation
from fedplus.data.split import Split
from fedplus.experiments.build import federation_of, model_of
from fedplus.experiments.folder import MODELS, file_name
from fedplus.experiments.source import Source
from fedplus.experiments.spec import Spec
from fedplus.models import Model
from fedplus.paper.failure import BASIS_POINTS, FailureRun
from fedplus.paper.vectors import vector_of
from fedplus.simulation.evaluate import constant_answer, in_blocks, judge


def held_out(group: list[FailureRun]) -> dict[str, float]:
    """Mean over parties and seeds on validation and test days, in basis points a day."""
    spec = Spec.model_validate(group[0].folder.spec)
    data = spec.data.model_copy(update={"judged_on": "test"})
    federation = federation_of(data, Source())
    model = model_of(spec.model, federation, Source())
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
    return np.stack([vector_of(folder / file_name(name), model) for name in federation.names])


def _score(model: Model, split: Split, models: Host) -> float:
    blocks, rows = in_blocks(split)
    return float(np.mean(judge(model, rows, blocks, jnp.asarray(models)).score))
