"""A minority that lies: what it does to the honest parties' accuracy on handwritten digits."""

import functools

import numpy as np
import pytest

from deployment import in_process
from fedplus.experiments.run_folder import RunFolder

HONEST, LIAR = 5, 5


@pytest.fixture(scope="module")
def accuracy(tmp_path_factory):
    """The honest parties', of the models that the method gives them."""

    @functools.cache
    def found(method, lie):
        folder = tmp_path_factory.mktemp(f"{method}-{lie}")
        config = {"task": "digits", "method": method, "fault": lie, "faulty": LIAR}
        in_process(folder, rounds=6, parties=HONEST + 1, **config)
        line = RunFolder(folder / "server").lines[-1]
        which = "global_score" if method == "fedavg" else "personal_score"
        return np.mean(line[which][:HONEST])

    return found


@pytest.mark.parametrize("lie", ["flip", "scale"])
@pytest.mark.parametrize("method", ["fedgeomed_plus", "fedcomed_plus"])
def test_medians_keep_the_honest_parties_accuracy(accuracy, method, lie):
    assert accuracy(method, "") > 0.8
    assert abs(accuracy(method, lie) - accuracy(method, "")) < 0.02


@pytest.mark.parametrize("lie", ["flip", "scale"])
def test_the_mean_does_not(accuracy, lie):
    assert accuracy("fedavg", "") > 0.8
    assert accuracy("fedavg", lie) < accuracy("fedavg", "") - 0.2
