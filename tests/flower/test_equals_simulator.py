"""A deployment gives the simulator's models: with partial cohorts, late parties and private layers."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flwr.clientapp import ClientApp

import fedplus as fp
from fedplus import schedules
from fedplus.flower import FedPlus, InProcessGrid, Party
from fedplus.layers import Layer, Layers
from fedplus.models import ravel
from fedplus.models.ravel import named_arrays
from fedplus.server_optimizer import OptaxServer

N, STEPS, SAMPLES = 5, 4, 12
ROUNDS_OF_PARTY = ((0, 2, 3), (0, 1, 4), (0, 2, 4), (1, 2, 4), ())
AVAILABLE = np.array([[t in rounds for rounds in ROUNDS_OF_PARTY] for t in range(5)])
"""(T, N): party 3 joins late, and party 4 never does."""
MODEL = fp.models.mlp(3, classes=2, hidden=4)
FIRST = jax.device_get(MODEL.init(jax.random.key(3)))
LAYOUT = ravel(FIRST).layout
BY_LAYER = {
    "head/bias": Layer(private=True, eta=0.1),
    "head/*": Layer(fp.L1(0.01), sigma=0.8, eta=schedules.Linear(0.4, 0.1, rounds=3)),
    "hidden0/bias": Layer(eta=0.0),
    "*": Layer(fp.L2(0.05), sigma=0.5, lam=0.3, begin_step=1),
}
METHODS = {
    "fedgeomed+": fp.presets.fedgeomed_plus(eta=0.3, sigma=0.3, delta=0.05),
    "schedules": fp.presets.fedcomed_plus(
        eta=schedules.Cosine(0.4, 0.1, rounds=4), sigma=lambda t: 0.2 + 0.1 * t,
        lam=schedules.WarmUp(rounds=2),
    ),
    "layers": Layers(BY_LAYER, LAYOUT).method(eta=0.3),
    "fedper": fp.presets.fedper(LAYOUT, eta=0.3),
    "fedrep": fp.presets.fedrep(LAYOUT, eta=0.3, head_steps=2),
    "fedadam": fp.presets.fedadam(eta=0.3),
    "optax": fp.presets.fedavg_plus(eta=0.3, sigma=0.3).replace(
        server_optimizer=OptaxServer(optax.adam(0.05))
    ),
}  # fmt: skip


def samples():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, SAMPLES, 3)).astype(np.float32)
    y = (x @ rng.normal(size=(N, 3, 1)) > 0)[..., 0].astype(np.int32)
    return list(zip(x, y, strict=True))


@jax.jit
def gradient(arrays, x, y):
    """Return the gradient of the mean loss over all samples, arrays by name."""

    def loss(arrays):
        params = jax.tree.unflatten(jax.tree.structure(FIRST), [arrays[n] for n, _ in LAYOUT])
        return jnp.mean(MODEL.task.loss(MODEL.apply(params, x), y))

    return jax.grad(loss)(arrays)


def deploy(method, folder, parties=None):
    """Train in process; return the strategy and each party's last model, flat."""
    data, models, app = samples(), {}, ClientApp()

    @app.train()
    def train(message, context):
        k = context.node_config["partition-id"]
        party = Party(message, context, folder / str(k), initial=named_arrays(FIRST))
        w = party.start
        for _ in party.local_steps(STEPS):
            g = gradient(w, *data[k])
            w = party.pull({n: w[n] - party.eta * np.asarray(g[n]) for n in w})
        models[k] = np.concatenate([w[name].ravel() for name, _ in LAYOUT])
        return party.reply(w)

    strategy = FedPlus(method, rounds=len(AVAILABLE), parties=parties)
    grid = InProcessGrid(app, N)
    grid.get_node_ids = lambda: (np.flatnonzero(AVAILABLE[strategy.state.rounds_done]) + 1).tolist()
    strategy.run(grid, named_arrays(FIRST))
    return strategy, models


def simulate(method):
    data = samples()
    model = MODEL._replace(init=lambda key: jax.tree.map(jnp.asarray, FIRST))
    return fp.simulate(
        method, fp.Federation.from_arrays(data, data), model, rounds=len(AVAILABLE), steps=STEPS,
        batch_size=SAMPLES, cohort=fp.simulation.Trace(AVAILABLE, N),
    )  # fmt: skip


@pytest.mark.parametrize("join", ["current", "first"])
@pytest.mark.parametrize("name", METHODS)
def test_models_equal_those_of_the_simulator(name, join, tmp_path):
    method = METHODS[name].replace(join=join)
    strategy, models = deploy(method, tmp_path, parties=N)
    run = simulate(method)
    assert strategy.dropped.total == 0
    w_global = method.shared(np.asarray(run.state.w_global))
    np.testing.assert_allclose(strategy.state.w_global, w_global, atol=2e-5)
    assert not np.allclose(w_global, method.shared(np.asarray(ravel(FIRST).w)), atol=1e-2)
    if not method.is_stateless():
        assert sorted(models) == [0, 1, 2, 3]
        for k, w in models.items():
            np.testing.assert_allclose(w, run.state.w_local[k], atol=2e-5)
