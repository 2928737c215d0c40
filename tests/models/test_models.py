"""One suite for all built-in models, and comparisons with independent implementations."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedplus as fp
from fedplus.models import (
    BINARY,
    CLASSIFICATION,
    REGRESSION,
    cnn,
    eiie,
    linear,
    logistic,
    lstm,
    mlp,
    ravel,
)
from fedplus.models.cnn import convolve, max_pool
from fedplus.models.lstm_layer import lstm_layer

pytestmark = pytest.mark.usefixtures("x64")
RNG = np.random.default_rng(0)
TABLE = jnp.asarray(RNG.standard_normal((11, 3)), jnp.float32)
BATCH = 12
MODELS = {  # Model, shape of one input, number of outputs.
    "linear": (linear(6, 2), (6,), 2),
    "logistic": (logistic(6, 3), (2, 3), 3),
    "mlp": (mlp(6, 3, hidden=(7, 5)), (2, 3), 3),
    "cnn": (cnn((9, 8, 2), 3, channels=(3, 4)), (9, 8, 2), 3),
    "lstm": (lstm(5, 3, hidden=4, layers=2), (5, 3), 1),
    "lstm of one layer": (lstm(5, 3, hidden=4, layers=1, outputs=3), (5, 3), 3),
    "lstm of one token": (lstm(1, 3, hidden=4, layers=1), (1, 3), 1),
    "lstm of tokens": (lstm(5, 3, hidden=4, embedding=TABLE), (5,), 1),
    "eiie": (eiie(4, channels=2, filters=5), (3, 9, 3), (6, 4)),
}
every_model = pytest.mark.parametrize(
    ("model", "shape", "outputs"), MODELS.values(), ids=MODELS.keys()
)


def make_data(model, shape, outputs, seed=0, batch=BATCH):
    """Return inputs and labels; each class has its own mean."""
    rng = np.random.default_rng(seed)
    if model.name == "eiie":
        return trending_prices(rng, shape, batch)
    y = rng.integers(max(outputs, 2), size=batch)
    if shape == (5,):  # Tokens: the label selects a half of the table.
        return jnp.asarray(rng.integers(5, size=(batch, *shape)) + 6 * y[:, None]), jnp.asarray(y)
    means = np.random.default_rng(1).standard_normal((max(outputs, 2), *shape))
    x = means[y] + 0.2 * rng.standard_normal((batch, *shape))
    if model.task is REGRESSION:
        y = x.reshape(batch, -1) @ np.linspace(-1, 1, 2 * x[0].size).reshape(-1, 2) + 0.5
    return jnp.asarray(x), jnp.asarray(y)


def trending_prices(rng, shape, batch):
    """Return prices of one stock that rises by 1/20 per day and others that fall, and labels."""
    stocks, days, fields = shape
    drift = np.where(np.arange(stocks) == rng.integers(stocks, size=(batch, 1)), 0.05, -0.05)
    moved = np.exp(drift[..., None] + 0.01 * rng.standard_normal((batch, stocks, days)))
    close = np.cumprod(moved, axis=-1)
    x = close[..., None] * (1 + 0.001 * rng.standard_normal((batch, stocks, days, fields)))
    y = np.exp(drift)[:, None] * np.ones((batch, days - 3, 1))
    return jnp.asarray(x), jnp.asarray(y)


@functools.cache
def perturbed_parameters(model, seed=0):
    """Return parameters away from zero, where many gradients vanish, and the raveled model."""
    flat = ravel(jax.jit(model.init)(jax.random.key(seed)))
    noise = np.random.default_rng(seed).standard_normal(flat.w.size)
    return flat.w + 0.1 * noise, flat


def loss_of(model, unravel):
    return jax.jit(lambda w, x, y: jnp.mean(model.task.loss(model.apply(unravel(w), x), y)))


@every_model
def test_outputs_have_one_row_per_sample_and_samples_are_independent(model, shape, outputs):
    w, flat = perturbed_parameters(model)
    x, y = make_data(model, shape, outputs)
    apply = jax.jit(model.apply)
    result = apply(flat.unravel(w), x)
    assert result.shape == (BATCH, *np.atleast_1d(outputs))
    assert result.dtype == jnp.float64
    assert model.task.loss(result, y).shape == (BATCH,)
    np.testing.assert_allclose(apply(flat.unravel(w), x[3:4]), result[3:4], rtol=1e-12)


@every_model
def test_init_depends_only_on_the_key(model, shape, outputs):
    init = jax.jit(model.init)
    w = [ravel(init(jax.random.key(k))).w for k in (0, 0, 1)]
    np.testing.assert_array_equal(w[0], w[1])
    if not model.name.startswith(("linear", "logistic")):
        assert np.abs(w[0] - w[2]).max() > 0


@pytest.mark.parametrize(
    "model",
    [mlp(20, 5, hidden=(30,)), cnn((8, 8, 1), 4), lstm(5, 3, hidden=4)],
    ids=lambda m: m.name,
)
def test_initial_parameters_are_bitwise_equal_compiled_or_not(model):
    with jax.enable_x64(False):
        key = jax.random.key(0)
        together = jax.jit(lambda key: ravel(model.init(key)).w)(key)
        np.testing.assert_array_equal(together, ravel(model.init(key)).w)


@every_model
def test_ravel_and_unravel_are_inverse(model, shape, outputs):
    params = jax.jit(model.init)(jax.random.key(3))
    flat = ravel(params)
    assert sum(size for _, size in flat.layout) == flat.w.size
    back = flat.unravel(flat.w)
    assert jax.tree.structure(back) == jax.tree.structure(params)
    jax.tree.map(np.testing.assert_array_equal, back, params)


@every_model
def test_the_gradient_equals_finite_differences(model, shape, outputs):
    w, flat = perturbed_parameters(model)
    x, y = make_data(model, shape, outputs)
    loss = loss_of(model, flat.unravel)
    grad = jax.jit(jax.grad(loss))(w, x, y)
    for seed in range(5):
        direction = np.random.default_rng(seed).standard_normal(w.size)
        slope = (loss(w + 1e-6 * direction, x, y) - loss(w - 1e-6 * direction, x, y)) / 2e-6
        np.testing.assert_allclose(grad @ direction, slope, rtol=1e-5, atol=1e-8)


@every_model
def test_a_model_learns_a_small_problem(model, shape, outputs):
    w = ravel(jax.jit(model.init)(jax.random.key(0)))
    x, y = make_data(model, shape, outputs)
    loss = loss_of(model, w.unravel)
    eta = {"cnn": 0.1, "linear": 0.1, "eiie": 3.0}.get(model.name, 0.5)

    @jax.jit
    def train(w):
        return jax.lax.fori_loop(0, 1000, lambda _, w: w - eta * jax.grad(loss)(w, x, y), w)

    end = train(w.w)
    score = jnp.mean(model.task.score(jax.jit(model.apply)(w.unravel(end), x), y))
    solved = {"regression": score < 0.01, "growth": score > 0.049}  # The best is 0.05 less costs.
    assert solved.get(model.task.name, score == 1)


@every_model
def test_vmap_over_parties_equals_one_party_at_a_time(model, shape, outputs):
    _, flat = perturbed_parameters(model)
    w = jnp.stack([perturbed_parameters(model, seed)[0] for seed in range(3)])
    x, y = (
        jnp.stack(a)
        for a in zip(*(make_data(model, shape, outputs, s) for s in range(3)), strict=True)
    )
    grad = jax.jit(jax.grad(loss_of(model, flat.unravel)))
    together = jax.jit(jax.vmap(grad))(w, x, y)
    mapped = jax.jit(lambda *a: jax.lax.map(lambda party: grad(*party), a))(w, x, y)
    for k in range(3):
        np.testing.assert_allclose(together[k], grad(w[k], x[k], y[k]), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(mapped[k], together[k], rtol=1e-9, atol=1e-12)


@every_model
def test_inputs_of_the_wrong_size_are_rejected(model, shape, outputs):
    wrong = np.ones((BATCH, *shape[:-1], shape[-1] + 1), dtype=int if shape == (5,) else float)
    with pytest.raises(fp.SettingError, match=rf"{model.name}'s input must be .*, got shape"):
        model.apply(
            perturbed_parameters(model)[1].unravel(perturbed_parameters(model)[0]),
            jnp.asarray(wrong),
        )


def test_linear_is_least_squares():
    x, y = make_data(*MODELS["linear"], batch=40)
    solved = np.linalg.lstsq(np.c_[x, np.ones(40)], np.asarray(y), rcond=None)[0]
    model = MODELS["linear"][0]
    params = {"weight": jnp.asarray(solved[:-1].T), "bias": jnp.asarray(solved[-1])}
    flat = ravel(params)
    np.testing.assert_allclose(jax.grad(loss_of(model, flat.unravel))(flat.w, x, y), 0, atol=1e-10)


def test_logistic_gradient_in_closed_form():
    """∂f/∂W = mean over the batch of (softmax(Wx + b) − e_y) xᵀ."""
    model, shape, classes = MODELS["logistic"]
    w, flat = perturbed_parameters(model)
    x, y = make_data(model, shape, classes)
    params = flat.unravel(w)
    rows = np.asarray(x).reshape(BATCH, -1)
    logits = rows @ np.asarray(params["weight"]).T + np.asarray(params["bias"])
    odds = np.exp(logits - logits.max(1, keepdims=True))
    error = odds / odds.sum(1, keepdims=True) - np.eye(classes)[np.asarray(y)]
    found = flat.unravel(jax.grad(loss_of(model, flat.unravel))(w, x, y))
    np.testing.assert_allclose(found["weight"], error.T @ rows / BATCH, atol=1e-12)
    np.testing.assert_allclose(found["bias"], error.mean(0), atol=1e-12)


@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_convolve_and_max_pool_equal_those_of_xla(kernel):
    x = jnp.asarray(RNG.standard_normal((2, 9, 8, 3)))
    weight = jnp.asarray(RNG.standard_normal((kernel, kernel, 3, 4)))

    def theirs(x, weight):
        names = ("NHWC", "HWIO", "NHWC")
        out = jax.lax.conv_general_dilated(x, weight, (1, 1), "SAME", dimension_numbers=names)
        window = (1, 2, 2, 1)
        return jax.lax.reduce_window(out, -jnp.inf, jax.lax.max, window, window, "VALID")

    def ours(x, weight):
        return max_pool(convolve(x, weight))

    np.testing.assert_allclose(ours(x, weight), theirs(x, weight), rtol=1e-10)
    found, expected = (
        jax.jit(jax.grad(lambda *a, f=f: jnp.sum(jnp.sin(f(*a))), argnums=(0, 1)))(x, weight)
        for f in (ours, theirs)
    )
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def numpy_lstm(params, x, layers):
    """Compute the LSTM with a forget gate one sample and one token at a time."""

    def sigmoid(a):
        return 1 / (1 + np.exp(-a))

    outputs = []
    for sequence in np.asarray(x):
        for name in (f"lstm{i}" for i in range(layers)):
            layer = {key: np.asarray(value) for key, value in params[name].items()}
            size = layer["recurrent"].shape[0]
            h, c, states = np.zeros(size), np.zeros(size), []
            for token in sequence:
                gates = token @ layer["input"] + h @ layer["recurrent"] + layer["bias"]
                i, f, g, o = (gates[k * size : (k + 1) * size] for k in range(4))
                c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
                h = sigmoid(o) * np.tanh(c)
                states.append(h)
            sequence = np.stack(states)
        head = params["head"]
        outputs.append(np.asarray(head["weight"]) @ sequence[-1] + np.asarray(head["bias"]))
    return np.stack(outputs)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_lstm_equals_a_numpy_implementation(layers):
    model = lstm(5, 3, hidden=4, layers=layers, outputs=2)
    w, flat = perturbed_parameters(model)
    x = RNG.standard_normal((6, 5, 3))
    params = flat.unravel(w)
    found = jax.jit(model.apply)(params, jnp.asarray(x))
    np.testing.assert_allclose(found, numpy_lstm(params, x, layers), rtol=1e-10)


def test_the_gradient_of_lstm_layer_equals_automatic_differentiation():
    """The hand-written backward pass is compared for weights and inputs."""

    def plain(layer, x):
        def step(carry, now):
            h, c = carry
            gates = now @ layer["input"] + h @ layer["recurrent"] + layer["bias"]
            i, f, g, o = jnp.split(gates, 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zero = jnp.zeros((x.shape[1], layer["recurrent"].shape[0]))
        return jax.lax.scan(step, (zero, zero), x)[1]

    layer = {
        name: jnp.asarray(RNG.standard_normal(shape))
        for name, shape in {"bias": 16, "input": (3, 16), "recurrent": (4, 16)}.items()
    }
    x = jnp.asarray(RNG.standard_normal((7, 2, 3)))
    weight = RNG.standard_normal((7, 2, 4))
    ours, theirs = (
        jax.jit(jax.value_and_grad(lambda *a, f=f: jnp.sum(weight * f(*a)), argnums=(0, 1)))(
            layer, x
        )
        for f in (lstm_layer, plain)
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10), ours, theirs)


def test_lstm_of_tokens_equals_lstm_of_their_vectors_and_the_table_is_not_a_parameter():
    by_token, by_vector = MODELS["lstm of tokens"][0], MODELS["lstm"][0]
    params = jax.jit(by_token.init)(jax.random.key(0))
    assert ravel(params).layout == perturbed_parameters(by_vector)[1].layout
    tokens = RNG.integers(11, size=(6, 5))
    found = by_token.apply(params, jnp.asarray(tokens))
    np.testing.assert_allclose(found, by_vector.apply(params, TABLE[tokens]))


def test_the_initial_bias_of_the_forget_gate_is_1():
    bias = lstm(5, 3, hidden=4).init(jax.random.key(0))["lstm0"]["bias"]
    assert bias.tolist() == [0] * 4 + [1] * 4 + [0] * 8


def test_models_have_their_tasks():
    assert linear(3).task is REGRESSION
    assert logistic(3, 2).task is CLASSIFICATION
    assert lstm(outputs=1).task is BINARY
    assert lstm(outputs=2).task is CLASSIFICATION


HIDDEN = "^hidden must be a whole number >= 1 or a list of them"


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: linear(0), "linear's inputs must be a positive whole number, got 0"),
        (lambda: linear(2.5), "linear's inputs must be a positive whole number, got 2.5"),
        (
            lambda: logistic(3, 1),
            r"logistic's classes must be ≥ 2, got 1\. With one class there is nothing to predict",
        ),
        (lambda: logistic(3, True), "logistic's classes must be a positive whole number"),
        (
            lambda: mlp(3, 2, hidden=()),
            rf"{HIDDEN}, got \(\)\. Without a hidden layer, use logistic",
        ),
        (lambda: mlp(3, 2, hidden=(4, -1)), rf"{HIDDEN}, got \(4, -1\)\.$"),
        (lambda: mlp(3, 2, hidden="eight"), f"{HIDDEN}, got 'eight'\\.$"),
        (lambda: mlp(3, 2, hidden=0), rf"{HIDDEN}, got 0\.$"),
        (lambda: mlp(3, 2, hidden=True), rf"{HIDDEN}, got True\.$"),
        (
            lambda: lstm(hidden="eight"),
            "lstm's hidden must be a positive whole number, got 'eight'",
        ),
        (lambda: cnn((28, 28)), "cnn's shape must be .height, width, channels."),
        (lambda: cnn((3, 28, 1)), "cnn's shape must be at least 4 × 4"),
        (lambda: cnn(kernel=4), "cnn's kernel must be odd, got 4"),
        (lambda: cnn(channels=(8,)), r"cnn's channels must be two whole numbers >= 1, got \(8,\)"),
        (lambda: cnn(channels="ab"), "cnn's channels must be two whole numbers >= 1, got 'ab'"),
        (lambda: cnn(channels=(8, 0)), "cnn's channels must be two whole numbers >= 1, got"),
        (lambda: lstm(layers=0), "lstm's layers must be a positive whole number, got 0"),
        (
            lambda: lstm(features=300, embedding=TABLE),
            r"lstm's embedding must be a table \(V, 300\)",
        ),
    ],
)
def test_wrong_sizes_raise_a_setting_error(make, match):
    with pytest.raises(fp.SettingError, match=match):
        make()


def test_one_hidden_layer_may_be_given_as_a_number():
    number, listed = mlp(6, 3, hidden=7), mlp(6, 3, hidden=[7])
    jax.tree.map(
        np.testing.assert_array_equal,
        number.init(jax.random.key(0)),
        listed.init(jax.random.key(0)),
    )


def test_tokens_must_be_whole_numbers():
    model = MODELS["lstm of tokens"][0]
    with pytest.raises(fp.SettingError, match="whole numbers"):
        model.apply(
            perturbed_parameters(model)[1].unravel(perturbed_parameters(model)[0]), jnp.ones((2, 5))
        )


@pytest.mark.parametrize("shape", [(7,), (4, 3)])
def test_the_gradient_of_the_cross_entropy_equals_automatic_differentiation(shape):
    """Forward and reverse mode and second derivatives are compared, for logits up to ± 300."""
    logits = jax.random.normal(jax.random.key(0), (*shape, 5)) * 100
    y = jax.random.randint(jax.random.key(1), shape, 0, 5)
    along = jax.random.normal(jax.random.key(2), logits.shape)

    def plain(logits):
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), y[..., None], axis=-1)
        return -jnp.mean(chosen)

    def ours(logits):
        return jnp.mean(CLASSIFICATION.loss(logits, y))

    for derived in (
        jax.grad,
        jax.jacfwd,
        lambda f: jax.grad(lambda z: jnp.vdot(jax.grad(f)(z), along)),
    ):
        np.testing.assert_allclose(derived(ours)(logits), derived(plain)(logits), atol=1e-6)
    assert float(ours(logits)) == pytest.approx(float(plain(logits)), rel=1e-6)
