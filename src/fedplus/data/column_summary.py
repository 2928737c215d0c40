"""``ColumnSummary``: what a column of a table holds, and how much the parties differ in it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from fedplus._types import NumpyArray
from fedplus.data.scaling import Moments, pool_moments
from fedplus.data.table_encoding import Table, TableEncoding, missing_mask


class ColumnSummary(NamedTuple):
    """A column of the parties' tables."""

    name: str
    kind: str
    """"numbers", or the number of categories."""
    missing: int
    """The number of rows without a value."""
    difference: float
    """How far the most unusual party is from all samples together. For numbers: the distance of its
    mean from the common mean, in standard deviations. For categories: the share of its samples that
    would have to change their category (the total variation distance), from 0 to 1."""
    party: str
    """The most unusual party."""


def summarise_columns(
    encoding: TableEncoding, table: Table, x: NumpyArray, rows: Mapping[str, NumpyArray]
) -> tuple[ColumnSummary, ...]:
    """Return a summary of each column that is used.

    Args:
        encoding: How columns become inputs.
        table: The columns.
        x: The encoded inputs (n, features), not scaled.
        rows: Each party's row numbers, by its name.
    """
    moments = {name: Moments.of(x[numbers]) for name, numbers in rows.items()}
    pooled = pool_moments(list(moments.values()))
    names, summaries, first = list(rows), [], 0
    for column in encoding.columns:
        inputs = slice(first, first + len(column.inputs))
        first += len(column.inputs)
        distance = np.array(
            [np.abs(m.mean[inputs] - pooled.mean[inputs]) for m in moments.values()]
        )
        if column.categories:
            differences = distance.sum(1) / 2
        else:
            deviation = np.sqrt(pooled.variance[inputs])
            differences = (distance / np.where(deviation > 0, deviation, 1))[:, 0]
        has_values = np.array([m.count[inputs].min() > 0 for m in moments.values()])
        differences = np.where(has_values, differences, 0.0)
        most = int(differences.argmax())
        kind = f"{len(column.categories)} categories" if column.categories else "numbers"
        gaps = int(missing_mask(table[column.name]).sum())
        summaries.append(
            ColumnSummary(column.name, kind, gaps, float(differences[most]), names[most])
        )
    return tuple(summaries)


def label_difference(labels: Mapping[str, NumpyArray], are_classes: bool) -> tuple[float, str]:
    """Return how far the most unusual party's labels are from all labels, as in ``ColumnSummary``."""
    if are_classes:
        classes = np.unique(np.concatenate(list(labels.values())))
        labels = {name: np.asarray(y[:, None] == classes, float) for name, y in labels.items()}
    else:
        labels = {name: np.asarray(y, float).reshape(len(y), -1) for name, y in labels.items()}
    means: Any = np.stack([y.mean(0) for y in labels.values()])
    every = np.concatenate(list(labels.values()))
    if are_classes:
        differences = np.abs(means - every.mean(0)).sum(1) / 2
    else:
        deviation = every.std(0)
        differences = (np.abs(means - every.mean(0)) / np.where(deviation > 0, deviation, 1)).max(1)
    most = int(differences.argmax())
    return float(differences[most]), list(labels)[most]
