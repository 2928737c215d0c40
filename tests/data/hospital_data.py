"""A small data frame of patients in three hospitals, and a comparison of federations."""

import numpy as np
import pandas

RNG = np.random.default_rng(0)
COLUMNS = {
    "hospital": ["north"] * 30 + ["south"] * 50 + ["east"] * 20,
    "age": RNG.integers(20, 90, 100).tolist(),
    "dose": RNG.normal(size=100).round(3).tolist(),
    "outcome": RNG.choice(["ill", "well"], 100).tolist(),
}
FRAME = pandas.DataFrame(COLUMNS)


def assert_equal_federations(first, second):
    assert first.names == second.names
    for a, b in ((first.train, second.train), (first.test, second.test)):
        assert np.array_equal(a.x, b.x)
        assert np.array_equal(a.y, b.y)
        assert np.array_equal(a.size, b.size)
