"""``model.json`` of a run folder: all that a prediction needs besides the weights.

It names the model with its sizes and the classes, and holds the preprocessing of the inputs. Arrays
that belong to the model, such as a table of word vectors, are in ``model.safetensors`` beside it.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedplus import models
from fedplus._types import NumpyArray
from fedplus.check import SettingError
from fedplus.data.preprocessing import Preprocessing
from fedplus.experiments.run_folder import MODEL, MODEL_ARRAYS, RunFolder
from fedplus.experiments.run_folder_files import write_json
from fedplus.files import write_atomically

FORMAT = "fedplus-model-1"


class ModelFile(NamedTuple):
    """The content of ``model.json``."""

    name: str
    """The model's name in ``build.MODELS``."""
    arguments: dict[str, Any]
    """The keyword arguments with which the model is made: sizes and settings."""
    input_shape: tuple[int, ...]
    classes: tuple[str, ...]
    """The names of the classes; empty if the labels are numbers, or have no names."""
    preprocessing: Preprocessing | None

    def build(self) -> models.Model:
        """Return the model."""
        from fedplus.experiments.build import make_model  # It imports all public names.

        return make_model(self.name, self.arguments)


def write_model_file(folder: Path, content: ModelFile) -> None:
    """Write ``model.json`` and, if the model has arrays, ``model.safetensors``."""
    from safetensors.numpy import save

    arrays = {k: v for k, v in content.arguments.items() if isinstance(v, np.ndarray)}
    if arrays:
        contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        write_atomically(folder / MODEL_ARRAYS, save(contiguous))
    preprocessing = content.preprocessing
    write_json(
        folder / MODEL,
        {
            "format": FORMAT,
            "model": content.name,
            "arguments": {k: v for k, v in content.arguments.items() if k not in arrays},
            "arrays": sorted(arrays),
            "input_shape": list(content.input_shape),
            "classes": list(content.classes),
            "preprocessing": None if preprocessing is None else preprocessing.to_plain(),
        },
    )


def read_model_file(run: RunFolder) -> ModelFile:
    """Read ``model.json``.

    Raises:
        SettingError: The run has none, or it is damaged.
    """
    content = run.model
    try:
        if content["format"] != FORMAT:
            raise ValueError(f"its format is {content['format']!r}, not {FORMAT!r}")
        arguments = {
            str(k): tuple(v) if isinstance(v, list) else v for k, v in content["arguments"].items()
        }
        arrays = read_arrays(run.path / MODEL_ARRAYS) if content["arrays"] else {}
        arguments |= {name: arrays[name] for name in content["arrays"]}
        preprocessing = content["preprocessing"]
        return ModelFile(
            str(content["model"]), arguments, tuple(map(int, content["input_shape"])),
            tuple(map(str, content["classes"])),
            None if preprocessing is None else Preprocessing.from_plain(preprocessing),
        )  # fmt: skip
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise SettingError(f"{run.path / MODEL} cannot be read: {error}.") from error


def read_arrays(path: Path) -> dict[str, NumpyArray]:
    """Return the arrays of a safetensors file by name.

    Raises:
        SettingError: The file cannot be read.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        arrays: dict[str, NumpyArray] = load_file(path)
    except (OSError, SafetensorError) as error:
        raise SettingError(f"{path} cannot be read: {error}.") from error
    return arrays
