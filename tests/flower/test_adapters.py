"""The adapters for JAX and scikit-learn against the formulas, and against the NumPy party."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from deployed import FEATURES, PARTIES, STEPS, app_of, samples, zeros
from flwr.clientapp import ClientApp
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.neural_network import MLPClassifier

import fedplus as fp
from fedplus import jax as of_jax
from fedplus import sklearn as of_sklearn
from fedplus.flower import FedPlus, InProcessGrid, Party

METHOD = fp.presets.fedgeomed_plus(eta=0.1, sigma=0.5)


class Fixed:
    """κ and an anchor."""

    def __init__(self, kappa, anchor):
        self.kappa, self.anchor = kappa, anchor


def halves(arrays):
    return {name: np.full(np.shape(a), 0.5, np.float32) for name, a in arrays.items()}


@pytest.mark.parametrize(
    "optimizer", [optax.sgd(0.1), optax.sgd(0.1, momentum=0.9), optax.adam(0.1)]
)
def test_every_step_is_the_optimizers_and_then_the_pull(optimizer):
    model = eqx.nn.MLP(3, 2, 4, 1, key=jax.random.key(0))
    params, static = eqx.partition(model, eqx.is_inexact_array)
    x = jax.random.normal(jax.random.key(1), (5, 3))

    def grads(params):
        return jax.grad(lambda p: jnp.sum(jax.vmap(eqx.combine(p, static))(x) ** 2))(params)

    pull = of_jax.Pull(optimizer)
    pulled, state = params, pull.init(params, Fixed(0.8, halves(of_jax.arrays(params))))
    plain, twin = params, optimizer.init(params)
    for _ in range(4):
        updates, state = pull.update(grads(pulled), state, pulled)
        pulled = optax.apply_updates(pulled, updates)
        updates, twin = optimizer.update(grads(plain), twin, plain)
        plain = jax.tree.map(lambda w: 0.8 * w + 0.2 * 0.5, optax.apply_updates(plain, updates))
    for name, array in of_jax.arrays(plain).items():
        np.testing.assert_allclose(of_jax.arrays(pulled)[name], array, atol=1e-5)


def test_a_module_keeps_what_is_no_parameter():
    model = eqx.nn.MLP(3, 2, 4, 1, key=jax.random.key(0))
    other = of_jax.put_arrays(model, halves(of_jax.arrays(model)))
    assert isinstance(other, eqx.nn.MLP)
    assert other.activation is model.activation
    assert (other.layers[0].weight == 0.5).all()
    assert set(of_jax.arrays({"w": jnp.zeros(2), "count": jnp.zeros(2, int)})) == {"w"}
    with pytest.raises(fp.SettingError, match="parameters must be those of layers/0/weight"):
        of_jax.put_arrays(model, {"w": np.zeros(2)})
    with pytest.raises(fp.SettingError, match="w must be of shape \\(2,\\), got shape \\(3,\\)"):
        of_jax.put_arrays({"w": jnp.zeros(2)}, {"w": np.zeros(3)})


@pytest.mark.parametrize(
    ("make", "classes"),
    [
        (lambda: SGDClassifier(loss="log_loss", random_state=0), [0, 1, 2]),
        (lambda: SGDClassifier(loss="log_loss", random_state=0), [0, 1]),
        (lambda: SGDRegressor(random_state=0), None),
        (lambda: MLPClassifier((4,), random_state=0, batch_size=8), [0, 1, 2]),
    ],
)
def test_every_partial_fit_is_the_estimators_and_then_the_pull(make, classes):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(8, 3))
    y = rng.normal(size=8) if classes is None else np.resize(classes, 8)
    estimator, twin = (of_sklearn.initialise(make(), 3, classes) for _ in range(2))
    pulled = of_sklearn.Pull(estimator, Fixed(0.8, halves(of_sklearn.arrays(estimator))))
    for _ in range(3):
        pulled.partial_fit(x, y)
        twin.partial_fit(x, y)
        moved = {n: 0.8 * a + 0.2 * 0.5 for n, a in of_sklearn.arrays(twin).items()}
        of_sklearn.put_arrays(twin, moved)
    for name, array in of_sklearn.arrays(twin).items():
        np.testing.assert_allclose(of_sklearn.arrays(estimator)[name], array, rtol=1e-4)
    np.testing.assert_allclose(estimator.predict(x), twin.predict(x), rtol=1e-4)


def test_an_estimator_that_has_seen_nothing_is_refused():
    with pytest.raises(fp.SettingError, match=r"estimator must be one with coef_.*begun first"):
        of_sklearn.arrays(SGDClassifier())


def test_an_averaging_estimator_is_refused():
    """Its coef_ is not what its steps start from."""
    with pytest.raises(fp.SettingError, match="estimator must be one without average"):
        of_sklearn.arrays(of_sklearn.initialise(SGDClassifier(average=True), 4, "ab"))


def test_half_precision_travels_as_float32():
    arrays = of_jax.arrays({"w": jnp.ones(2, jnp.bfloat16), "scale": jnp.ones(())})
    assert {a.dtype for a in arrays.values()} == {np.dtype(np.float32)}
    model = of_jax.put_arrays({"w": jnp.zeros(2, jnp.bfloat16), "scale": jnp.zeros(())}, arrays)
    assert model["w"].dtype == jnp.bfloat16


def test_linear_estimators_begin_at_zero():
    begun = of_sklearn.initialise(SGDClassifier(), 4, "ab")
    assert {n: a.tolist() for n, a in of_sklearn.arrays(begun).items()} == {
        "coef_": [[0.0] * 4], "intercept_": [0.0],
    }  # fmt: skip
    assert begun.predict(np.ones((1, 4)))[0] in ("a", "b")


def test_the_same_federation_as_with_numpy(tmp_path):
    data, pull, app = samples(), of_jax.Pull(optax.sgd(0.1)), ClientApp()

    def loss(w, x, y):
        return 0.5 * jnp.mean((x @ w["weight"].T + w["bias"] - y[:, None]) ** 2)

    @app.train()
    def train(message, context):
        k = context.node_config["partition-id"]
        party = Party(message, context, tmp_path / "jax" / str(k))
        w = of_jax.put_arrays(zeros(), party.start)
        state = pull.init(w, party)
        for _ in party.work(STEPS):
            updates, state = pull.update(jax.grad(loss)(w, *data[k]), state, w)
            w = optax.apply_updates(w, updates)
        return party.reply(of_jax.arrays(w), {"num-examples": 20})

    by_jax, by_numpy = FedPlus(METHOD, rounds=5), FedPlus(METHOD, rounds=5)
    by_jax.run(InProcessGrid(app, PARTIES), zeros())
    by_numpy.run(InProcessGrid(app_of(METHOD, tmp_path / "numpy"), PARTIES), zeros())
    np.testing.assert_allclose(by_jax.state.w_global, by_numpy.state.w_global, atol=1e-5)


def test_ditto_is_fedavg_with_a_second_model_that_stays_with_the_party(tmp_path):
    """As in docs/deployment.md, against the simulator's."""
    eta, lam, rounds, data, app = 0.1, 0.3, 5, samples(), ClientApp()
    method = fp.presets.fedavg(eta=eta)
    kept = {}

    def descended(w, x, y):
        error = x @ w["weight"].T + w["bias"] - y[:, None]
        gradient = {"bias": error.mean(0), "weight": (error.T @ x) / len(x)}
        return {name: w[name] - eta * gradient[name] for name in w}

    @app.train()
    def train(message, context):
        k = context.node_config["partition-id"]
        party = Party(message, context, tmp_path / str(k))
        w, personal = party.start, party.extra or party.start
        for _ in party.work(STEPS):
            w = party.pull(descended(w, *data[k]))
            stepped = descended(personal, *data[k])
            personal = {
                name: stepped[name] - eta * lam * (personal[name] - party.received[name])
                for name in personal
            }
        kept[k] = np.concatenate([personal["bias"], personal["weight"].ravel()])
        return party.reply(w, extra=personal)

    FedPlus(method, rounds=rounds).run(InProcessGrid(app, PARTIES), zeros())
    federation = fp.Federation.from_arrays(data, data)
    run = fp.simulate(
        fp.baselines.Ditto(eta=eta, lam=lam), federation, fp.models.linear(FEATURES),
        rounds=rounds, steps=STEPS, batch_size=20,
    )  # fmt: skip
    np.testing.assert_allclose([kept[k] for k in range(PARTIES)], run.models, atol=1e-5)
