"""Hugging Face data sets and Flower's partitioners."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedplus._types import Host
from fedplus.check import SettingError, require
from fedplus.data.federation import Federation, Task
from fedplus.data.holdout import Splitting
from fedplus.data.metadata import Metadata
from fedplus.data.partition import by_column
from fedplus.data.tables import encode_labels


def federation_from_dataset(
    dataset: Any, partition_by: Any, x: str | Sequence[str] | None, y: str, task: Task | None,
    split: Splitting,
) -> Federation:  # fmt: skip
    """See ``Federation.from_hf``."""
    known = list(getattr(dataset, "column_names", ()))
    require(
        isinstance(getattr(dataset, "column_names", None), list), "dataset",
        type(dataset).__name__, "a datasets.Dataset", 'Of a DatasetDict take one, e.g. ["train"].',
    )  # fmt: skip
    inputs = [c for c in known if c not in (y, partition_by)] if x is None else x
    inputs = [inputs] if isinstance(inputs, str) else list(inputs)
    wanted = [*inputs, y, *([partition_by] if isinstance(partition_by, str) else [])]
    for name in wanted:
        require(name in known, "column", repr(name), f"one of the data set's: {', '.join(known)}")
    require(bool(inputs), "x", "no columns", "at least one column with inputs")
    arrays = [_array(dataset, name) for name in inputs]
    stacked = arrays[0] if len(arrays) == 1 else np.stack(_flat(arrays, inputs), axis=1)
    named = getattr(dataset.features.get(y), "names", None)
    codes, classes = _array(dataset, y), tuple(named or ())
    if not named:
        codes, classes = encode_labels(codes, y, task)
    if isinstance(partition_by, str):
        rows = by_column(_array(dataset, partition_by))(codes, np.random.default_rng(0))
    else:
        rows = _flower_rows(dataset, partition_by)
    made = Federation.from_partition(stacked, codes, rows, **split)
    return made._replace(info=Metadata(classes=classes))


def _flower_rows(dataset: Any, partitioner: Any) -> dict[str, Host]:
    """Its partitions of the row numbers, whatever it looks at to make them."""
    require(
        hasattr(partitioner, "load_partition"), "partition_by", type(partitioner).__name__,
        "a column's name, or a partitioner of flwr_datasets",
    )  # fmt: skip
    place = "fedplus row number"
    numbered = dataset.add_column(place, np.arange(len(dataset)).tolist())
    require(
        not partitioner.is_dataset_assigned(), "partition_by", "a partitioner that has a data set",
        "a new one: it takes one data set in its life",
    )  # fmt: skip
    partitioner.dataset = numbered
    return {
        str(k): np.asarray(partitioner.load_partition(k)[place])
        for k in range(partitioner.num_partitions)
    }


def _array(dataset: Any, name: str) -> Host:
    cells = dataset.with_format("numpy")[:][name]
    try:
        return np.stack([np.asarray(cell) for cell in cells])
    except ValueError as error:
        shapes = sorted({np.asarray(cell).shape for cell in cells})[:3]
        raise SettingError(
            f"column {name!r} must have cells of one shape, got {shapes}. Resize or pad them first."
        ) from error


def _flat(arrays: list[Host], names: list[str]) -> list[Host]:
    for array, name in zip(arrays, names, strict=True):
        require(
            array.ndim == 1, f"column {name!r}", f"cells of shape {array.shape[1:]}",
            "numbers, for inputs of several columns are stacked", "Name one column as x.",
        )  # fmt: skip
    return arrays
