"""Builds a federation from a Hugging Face data set, divided by a column or a Flower partitioner."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedplus._types import NumpyArray
from fedplus.check import SettingError, require
from fedplus.data.federation import Federation
from fedplus.data.holdout import Splitting
from fedplus.data.metadata import Metadata
from fedplus.data.partition import by_column
from fedplus.data.preprocessing import Task
from fedplus.data.tables import encode_labels


def federation_from_dataset(
    dataset: Any, partition_by: Any, x: str | Sequence[str] | None, y: str, task: Task | None,
    split: Splitting,
) -> Federation:  # fmt: skip
    """Build a federation from a ``datasets.Dataset``; see ``Federation.from_hf``."""
    names = list(getattr(dataset, "column_names", ()))
    require(
        isinstance(getattr(dataset, "column_names", None), list), "dataset",
        type(dataset).__name__, "a datasets.Dataset", 'Choose one of a DatasetDict, e.g. ["train"].',
    )  # fmt: skip
    inputs = [c for c in names if c not in (y, partition_by)] if x is None else x
    inputs = [inputs] if isinstance(inputs, str) else list(inputs)
    required = [*inputs, y, *([partition_by] if isinstance(partition_by, str) else [])]
    for name in required:
        require(name in names, "column", repr(name), f"one of the data set's: {', '.join(names)}")
    require(bool(inputs), "x", "no columns", "at least one column with inputs")
    columns = [_column_array(dataset, name) for name in inputs]
    if len(columns) > 1:
        _require_numbers(columns, inputs)
    stacked = columns[0] if len(columns) == 1 else np.stack(columns, axis=1)
    class_names = getattr(dataset.features.get(y), "names", None)
    labels, classes = _column_array(dataset, y), tuple(class_names or ())
    if not class_names:
        labels, classes = encode_labels(labels, y, task)
    if isinstance(partition_by, str):
        partitioner = by_column(_column_array(dataset, partition_by))
        rows = partitioner(labels, np.random.default_rng(0))
    else:
        rows = _flower_rows(dataset, partition_by)
    federation = Federation.from_partition(stacked, labels, rows, **split)
    return federation._replace(info=Metadata(classes=classes))


def _flower_rows(dataset: Any, partitioner: Any) -> dict[str, NumpyArray]:
    """Return each party's row numbers from a partitioner of ``flwr_datasets``."""
    require(
        hasattr(partitioner, "load_partition"), "partition_by", type(partitioner).__name__,
        "a column's name, or a partitioner of flwr_datasets",
    )  # fmt: skip
    row_number = "fedplus row number"
    numbered = dataset.add_column(row_number, np.arange(len(dataset)).tolist())
    require(
        not partitioner.is_dataset_assigned(), "partition_by", "a partitioner that has a data set",
        "a new one: a partitioner takes only one data set",
    )  # fmt: skip
    partitioner.dataset = numbered
    return {
        str(k): np.asarray(partitioner.load_partition(k)[row_number])
        for k in range(partitioner.num_partitions)
    }


def _column_array(dataset: Any, name: str) -> NumpyArray:
    """Return a column as an array; all its cells must have one shape."""
    cells = dataset.with_format("numpy")[:][name]
    try:
        return np.stack([np.asarray(cell) for cell in cells])
    except ValueError as error:
        shapes = sorted({np.asarray(cell).shape for cell in cells})[:3]
        raise SettingError(
            f"column {name!r} must have cells of one shape, got {shapes}. Resize or pad them first."
        ) from error


def _require_numbers(columns: list[NumpyArray], names: list[str]) -> None:
    for column, name in zip(columns, names, strict=True):
        require(
            column.ndim == 1, f"column {name!r}", f"cells of shape {column.shape[1:]}",
            "numbers, because inputs of several columns are stacked", "Pass one column as x.",
        )  # fmt: skip
