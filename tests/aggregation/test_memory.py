"""``init`` and ``update``: an aggregate that is kept up to date while few models change."""

import criteria
import exact
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedplus as fp
from fedplus.aggregation import ChangedRows, kernels

N, D, CHANGED = 256, 37, 8
LAYOUT = (("body", 20), ("head", 17))
AGGREGATORS = {
    "mean": fp.Mean(),
    "geometric median": fp.GeometricMedian(),
    "L2": fp.Moreau(fp.L2(0.1)),
    "L1": fp.Moreau(fp.L1(0.1)),
    "small L1": fp.Moreau(fp.L1(1e-4)),
    "blocks": fp.Moreau(fp.Blocks({"head": fp.L1(0.1), "*": fp.L2(0.1)}, LAYOUT)),
}
every_aggregator = pytest.mark.parametrize("name", AGGREGATORS)


def begun(aggregator, w):
    """W of N equal models, and the memory of that."""
    first = jnp.asarray(w, jnp.float32)
    memory = jax.tree.map(jnp.array, aggregator.init(first, N, CHANGED))
    assert memory != () or not kernels.available()
    return np.tile(np.asarray(first), (N, 1)), first, memory


@jax.jit
def updated(aggregator, w_local, start, memory, rows, before):
    return aggregator.update(w_local, None, start, memory, ChangedRows(rows, before))


def moves(kind, rng, rows, before):
    """Where models go: a little further, to a common place, far away and back, or onto one another."""
    size = before.shape
    return {
        "train": lambda: before + 0.3 * rng.standard_normal(size) + 0.01,
        "attack": lambda: np.where(
            rng.random((size[0], 1)) < 0.3,
            1e6 * rng.standard_normal(size),
            rng.standard_normal(size),
        ),
        "equal": lambda: np.round(before + rng.standard_normal(size), 1),
        "huge and back": lambda: 10.0 ** rng.integers(-20, 20) * rng.standard_normal(size),
    }[kind]().astype(np.float32)


@every_aggregator
@pytest.mark.parametrize("kind", ["train", "attack", "equal", "huge and back"])
def test_an_update_finds_what_the_whole_of_w_gives(name, kind):
    aggregator = AGGREGATORS[name]
    rng = np.random.default_rng(0)
    w_local, w, memory = begun(aggregator, rng.standard_normal(D))
    for t in range(90):
        rows = rng.choice(N, CHANGED, replace=False)
        before = w_local[rows]
        w_local[rows] = moves(kind, rng, rows, before)
        found, memory = updated(aggregator, w_local.copy(), w, memory, rows, before)
        w = found.w
        if t % 10 < 8 and t > 4:
            continue
        whole = aggregator(w_local)
        assert bool(found.converged) or not bool(whole.converged)
        if not bool(found.converged):
            continue
        assert error(name, w_local, np.asarray(w)) <= 1


def error(name, w_local, w):
    models, weights = exact.weighted(w_local, np.ones(N, np.float32))
    if name == "mean":
        size = np.abs(models).max(axis=0)
        return float(np.max(np.abs(w - models.mean(axis=0)) / (4e-6 * size + 1e-30)))
    if name == "blocks":
        body, head = w_local[:, :20], w_local[:, 20:]
        return max(error("L2", body, w[:20]), error("L1", head, w[20:]))
    delta = {"geometric median": 0.0, "small L1": float(np.float32(1e-4))}.get(
        name, float(np.float32(0.1))
    )
    if name.endswith("L1"):
        return criteria.soft_coordinate_median_error(models, weights, delta, w)
    return criteria.geometric_objective_error(models, weights, delta, w)


@every_aggregator
def test_weights_do_not_spoil_a_memory(name):
    aggregator = AGGREGATORS[name]
    rng = np.random.default_rng(1)
    w_local, w, memory = begun(aggregator, np.zeros(D))
    weights = jnp.asarray(rng.uniform(0.5, 1, N), jnp.float32)
    for given in (None, weights, None):
        rows = rng.choice(N, CHANGED, replace=False)
        before = w_local[rows]
        w_local[rows] = rng.standard_normal((CHANGED, D)).astype(np.float32) + 3
        changed = ChangedRows(jnp.asarray(rows), jnp.asarray(before))
        found, memory = aggregator.update(jnp.asarray(w_local), given, w, memory, changed)
        w = found.w
        np.testing.assert_allclose(w, aggregator(w_local, given).w, atol=1e-4)


def test_an_aggregator_without_memory_solves():
    w_local = jnp.asarray(np.random.default_rng(2).standard_normal((9, 4)), jnp.float32)
    krum = fp.Krum()
    assert krum.init(w_local[0], 9, 1) == ()
    found, memory = krum.update(
        w_local, None, w_local[0], (), ChangedRows(jnp.array([0]), w_local[:1])
    )
    assert memory == ()
    np.testing.assert_array_equal(found.w, krum(w_local).w)
