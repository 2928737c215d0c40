"""Lets a new party join a finished run, whose models are read from its run folder."""

import warnings
from collections.abc import Sequence
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
from fedplus.data.table_encoding import is_number, missing_mask
from fedplus.data.table_files import read_table
from fedplus.data.tables import class_number
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
    if steps is None and isinstance(spec.train.steps, int):
        steps = spec.train.steps
    require(
        steps is not None, "steps", "none", "given, since this run is trained by epochs or by lists",
        "In the shell: --steps 20.",
    )  # fmt: skip
    assert steps is not None
    training = LocalTraining(steps, rounds, spec.train.batch_size or 1)
    (seed,) = spec.seeds
    state, completed = _read_state(run, algorithm, model, seed)
    joined = join_parties(
        algorithm, state, model, Split.from_parties([(x, y)]), training, rounds_before=completed,
        seed=seed,
    )  # fmt: skip
    if joined.given_up[0] == rounds or joined.kept_unadapted[0]:
        warnings.warn(
            f"The local steps of {samples.stem} diverged, so it uses the model at which they started. "
            "The usual causes are values that are unlike those of the training, or too high an eta.",
            stacklevel=2,
        )
    parameters = unravel_function(model)(jax.numpy.asarray(joined.models[0]))
    new_file = file._replace(preprocessing=preprocessing)
    return trained_model(new_file, model, parameters, samples.stem)


def _read_state(
    run: RunFolder, algorithm: AbstractAlgorithm[Any], model: Model, seed: int
) -> tuple[Any, int]:
    """Return a state whose server's fields are those of the newest checkpoint, and its round."""
    folder = run.path / CHECKPOINT
    state_of_run = run.status.get("state")
    is_finished = state_of_run == "finished"
    require(is_finished, str(run.path), f"a run that is {state_of_run}", "a finished run")
    require(folder.is_dir(), str(folder), "none", "there, with the state in which the run ended")
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
        is_pair = y.ndim >= 1 and len(raw) == len(y) > 0
        shapes = f"{raw.shape} and {y.shape}"
        require(is_pair, f"x and y of {path}", f"shapes {shapes}", "one label per sample")
        if y.ndim == 1:
            y = _encode_labels(y, f"y of {path}", file.classes)
        shape = f"(n, {', '.join(map(str, file.input_shape))})"
        require(
            raw.shape[1:] == file.input_shape,
            f"x of {path}",
            f"shape {raw.shape}",
            f"of shape {shape}",
        )
    else:
        table, target = read_table(path), preprocessing.target
        require(target in table, "target", "none", f"the column {target!r} of {path}")
        y = _encode_labels(table[target], f"target {target!r}", file.classes)
        raw = preprocessing.encoding.encode(table)
    if preprocessing.scaling is not None and preprocessing.scaling.parties:
        encoding = preprocessing.encoding
        are_numbers: Any = True if encoding is None else encoding.are_numbers
        own = Scaling.fit({"": Moments.of(raw)}, are_numbers, "pooled")
        preprocessing = preprocessing.with_scaling(own)
    x = raw if preprocessing.scaling is None else preprocessing.scaling.apply(raw)
    return x, y, preprocessing


def _encode_labels(column: NumpyArray, label: str, classes: Sequence[str]) -> NumpyArray:
    """Return the labels of a party's samples: numbers, or the numbers of the run's classes."""
    require(len(column) > 0, label, "no rows", "at least one row")
    gaps = int(missing_mask(column).sum())
    require(gaps == 0, label, f"{gaps} rows without one", "present in every row")
    values = column.tolist()
    if not classes:
        wrong = [value for value in values if not is_number(value)]
        require(not wrong, label, repr(wrong[0]) if wrong else "", "numbers")
        return np.array([float(value) for value in values], np.float32)
    numbers = [class_number(value, classes) for value in values]
    unknown = [value for value, number in zip(values, numbers, strict=True) if number is None]
    known = f"one of the classes {', '.join(classes)}"
    require(not unknown, label, repr(unknown[0]) if unknown else "", known)
    return np.array(numbers, np.int32)
