"""The adapters pull each layer like ``Party.pull``: its own η and κ, frozen, or in some steps only.

With momentum or Adam they do the steps of the simulator.
"""

import functools

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
OPTIMIZERS = {
    "momentum": lambda eta: optax.sgd(eta, momentum=0.9),
    "adam": optax.adam,
}
every_optimizer = pytest.mark.parametrize("name", OPTIMIZERS)


def make_method(model, names):
    """Return a method with different settings for four parameters; the first one is private."""
    private, halved, timed, frozen = names
    parts = {
        private: Layer(private=True, eta=0.1),
        halved: Layer(fp.L2(0.1), sigma=2.0, eta=0.1),
        timed: Layer(sigma=1.0, lam=0.5, begin_step=1, end_step=3),
        frozen: Layer(eta=0.0),
    }
    layout = [(name, array.size) for name, array in model.items()]
    return Layers(parts, layout).method(eta=0.2)


def make_party(model, names, folder):
    """Return a party of ``make_method``, whose shared parameters start 0.5 above the model's."""
    method = make_method(model, names)
    shared = {name: array + 0.5 for name, array in model.items() if name != names[0]}
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


def simulated(party, model, names, optimizer, gradient):
    """Return the model after the simulator's steps with an optimizer."""
    local = make_method(model, names).replace(optimizer=OPTIMIZERS[optimizer]).local
    shapes = {name: array.shape for name, array in model.items()}
    ends = np.cumsum([array.size for array in model.values()])[:-1]

    def flatten(arrays):
        return jnp.concatenate([np.ravel(arrays[name]) for name in model])

    def unflatten(w):
        return {
            n: part.reshape(shapes[n]) for n, part in zip(model, np.split(w, ends), strict=True)
        }

    def flat_gradient(w, batch):
        return flatten(gradient(unflatten(np.array(w, np.float32))))

    own = flatten(party.own_model)
    w_global = flatten(party.own_model | party.global_model)
    with jax.disable_jit():  # So that the gradient can be that of another library.
        return unflatten(local(own, w_global, jnp.zeros((STEPS, 1)), STEPS, flat_gradient))


def assert_same(arrays, expected, party, atol=1e-6):
    assert set(arrays) == set(expected)
    for name, array in arrays.items():
        np.testing.assert_allclose(array, expected[name], atol=atol)
    moved = [not np.allclose(array, party.start[name]) for name, array in arrays.items()]
    assert sum(moved) == 3  # All but the frozen one.


class TorchNetwork:
    """A network of PyTorch, a gradient of it, and its adapter."""

    names = ("1.weight", "0.weight", "0.bias", "1.bias")

    def __init__(self):
        self.torch = pytest.importorskip("torch")
        self.adapter = pytest.importorskip("fedplus.torch")
        self.torch.manual_seed(0)
        linear = self.torch.nn.Linear
        self.network = self.torch.nn.Sequential(linear(3, 4), linear(4, 2))
        self.x = self.torch.randn(5, 3)
        self.model = self.adapter.arrays(self.network)

    def loss(self):
        self.network.zero_grad()
        loss = self.network(self.x).square().sum()
        loss.backward()
        return loss

    def gradient(self, w):
        self.adapter.put_arrays(self.network, w)
        self.loss()
        return {name: p.grad.numpy().copy() for name, p in self.network.named_parameters()}

    def train(self, party, make_optimizer, has_closure=False):
        """Return the model after steps of the adapter."""
        self.adapter.put_arrays(self.network, party.start)
        optimizer = make_optimizer(self.network.parameters(), lr=party.eta)
        optimizer = self.adapter.Pull(optimizer, self.network, party)
        for _ in range(STEPS):
            if has_closure:
                optimizer.step(self.loss)
            else:
                self.loss()
                optimizer.step()
        return self.adapter.arrays(self.network)


def test_the_torch_optimizer_pulls_each_layer_like_the_party(tmp_path):
    torch = TorchNetwork()
    party = make_party(torch.model, torch.names, tmp_path)
    expected = pulled(party, torch.gradient)
    assert_same(torch.train(party, torch.torch.optim.SGD), expected, party)


