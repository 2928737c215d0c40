"""A party whose key is registered, and whose SuperNode starts, while a run is going on."""

import numpy as np
import pytest
from app_deployment import run_in_process

pytestmark = pytest.mark.long
EARLY, ROUNDS, FIRST_ROUNDS = 2, 10, 2


def test_a_party_that_registers_during_a_run_joins_at_the_global_model(deployment, tmp_path):
    """It takes part in all later rounds of the same run; all models are those of one process."""
    deployment.start(EARLY)
    run = deployment.train(rounds=ROUNDS, pause=3.0)
    deployment.wait_until(lambda: deployment.rounds_done() >= FIRST_ROUNDS, "the first rounds", 300)
    late = EARLY
    key = deployment.register_key(late)
    deployment.start_supernode(late, key, num_partitions=EARLY + 1)
    result = deployment.result(run, 900)
    assert (result["done"], result["skipped"], result["dropped"]) == (ROUNDS, 0, [])

    rounds = [t for t in range(1, ROUNDS + 1) if deployment.round_start(late, t) is not None]
    joined = rounds[0]
    assert FIRST_ROUNDS < joined < ROUNDS
    assert rounds == list(range(joined, ROUNDS + 1))
    before = run_in_process(tmp_path / "here", joined - 1, EARLY).state.w_global
    assert before.any()
    np.testing.assert_allclose(deployment.round_start(late, joined), before, atol=1e-6)
    expected = run_in_process(tmp_path / "here", ROUNDS, EARLY + 1).state
    np.testing.assert_allclose(result["w_global"], expected.w_global, atol=1e-6)
    models = sorted(w.tolist() for w in expected.models.values())
    np.testing.assert_allclose(result["models"], models, atol=1e-6)
