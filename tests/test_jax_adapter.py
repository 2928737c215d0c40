"""The JAX adapter agrees with the formulas and with the NumPy party."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flwr.clientapp import ClientApp

import fedplus as fp
from fedplus import jax as adapter
from fedplus.flower import FedPlus, InProcessGrid, Party
from linear_federation import PARTIES, STEPS, FixedTarget, half_arrays, make_app, samples, zeros

METHOD = fp.presets.fedgeomed_plus(eta=0.1, sigma=0.5)


@pytest.mark.parametrize(
    "optimizer", [optax.sgd(0.1), optax.sgd(0.1, momentum=0.9), optax.adam(0.1)]
)
def test_a_step_is_the_optimizers_step_followed_by_the_pull(optimizer):
    model = eqx.nn.MLP(3, 2, 4, 1, key=jax.random.key(0))
    params, static = eqx.partition(model, eqx.is_inexact_array)
    x = jax.random.normal(jax.random.key(1), (5, 3))

    def grads(params):
        return jax.grad(lambda p: jnp.sum(jax.vmap(eqx.combine(p, static))(x) ** 2))(params)

    pull = adapter.Pull(optimizer)
    pulled, state = params, pull.init(params, FixedTarget(0.8, half_arrays(adapter.arrays(params))))
    plain, twin = params, optimizer.init(params)
    for _ in range(4):
        updates, state = pull.update(grads(pulled), state, pulled)
        pulled = optax.apply_updates(pulled, updates)
        updates, twin = optimizer.update(grads(plain), twin, plain)
        plain = jax.tree.map(lambda w: 0.8 * w + 0.2 * 0.5, optax.apply_updates(plain, updates))
    for name, array in adapter.arrays(plain).items():
        np.testing.assert_allclose(adapter.arrays(pulled)[name], array, atol=1e-5)


def test_put_arrays_changes_only_the_parameters_of_a_module():
    model = eqx.nn.MLP(3, 2, 4, 1, key=jax.random.key(0))
    other = adapter.put_arrays(model, half_arrays(adapter.arrays(model)))
    assert isinstance(other, eqx.nn.MLP)
    assert other.activation is model.activation
    assert (other.layers[0].weight == 0.5).all()
    assert set(adapter.arrays({"w": jnp.zeros(2), "count": jnp.zeros(2, int)})) == {"w"}
    with pytest.raises(fp.SettingError, match="names of the parameters must be layers/0/weight"):
        adapter.put_arrays(model, {"w": np.zeros(2)})
    with pytest.raises(fp.SettingError, match="w must be of shape \\(2,\\), got shape \\(3,\\)"):
        adapter.put_arrays({"w": jnp.zeros(2)}, {"w": np.zeros(3)})


def test_half_precision_is_sent_as_float32():
    arrays = adapter.arrays({"w": jnp.ones(2, jnp.bfloat16), "scale": jnp.ones(())})
    assert {a.dtype for a in arrays.values()} == {np.dtype(np.float32)}
    model = adapter.put_arrays({"w": jnp.zeros(2, jnp.bfloat16), "scale": jnp.zeros(())}, arrays)
    assert model["w"].dtype == jnp.bfloat16


def test_a_federation_with_jax_equals_one_with_numpy(tmp_path):
    data, pull, app = samples(), adapter.Pull(optax.sgd(0.1)), ClientApp()

    def loss(w, x, y):
        return 0.5 * jnp.mean((x @ w["weight"].T + w["bias"] - y[:, None]) ** 2)

    @app.train()
    def train(message, context):
        k = context.node_config["partition-id"]
        party = Party(message, context, tmp_path / "jax" / str(k))
        w = adapter.put_arrays(zeros(), party.start)
        state = pull.init(w, party)
        for _ in party.local_steps(STEPS):
            updates, state = pull.update(jax.grad(loss)(w, *data[k]), state, w)
            w = optax.apply_updates(w, updates)
        return party.reply(adapter.arrays(w), {"num-examples": 20})

    with_jax, with_numpy = FedPlus(METHOD, rounds=5), FedPlus(METHOD, rounds=5)
    with_jax.run(InProcessGrid(app, PARTIES), zeros())
    with_numpy.run(InProcessGrid(make_app(METHOD, tmp_path / "numpy"), PARTIES), zeros())
    np.testing.assert_allclose(with_jax.state.w_global, with_numpy.state.w_global, atol=1e-5)
