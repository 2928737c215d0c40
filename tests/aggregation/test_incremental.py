"""Incremental aggregation by ``init`` and ``update``, where few models change from round to round."""

import exact_aggregates as exact
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import relative_errors

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


def start_with_equal_models(aggregator, w):
    """Return a W of N equal models, the model, and the memory for them."""
    first = jnp.asarray(w, jnp.float32)
    memory = jax.tree.map(jnp.array, aggregator.init(first, N, CHANGED))
    assert memory != () or not kernels.available()
    return np.tile(np.asarray(first), (N, 1)), first, memory


@jax.jit
def update(aggregator, w_local, start, memory, rows, before):
    return aggregator.update(w_local, None, start, memory, ChangedRows(rows, before))


def change(kind, rng, before):
    """Return new models in place of ``before``."""
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
def test_an_update_gives_the_aggregate_of_all_models(name, kind):
    aggregator = AGGREGATORS[name]
    rng = np.random.default_rng(0)
    w_local, w, memory = start_with_equal_models(aggregator, rng.standard_normal(D))
    for t in range(90):
        rows = rng.choice(N, CHANGED, replace=False)
        before = w_local[rows]
        w_local[rows] = change(kind, rng, before)
        result, memory = update(aggregator, w_local.copy(), w, memory, rows, before)
        w = result.w
        if t % 10 < 8 and t > 4:
            continue
        from_all = aggregator(w_local)
        assert bool(result.converged) or not bool(from_all.converged)
        if not bool(result.converged):
            continue
        assert relative_error(name, w_local, np.asarray(w)) <= 1


def relative_error(name, w_local, w):
    """Return the error of an aggregate relative to the allowed one."""
    models, weights = exact.weighted(w_local, np.ones(N, np.float32))
    if name == "mean":
        size = np.abs(models).max(axis=0)
        return float(np.max(np.abs(w - models.mean(axis=0)) / (4e-6 * size + 1e-30)))
    if name == "blocks":
        body, head = w_local[:, :20], w_local[:, 20:]
        return max(relative_error("L2", body, w[:20]), relative_error("L1", head, w[20:]))
    delta = {"geometric median": 0.0, "small L1": float(np.float32(1e-4))}.get(
        name, float(np.float32(0.1))
    )
    if name.endswith("L1"):
        return relative_errors.soft_coordinate_median_error(models, weights, delta, w)
    return relative_errors.geometric_objective_error(models, weights, delta, w)


@every_aggregator
def test_a_round_with_weights_does_not_invalidate_the_memory(name):
    aggregator = AGGREGATORS[name]
    rng = np.random.default_rng(1)
    w_local, w, memory = start_with_equal_models(aggregator, np.zeros(D))
    weights = jnp.asarray(rng.uniform(0.5, 1, N), jnp.float32)
    for given in (None, weights, None):
        rows = rng.choice(N, CHANGED, replace=False)
        before = w_local[rows]
        w_local[rows] = rng.standard_normal((CHANGED, D)).astype(np.float32) + 3
        changed = ChangedRows(jnp.asarray(rows), jnp.asarray(before))
        result, memory = aggregator.update(jnp.asarray(w_local), given, w, memory, changed)
        w = result.w
        np.testing.assert_allclose(w, aggregator(w_local, given).w, atol=1e-4)


def test_without_a_memory_update_is_solve():
    w_local = jnp.asarray(np.random.default_rng(2).standard_normal((9, 4)), jnp.float32)
    krum = fp.Krum()
    assert krum.init(w_local[0], 9, 1) == ()
    result, memory = krum.update(
        w_local, None, w_local[0], (), ChangedRows(jnp.array([0]), w_local[:1])
    )
    assert memory == ()
    np.testing.assert_array_equal(result.w, krum(w_local).w)
