"""What a party holds. Replace it with your own reader; the rest of the app only calls ``held``."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits

FEATURES, CLASSES = 64, 10


class Data(NamedTuple):
    """Samples to train on, and samples to judge the model by."""

    x: Any
    y: Any
    x_test: Any
    y_test: Any


def held(node: Mapping[str, Any]) -> Data:
    """A party's own samples.

    Here: an equal part of scikit-learn's handwritten digits; the last party's images are negatives.
    A real party would read its own files, e.g. from ``node["data"]``, given by
    ``fedplus-supernode --node-config 'partition-id=0 data="/srv/data.parquet"'``.
    """
    k, parties = int(node["partition-id"]), int(node["num-partitions"])
    digits = load_digits()
    mine = np.random.default_rng(0).permutation(len(digits.target))[k::parties]
    x = (digits.data[mine] / 8 - 1).astype(np.float32)
    y = digits.target[mine].astype(np.int32)
    if k == parties - 1:
        x = -x
    test = len(mine) // 4
    return Data(x[test:], y[test:], x[:test], y[:test])
