"""A party's data. Replace it with your own reader; the rest of the app only calls ``load_data``."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits

FEATURES, CLASSES = 64, 10


class Data(NamedTuple):
    """Training samples ``x`` with labels ``y``, and test samples ``x_test`` with ``y_test``."""

    x: Any
    y: Any
    x_test: Any
    y_test: Any


def load_data(node_config: Mapping[str, Any]) -> Data:
    """Return the samples of one party.

    This example returns an equal part of scikit-learn's handwritten digits; the last party's images
    are inverted. A real party reads its own files, for example from ``node_config["data"]``, set by
    ``fedplus-supernode --node-config 'partition-id=0 data="/srv/data.parquet"'``.
    """
    k, parties = int(node_config["partition-id"]), int(node_config["num-partitions"])
    digits = load_digits()
    rows = np.random.default_rng(0).permutation(len(digits.target))[k::parties]
    x = (digits.data[rows] / 8 - 1).astype(np.float32)
    y = digits.target[rows].astype(np.int32)
    if k == parties - 1:
        x = -x
    tests = len(rows) // 4
    return Data(x[tests:], y[tests:], x[:tests], y[:tests])
