"""Lets a new party join a finished run, whose models are read from its run folder."""

from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedplus._checkpoint_file import load
from fedplus._types import NumpyArray
from fedplus.algorithm import AbstractAlgorithm
from fedplus.check import SettingError, require
from fedplus.data.files.formats import read_npz
from fedplus.data.preprocessing import Preprocessing
from fedplus.data.scaling import Moments, Scaling
from fedplus.data.split import Split
from fedplus.data.table_encoding import Table, category_texts, is_number, texts
from fedplus.data.table_files import read_table
from fedplus.experiments.build import build_method
from fedplus.experiments.defaults import fill_defaults
from fedplus.experiments.model_file import ModelFile, read_model_file
from fedplus.experiments.run_folder import CHECKPOINT, RunFolder, is_run
from fedplus.experiments.spec import parse_spec
from fedplus.experiments.toml_source import TomlSource
from fedplus.experiments.trained_model import TrainedModel, trained_model
from fedplus.models import Model
from fedplus.simulation.engine import unravel_function
from fedplus.simulation.join import LocalTraining, join_parties
from fedplus.simulation.pytree_arrays import from_arrays
from fedplus.simulation.setup import init_model

DEFAULT_ROUNDS = 10


def join_run(
    path: str | Path, samples: str | Path, *, steps: int | None = None, rounds: int = DEFAULT_ROUNDS
) -> TrainedModel:
    """Train a model for a new party, beside the models of a finished run.

    The party starts where the method lets a late party start, and trains on its own samples while the
    models of the run stay as they are.

    Args:
        path: The run folder.
        samples: The party's samples: a CSV or Parquet file with the columns of the run and the
            target, or an npz file with x and y if the run was trained on arrays.
        steps: Local steps per round; by default those of the run.
        rounds: Rounds of local training.

    Raises:
        SettingError: The run is not finished, the samples do not fit it, or with its method no party
            can train without the others.
    """
    run, samples = RunFolder(Path(path)), Path(samples)
    require(is_run(run.path), "path", str(path), "a run folder")
    file = read_model_file(run)
    spec = fill_defaults(parse_spec(run.spec, TomlSource()))
    model = file.build()
    algorithm = build_method(spec.methods[0], model, TomlSource())
    x, y, preprocessing = _read_samples(samples, file)
    steps = steps or (spec.train.steps if isinstance(spec.train.steps, int) else None)
    require(
        steps is not None, "steps", "none", "given, since parties of the run differ in their steps"
    )
    training = LocalTraining(steps or 0, rounds, spec.train.batch_size or 1)
    (seed,) = spec.seeds
    state, completed = _read_state(run, algorithm, model, seed)
    joined = join_parties(
        algorithm, state, model, Split.from_parties([(x, y)]), training, rounds_before=completed,
        seed=seed,
    )  # fmt: skip
    parameters = unravel_function(model)(jax.numpy.asarray(joined.models[0]))
    new_file = file._replace(preprocessing=preprocessing)
    return trained_model(new_file, model, parameters, samples.stem)


def _read_state(
    run: RunFolder, algorithm: AbstractAlgorithm[Any], model: Model, seed: int
) -> tuple[Any, int]:
    """Return a state whose server's fields are those of the newest checkpoint, and its round."""
    folder = run.path / CHECKPOINT
    is_finished = run.status.get("state") == "finished" and folder.is_dir()
    require(
        is_finished, str(run.path), f"a run that is {run.status.get('state')}", "a finished run"
    )
    checkpoint = load(folder)
    state = algorithm.init(init_model(model, jax.random.key(seed))[1], 1)
    skipped = {*algorithm.per_party, "memory"}
    server = {name: leaf for name, leaf in state._asdict().items() if name not in skipped}
    try:
        return state._replace(**from_arrays(server, checkpoint.arrays, "state")), checkpoint.round
    except KeyError as error:
        raise SettingError(f"{folder} has no {error}, so no party can join this run.") from error


def _read_samples(path: Path, file: ModelFile) -> tuple[NumpyArray, NumpyArray, Preprocessing]:
    """Return the inputs and labels of a party's file, and the preprocessing of its inputs."""
    preprocessing = file.preprocessing or Preprocessing()
    if preprocessing.encoding is None:
        arrays = read_npz(path)
        require(
            {"x", "y"} <= set(arrays), str(path), ", ".join(arrays), "a file with arrays x and y"
        )
        raw, y = arrays["x"], arrays["y"]
        shape = f"(n, {', '.join(map(str, file.input_shape))})"
        require(
            raw.shape[1:] == file.input_shape,
            f"x of {path}",
            f"shape {raw.shape}",
            f"of shape {shape}",
        )
    else:
        table = read_table(path)
        raw, y = (
            preprocessing.encoding.encode(table),
            _encode_target(table, path, file, preprocessing),
        )
    if preprocessing.scaling is not None and preprocessing.scaling.parties:
        encoding = preprocessing.encoding
        are_numbers: Any = True if encoding is None else encoding.are_numbers
        own = Scaling.fit({"": Moments.of(raw)}, are_numbers, "pooled")
        preprocessing = preprocessing.with_scaling(own)
    x = raw if preprocessing.scaling is None else preprocessing.scaling.apply(raw)
    return x, y, preprocessing


def _encode_target(
    table: Table, path: Path, file: ModelFile, preprocessing: Preprocessing
) -> NumpyArray:
    """Return the labels of a table: numbers, or the numbers of classes."""
    target = preprocessing.target
    require(target in table, "target", "none", f"the column {target!r} of {path}")
    column = table[target]
    if not file.classes:
        return column.astype(np.float32)
    are_numbers = all(is_number(value) for value in column.tolist())
    labels = (category_texts(column) if are_numbers else texts(column)).tolist()
    unknown = [label for label in labels if label not in file.classes]
    known = ", ".join(file.classes)
    require(
        not unknown, f"target {target!r}", repr(unknown[:1])[1:-1], f"one of the classes {known}"
    )
    return np.array([file.classes.index(label) for label in labels], np.int32)