@every_optimizer
@pytest.mark.parametrize("has_closure", [False, True])
def test_torch_with_a_state_equals_the_simulator(name, has_closure, tmp_path):
    torch = TorchNetwork()
    party = make_party(torch.model, torch.names, tmp_path)
    expected = simulated(party, torch.model, torch.names, name, torch.gradient)
    optim = torch.torch.optim
    optimizers = {"momentum": functools.partial(optim.SGD, momentum=0.9), "adam": optim.Adam}
    got = torch.train(party, optimizers[name], has_closure)
    assert_same(got, expected, party, atol=1e-4)


class JaxNetwork:
    """A network of JAX, and a gradient of it."""

    names = ("c", "a", "b", "d")

    def __init__(self):
        rng = np.random.default_rng(0)
        shapes = {"a": (3, 4), "b": (4,), "c": (4, 2), "d": (2,)}
        self.model = {n: rng.normal(size=shape).astype(np.float32) for n, shape in shapes.items()}
        self.x = rng.normal(size=(5, 3)).astype(np.float32)

    def loss(self, w):
        return jnp.mean(((self.x @ w["a"] + w["b"]) @ w["c"] + w["d"]) ** 2)

    def gradient(self, w):
        return jax.tree.map(np.asarray, jax.grad(self.loss)(w))

    def train(self, party, optimizer):
        """Return the model after steps of the adapter."""
        pull = fedplus.jax.Pull(optimizer)
        w = fedplus.jax.put_arrays(self.model, party.start)
        state = pull.init(w, party)
        update = jax.jit(pull.update)
        for _ in range(STEPS):
            updates, state = update(jax.grad(self.loss)(w), state, w)
            w = optax.apply_updates(w, updates)
        return fedplus.jax.arrays(w)


@pytest.mark.parametrize("optimizer", [optax.sgd, optax.sgd(0.2)])
def test_the_optax_transformation_pulls_each_layer_like_the_party(optimizer, tmp_path):
    network = JaxNetwork()
    party = make_party(network.model, network.names, tmp_path)
    assert_same(network.train(party, optimizer), pulled(party, network.gradient), party)


@every_optimizer
def test_jax_with_a_state_equals_the_simulator(name, tmp_path):
    network = JaxNetwork()
    party = make_party(network.model, network.names, tmp_path)
    expected = simulated(party, network.model, network.names, name, network.gradient)
    assert_same(network.train(party, OPTIMIZERS[name]), expected, party, atol=1e-5)


class SklearnNetwork:
    """A network of scikit-learn, a gradient of it, and its adapter."""

    names = ("coefs_/1", "coefs_/0", "intercepts_/0", "intercepts_/1")

    def __init__(self):
        import fedplus.sklearn

        self.adapter = fedplus.sklearn
        rng = np.random.default_rng(0)
        self.x, self.y = rng.normal(size=(5, 3)), rng.normal(size=5)
        self.model = self.adapter.arrays(self.make_estimator())

    def make_estimator(self, arrays=None, **settings):
        from sklearn.neural_network import MLPRegressor

        settings = {"solver": "sgd", "momentum": 0.0, "nesterovs_momentum": False} | settings
        estimator = MLPRegressor(
            hidden_layer_sizes=(4,), alpha=0.0, learning_rate_init=0.2, batch_size=5,
            random_state=0, **settings,
        )  # fmt: skip
        self.adapter.initialise(estimator, features=3)
        if arrays is not None:
            self.adapter.put_arrays(estimator, arrays)
        return estimator

    def gradient(self, w):
        stepped = self.adapter.arrays(self.make_estimator(w).partial_fit(self.x, self.y))
        return {name: (w[name] - stepped[name]) / 0.2 for name in w}

    def train(self, party, **settings):
        """Return the model after steps of the adapter."""
        estimator = self.make_estimator(party.start, **settings)
        pull = self.adapter.Pull(estimator, party)
        for _ in range(STEPS):
            pull.partial_fit(self.x, self.y)
        return self.adapter.arrays(estimator)


def test_the_sklearn_estimator_is_pulled_by_layer_like_the_party(tmp_path):
    network = SklearnNetwork()
    party = make_party(network.model, network.names, tmp_path)
    assert_same(network.train(party), pulled(party, network.gradient), party)


@every_optimizer
def test_sklearn_with_a_state_equals_the_simulator(name, tmp_path):
    network = SklearnNetwork()
    party = make_party(network.model, network.names, tmp_path)
    expected = simulated(party, network.model, network.names, name, network.gradient)
    settings = {"momentum": {"momentum": 0.9}, "adam": {"solver": "adam"}}
    assert_same(network.train(party, **settings[name]), expected, party, atol=1e-5)
