"""A party that never took part influences nothing, and counts from its first round on."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedplus as fp
from fedplus import presets
from fedplus.aggregation import kernels
from fedplus.simulation import Fault, Stragglers, Trace, Uniform
from fedplus.simulation.faults import not_finite
from small_federation import CLASSIFIER, federation

N, D, COHORT, ROUNDS = 256, 9, 8, 60
LAYOUT = (("body", 5), ("head", 4))
AGGREGATORS = {
    "mean": fp.Mean(),
    "geometric median": fp.GeometricMedian(),
    "L2": fp.Moreau(fp.L2(0.5)),
    "coordinate median": fp.CoordinateMedian(),
    "L1": fp.Moreau(fp.L1(0.2)),
    "quadratic": fp.Moreau(fp.Quadratic(0.2)),
    "blocks": fp.Moreau(fp.Blocks({"head": fp.L1(0.2), "*": fp.L2(0.5)}, LAYOUT)),
    "trimmed mean": fp.TrimmedMean(0.2),
    "krum": fp.Krum(),
    "centred clipping": fp.CentredClipping(tau=1.0),
}
INCREMENTAL = ["mean", "geometric median", "L2", "L1", "quadratic", "blocks"]
FAR = 50.0
"""The entries of the first model, which no party has after its first round."""


@jax.jit
def run_round(method, state, work):
    """Train by gradient steps towards the targets in ``work.batches``."""
    return method.round(state, work, lambda w, target: w - target)


def make(aggregate, join="current"):
    local = fp.LocalSolve(fp.L2(0.1), eta=0.9, sigma=0.1)
    return fp.FedPlus(local, aggregate, join=join)


def works(seed, rounds=ROUNDS, weighted=False, absent=False):
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.5, 2, N).astype(np.float32) if weighted else None
    for _ in range(rounds):
        targets = rng.standard_normal((COHORT, 3, D)).astype(np.float32)
        present = rng.random(COHORT) < 0.6 if absent else None
        cohort = rng.choice(N, COHORT, replace=False)
        steps = np.full(COHORT, 3)
        yield fp.Work(jnp.asarray(cohort), jnp.asarray(targets), steps, weights, present)


def first_state(method, memory):
    start = jnp.full(D, FAR, jnp.float32)
    state = method.init(start, N, COHORT) if memory else method.init(start, N)
    return jax.tree.map(jnp.array, state)


def assert_is_aggregate(method, state, rows, weights=None):
    """Require that w̃ is the aggregate of these rows, computed directly and without the others."""
    w = np.asarray(state.w_local)[rows]
    weights = None if weights is None else np.asarray(weights)[rows]
    expected = method.aggregator(w, weights)
    np.testing.assert_allclose(state.w_global, expected.w, atol=2e-4)


@pytest.mark.parametrize("name", INCREMENTAL)
def test_incremental_aggregates_are_those_of_the_joined_parties_alone(name):
    """There are many rounds with random cohorts, and most parties join late."""
    method = make(AGGREGATORS[name])
    state, joined = first_state(method, memory=True), set()
    assert state.memory != () or not kernels.available()
    for t, work in enumerate(works(0)):
        state, outcome = run_round(method, state, work)
        joined |= set(np.asarray(work.cohort).tolist())
        assert set(np.flatnonzero(state.joined)) == joined
        if t < 4 or t % 9 == 0:
            assert bool(outcome.aggregate.converged)
            assert_is_aggregate(method, state, sorted(joined))
    assert len(joined) < N
    assert np.abs(np.asarray(state.w_global)).max() < 5  # The first model is far away.


@pytest.mark.parametrize("name", AGGREGATORS)
@pytest.mark.parametrize(("weighted", "absent"), [(False, True), (True, False)])
def test_direct_aggregates_are_those_of_the_joined_parties_alone(name, weighted, absent):
    """This also holds with weights. Parties whose replies do not arrive have not joined."""
    method = make(AGGREGATORS[name])
    state, joined, weights = first_state(method, memory=False), set(), None
    for work in works(1, 6, weighted, absent):
        state, _ = run_round(method, state, work)
        cohort = np.asarray(work.cohort)
        joined |= set(cohort if work.present is None else cohort[work.present])
        assert set(np.flatnonzero(state.joined)) == joined
        weights = work.weights
    if name == "centred clipping":  # It depends on its start, the last w̃.
        assert np.abs(np.asarray(state.w_global)).max() < FAR
    else:
        assert_is_aggregate(method, state, sorted(joined), weights)
    new = [k for k in range(N) if k not in joined]
    np.testing.assert_array_equal(np.asarray(state.w_local)[new], np.full((len(new), D), FAR))


@pytest.mark.parametrize("name", AGGREGATORS)
@pytest.mark.parametrize("memory", [False, True])
def test_the_rows_of_parties_that_never_took_part_change_nothing(name, memory):
    """Their entries in W are replaced, and the results stay the same."""
    method = make(AGGREGATORS[name])
    given = list(works(2, 12))
    active = {k for work in given for k in np.asarray(work.cohort).tolist()}
    new = np.array([k for k in range(N) if k not in active])
    plain = first_state(method, memory)
    noise = 1e3 * np.random.default_rng(0).standard_normal((len(new), D))
    noisy = jax.tree.map(jnp.array, plain)
    noisy = noisy._replace(w_local=noisy.w_local.at[new].set(noise.astype(np.float32)))
    for work in given:
        plain, _ = run_round(method, plain, work)
        noisy, _ = run_round(method, noisy, work)
    np.testing.assert_allclose(noisy.w_global, plain.w_global, rtol=1e-4, atol=1e-5)
    rows = sorted(active)
    np.testing.assert_allclose(
        np.asarray(noisy.w_local)[rows], np.asarray(plain.w_local)[rows], rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("name", INCREMENTAL)
def test_with_join_first_the_first_models_count_from_the_beginning(name):
    """This is Algorithm 1 as printed (Deviation D18)."""
    method = make(AGGREGATORS[name], join="first")
    state = first_state(method, memory=True)
    assert isinstance(state.joined, tuple)
    for t, work in enumerate(works(3, 8)):
        state, _ = run_round(method, state, work)
        assert_is_aggregate(method, state, range(N))
        if t == 0 and name == "mean":
            assert np.asarray(state.w_global).min() > 0.8 * FAR


@pytest.mark.parametrize("name", AGGREGATORS)
def test_if_nobody_has_joined_the_global_model_stays(name):
    method = make(AGGREGATORS[name])
    state = first_state(method, memory=False)
    (work,) = works(4, 1)
    state, _ = run_round(method, state, work._replace(present=jnp.zeros(COHORT, bool)))
    np.testing.assert_array_equal(state.w_global, np.full(D, FAR))
    assert not np.asarray(state.joined).any()
    state, _ = run_round(method, state, work)
    assert np.abs(np.asarray(state.w_global)).max() < FAR


def test_a_party_starts_at_the_current_global_model():
    """It does so in its first round with a reply; in later rounds it starts at its own model."""
    method = make(fp.Mean()).replace(eta=1e-12, sigma=0.0)
    state = first_state(method, memory=False)._replace(w_global=jnp.full(D, 7.0))
    (work,) = works(5, 1)
    cohort = np.asarray(work.cohort)
    absent = work._replace(present=jnp.arange(COHORT) > 0)
    after, outcome = run_round(method, state, absent)
    np.testing.assert_allclose(outcome.solved, np.full((COHORT, D), 7.0), rtol=1e-6)
    later, outcome = run_round(method, after._replace(w_global=jnp.full(D, 3.0)), work)
    np.testing.assert_allclose(outcome.solved[0], np.full(D, 3.0), rtol=1e-6)
    np.testing.assert_allclose(outcome.solved[1:], np.full((COHORT - 1, D), 7.0), rtol=1e-6)
    assert set(np.flatnonzero(later.joined)) == set(cohort)


PARTIES = 6
SIZES = (20, 7, 25, 12, 15, 9)
AVAILABLE = np.random.default_rng(1).random((9, PARTIES)) < 0.5
AVAILABLE[:, 4] = False
CIRCUMSTANCES = {
    "plain": {"cohort": Uniform(2)},
    "weights": {"cohort": Uniform(2), "weights": "size"},
    "stragglers": {"cohort": Uniform(3), "stragglers": Stragglers(0.5, drop=True)},
    "trace": {"cohort": Trace(jnp.asarray(AVAILABLE), 3)},
    "fault": {"cohort": Uniform(3), "faults": Fault(parties=(1,), attack=not_finite())},
}


@pytest.mark.parametrize(
    ("name", "circumstance"),
    [("fedgeomed_plus", "plain"), ("fedcomed_plus", "trace"), ("fedavg_plus", "weights"),
     ("fedgeomed_plus", "stragglers"), ("fedcomed_plus", "fault")],
)  # fmt: skip
def test_the_simulator_aggregates_the_parties_that_have_joined(name, circumstance):
    options = CIRCUMSTANCES[circumstance]
    method = getattr(presets, name)(eta=0.1, sigma=0.5)
    data = federation(SIZES)
    size = np.asarray(data.train.size, np.float32)
    for rounds in (1, 7):
        run = fp.simulate(method, data, CLASSIFIER, rounds=rounds, steps=3, batch_size=8, **options)
        state = run.state
        joined = set(np.flatnonzero(state.joined).tolist())
        cohorts = run.figures["cohort"]
        assert joined <= set(cohorts.ravel().tolist())
        if circumstance in ("plain", "weights", "fault"):
            assert joined == set(cohorts.ravel().tolist())
        if circumstance == "trace":
            assert joined == set(np.flatnonzero(AVAILABLE[:rounds].any(axis=0))) & set(
                cohorts.ravel().tolist()
            )
        rows = sorted(joined - ({1} if circumstance == "fault" else set()))
        weights = size / size.mean() if circumstance == "weights" else None
        assert_is_aggregate(method, state, rows, weights)
        new = [k for k in range(len(SIZES)) if k not in joined]
        np.testing.assert_array_equal(run.models[new], np.tile(run.w_global, (len(new), 1)))


def test_all_parties_in_every_round_join_at_once():
    """Both ways to join give the same result in this case."""
    method = presets.fedgeomed_plus(eta=0.1, sigma=0.5)
    one, other = (
        fp.simulate(m, federation(), CLASSIFIER, rounds=4, steps=3, batch_size=8)
        for m in (method, dataclasses.replace(method, join="first"))
    )
    np.testing.assert_array_equal(one.models, other.models)
    np.testing.assert_array_equal(one.w_global, other.w_global)


def test_local_training_never_starts_at_other_parties_work():
    """A party's model does not depend on the samples of parties that took part before it."""
    method, data = presets.local_sgd(eta=0.1), federation()
    x = data.train.x.copy()
    x[data.train.start[1] : data.train.start[1] + data.train.size[1]] *= -3
    other = data._replace(train=data.train._replace(x=x))
    one, two = (
        fp.simulate(method, d, CLASSIFIER, rounds=9, cohort=1, steps=3, batch_size=8)
        for d in (data, other)
    )
    same = (one.models == two.models).all(axis=1)
    assert same.tolist() == [True, False, True, True, True]
