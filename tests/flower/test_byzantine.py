"""Medians protect the honest parties' accuracy from a lying party; the mean does not."""

import functools

import numpy as np
import pytest
from app_deployment import run_in_process

from fedplus.experiments.run_folder import RunFolder

HONEST, LIAR = 5, 5


@pytest.fixture(scope="module")
def accuracy(tmp_path_factory):
    """Return a function for the honest parties' mean accuracy with a method and a lie."""

    @functools.cache
    def train(method, lie):
        folder = tmp_path_factory.mktemp(f"{method}-{lie}")
        config = {"task": "digits", "method": method, "fault": lie, "faulty": LIAR}
        run_in_process(folder, rounds=6, parties=HONEST + 1, **config)
        line = RunFolder(folder / "server").lines[-1]
        which = "global_score" if method == "fedavg" else "personal_score"
        return np.mean(line[which][:HONEST])

    return train


@pytest.mark.parametrize("lie", ["flip", "scale"])
@pytest.mark.parametrize("method", ["fedgeomed_plus", "fedcomed_plus"])
def test_a_lie_does_not_change_the_accuracy_with_medians(accuracy, method, lie):
    assert accuracy(method, "") > 0.8
    assert abs(accuracy(method, lie) - accuracy(method, "")) < 0.02


@pytest.mark.parametrize("lie", ["flip", "scale"])
def test_a_lie_lowers_the_accuracy_with_the_mean(accuracy, lie):
    assert accuracy("fedavg", "") > 0.8
    assert accuracy("fedavg", lie) < accuracy("fedavg", "") - 0.2
