"""``load_model``: a model of a finished run, for predictions."""

import dataclasses
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from fedplus._types import NumpyArray
from fedplus.check import require, suggest
from fedplus.data.preprocessing import Preprocessing
from fedplus.data.table_encoding import Table
from fedplus.data.table_files import read_table
from fedplus.data.tables import table_of_frame
from fedplus.experiments.model_file import ModelFile, read_arrays, read_model_file
from fedplus.experiments.run_folder import (
    GLOBAL,
    MODELS,
    STATUS,
    RunFolder,
    is_run,
    party_file_name,
)
from fedplus.models import BINARY, CLASSIFICATION, Model, ravel
from fedplus.models.metrics import probabilities
from fedplus.models.ravel import named_arrays

ROWS_AT_ONCE = 65_536
"""Predictions are computed for so many rows at a time, so that large tables need little memory."""


@final
@dataclasses.dataclass(frozen=True)
class TrainedModel:
    """A trained model with everything that a prediction needs.

    Args:
        model: The model.
        parameters: Its trained parameters, a pytree.
        classes: The names of the classes; empty if labels are numbers, or classes have no names.
        input_shape: The shape of one input of the model.
        preprocessing: How raw columns or arrays become inputs.
        party: The party whose model it is; None for the global model.
    """

    model: Model
    parameters: Any
    classes: tuple[str, ...]
    input_shape: tuple[int, ...]
    preprocessing: Preprocessing
    party: str | None = None

    @property
    def is_classifier(self) -> bool:
        """Whether it predicts classes; otherwise it predicts numbers."""
        return self.model.task in (CLASSIFICATION, BINARY)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a table must have; empty if the run was trained on arrays."""
        encoding = self.preprocessing.encoding
        return () if encoding is None else tuple(column.name for column in encoding.columns)

    def inputs(self, data: Any) -> NumpyArray:
        """Return the inputs of the model, (n, ...).

        Args:
            data: A pandas or polars data frame, columns by name, or the path of a CSV or Parquet file.
                Columns may be in any order, and there may be others. If the run was trained on arrays,
                an array (n, ...).

        Raises:
            SettingError: A column is absent or has a value that cannot be an input, or the shape is
                wrong.
        """
        if self.preprocessing.encoding is not None:
            data = _table_of(data)
        else:
            data = np.asarray(data)
            is_array = data.dtype.kind in "biuf" and data.shape[1:] == self.input_shape
            shape = ", ".join(("n", *map(str, self.input_shape)))
            got = f"{data.dtype} of shape {data.shape}"
            require(is_array, "data", got, f"numbers of shape ({shape})")
        return self.preprocessing.apply(data, self.party)

    def outputs(self, data: Any) -> NumpyArray:
        """Return the outputs of the model, (n, ...): logits of a classifier, or numbers."""
        x = self.inputs(data)
        parts = [x[i : i + ROWS_AT_ONCE] for i in range(0, max(len(x), 1), ROWS_AT_ONCE)]
        return np.concatenate([np.asarray(_apply(self.model, self.parameters, p)) for p in parts])

    def predict_proba(self, data: Any) -> NumpyArray:
        """Return the probability of each class, (n, C).

        Raises:
            SettingError: The model does not predict classes, or the data do not fit it.
        """
        require(
            self.is_classifier,
            "predict_proba",
            "a regression",
            "called for classes",
            "Use predict.",
        )
        return probabilities(self.model.task, self.outputs(data))

    def predict(self, data: Any) -> NumpyArray:
        """Return the name of the most probable class of each row, (n,), or the predicted numbers."""
        if not self.is_classifier:
            outputs = self.outputs(data)
            return np.asarray(outputs[:, 0] if outputs.shape[1:] == (1,) else outputs)
        return self.most_probable(self.predict_proba(data))

    def most_probable(self, probabilities: NumpyArray) -> NumpyArray:
        """Return the name of the most probable class, (n,), for probabilities (n, C)."""
        names = np.array(self.class_names, dtype=object)
        return np.asarray(names[probabilities.argmax(axis=1)])

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes, or their numbers as texts if they have no names."""
        if self.classes:
            return self.classes
        struct: Any = jax.ShapeDtypeStruct
        inputs = struct((1, *self.input_shape), jnp.float32)
        outputs = jax.eval_shape(self.model.apply, self.parameters, inputs)
        count = 2 if self.model.task == BINARY else outputs.shape[-1]
        return tuple(map(str, range(count)))


def load_model(path: str | Path, party: str | None = None) -> TrainedModel:
    """Load a model of a finished run.

    Args:
        path: The run folder.
        party: Name of the party whose model is loaded; None for the global model.

    Raises:
        SettingError: The folder has no such model, or a file is damaged.
    """
    run = RunFolder(Path(path))
    require(is_run(run.path), "path", str(path), f"a run folder, with its {STATUS}")
    file = read_model_file(run)
    names = run.parties.get("names") or []
    if party is not None:
        advice = suggest(party, names) or f"Its parties: {', '.join(map(str, names[:8]))}."
        require(party in names, "party", repr(party), f"a party of {path}", advice)
    weights = run.path / (GLOBAL if party is None else f"{MODELS}/{party_file_name(party)}")
    model = file.build()
    return trained_model(file, model, _read_parameters(weights, model), party)


def trained_model(
    file: ModelFile, model: Model, parameters: Any, party: str | None
) -> TrainedModel:
    """Return the trained model that a ``model.json`` and parameters describe."""
    preprocessing = file.preprocessing or Preprocessing()
    return TrainedModel(model, parameters, file.classes, file.input_shape, preprocessing, party)


def _read_parameters(path: Path, model: Model) -> Any:
    """Return the arrays of a safetensors file as the pytree of the model's parameters."""
    require(path.is_file(), "model", str(path), "an existing file", "A run writes its models last.")
    arrays = read_arrays(path)
    like = model.init(jax.random.key(0))
    expected = {name: np.shape(leaf) for name, leaf in named_arrays(like).items()}
    found = {name: array.shape for name, array in arrays.items()}
    require(
        found == expected, str(path), str(found), f"arrays of the model {model.name!r}: {expected}"
    )
    flat = np.concatenate([arrays[name].ravel() for name in expected])
    return ravel(like).unravel(jnp.asarray(flat))


def _table_of(data: Any) -> Table:
    if isinstance(data, (str, Path)):
        return read_table(Path(data))
    if isinstance(data, Mapping):
        return {str(name): np.asarray(column) for name, column in data.items()}
    require(
        hasattr(data, "columns"), "data", type(data).__name__,
        "a data frame, columns by name, or the path of a CSV or Parquet file",
    )  # fmt: skip
    return table_of_frame(data)


@partial(jax.jit, static_argnames="model")
def _apply(model: Model, parameters: Any, x: Any) -> Any:
    return model.apply(parameters, x)
