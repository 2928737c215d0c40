"""The adapters pull each layer like ``Party.pull``: its own η and κ, frozen, or in some steps only."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict

import fedplus as fp
import fedplus.jax
from fedplus.flower import Party
from fedplus.flower.in_process_grid import set_sender
from fedplus.flower.local_rule import rule_to_message
from fedplus.flower.records import to_record
from fedplus.layers import Layer, Layers

set_sender()
STEPS = 4


def make_party(model, names, folder):
    """Return a party whose four parameters have different settings; the first one is private."""
    private, halved, timed, frozen = names
    parts = {
        private: Layer(private=True, eta=0.1),
        halved: Layer(fp.L2(0.1), sigma=2.0, eta=0.1),
        timed: Layer(sigma=1.0, lam=0.5, begin_step=1, end_step=3),
        frozen: Layer(eta=0.0),
    }
    layout = [(name, array.size) for name, array in model.items()]
    method = Layers(parts, layout).method(eta=0.2)
    shared = {name: array + 0.5 for name, array in model.items() if name != private}
    config = {"server-round": 1, "fedplus-federation": "f"} | rule_to_message(method)
    content = RecordDict({"arrays": to_record(shared), "config": ConfigRecord(config)})
    message = Message(content, 1, MessageType.TRAIN)
    return Party(message, Context(1, 1, {}, RecordDict(), {}), folder, initial=model)


def pulled(party, gradient):
    """Return the model after steps with ``Party.pull``."""
    w = party.start
    for _ in range(STEPS):
        g = gradient(w)
        w = party.pull({n: w[n] - party.eta * g[n] for n in w})
    return w


def assert_same(arrays, expected, party):
    assert set(arrays) == set(expected)
    for name, array in arrays.items():
        np.testing.assert_allclose(array, expected[name], atol=1e-6)
    moved = [not np.allclose(array, party.start[name]) for name, array in arrays.items()]
    assert sum(moved) == 3  # All but the frozen one.


def test_the_torch_optimizer_pulls_each_layer_like_the_party(tmp_path):
    torch = pytest.importorskip("torch")
    adapter = pytest.importorskip("fedplus.torch")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    x = torch.randn(5, 3)
    first = adapter.arrays(model)
    party = make_party(first, ("1.weight", "0.weight", "0.bias", "1.bias"), tmp_path)

    def gradient(w):
        adapter.put_arrays(model, w)
        model.zero_grad()
        model(x).square().sum().backward()
        return {name: p.grad.numpy().copy() for name, p in model.named_parameters()}

    expected = pulled(party, gradient)
    adapter.put_arrays(model, party.start)
    optimizer = adapter.Pull(torch.optim.SGD(model.parameters(), lr=party.eta), model, party)
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()
    assert_same(adapter.arrays(model), expected, party)


@pytest.mark.parametrize("optimizer", [optax.sgd, optax.sgd(0.2)])
def test_the_optax_transformation_pulls_each_layer_like_the_party(optimizer, tmp_path):
    rng = np.random.default_rng(0)
    shapes = {"a": (3, 4), "b": (4,), "c": (4, 2), "d": (2,)}
    model = {n: rng.normal(size=shape).astype(np.float32) for n, shape in shapes.items()}
    x = rng.normal(size=(5, 3)).astype(np.float32)
    party = make_party(model, ("c", "a", "b", "d"), tmp_path)

    @jax.jit
    def gradient(w):
        return jax.grad(lambda w: jnp.mean(((x @ w["a"] + w["b"]) @ w["c"] + w["d"]) ** 2))(w)

    expected = pulled(party, lambda w: jax.tree.map(np.asarray, gradient(w)))
    pull = fedplus.jax.Pull(optimizer)
    w = fedplus.jax.put_arrays(model, party.start)
    state = pull.init(w, party)
    update = jax.jit(pull.update)
    for _ in range(STEPS):
        updates, state = update(gradient(w), state, w)
        w = optax.apply_updates(w, updates)
    assert_same(fedplus.jax.arrays(w), expected, party)


def test_the_sklearn_estimator_is_pulled_by_layer_like_the_party(tmp_path):
    from sklearn.neural_network import MLPRegressor

    import fedplus.sklearn as adapter

    def make_estimator(arrays):
        estimator = MLPRegressor(
            hidden_layer_sizes=(4,), solver="sgd", momentum=0.0, alpha=0.0, learning_rate_init=0.2,
            batch_size=5, random_state=0,
        )  # fmt: skip
        adapter.initialise(estimator, features=3)
        if arrays is not None:
            adapter.put_arrays(estimator, arrays)
        return estimator

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(5, 3)), rng.normal(size=5)
    model = adapter.arrays(make_estimator(None))
    names = ("coefs_/1", "coefs_/0", "intercepts_/0", "intercepts_/1")
    party = make_party(model, names, tmp_path)

    def gradient(w):
        stepped = adapter.arrays(make_estimator(w).partial_fit(x, y))
        return {name: (w[name] - stepped[name]) / 0.2 for name in w}

    expected = pulled(party, gradient)
    estimator = make_estimator(party.start)
    pull = adapter.Pull(estimator, party)
    for _ in range(STEPS):
        pull.partial_fit(x, y)
    assert_same(adapter.arrays(estimator), expected, party)
