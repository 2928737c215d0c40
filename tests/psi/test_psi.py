"""The common suite of every ψ, including a user's own: its definition and its calculus."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedplus as fp
from fedplus import L1, L2, Anchor, Blocks, Custom, Quadratic, Zero

D = 5


@fp.settings
class ElasticNet(fp.AbstractPsi):
    """The elastic net, a ψ with two settings, as a user would write it."""

    delta: float
    ridge: float

    def value(self, x):
        return self.delta * jnp.sum(jnp.abs(x)) + 0.5 * self.ridge * jnp.sum(x**2)

    def prox(self, x):
        return jnp.sign(x) * jnp.maximum(jnp.abs(x) - self.delta, 0) / (1 + self.ridge)


BOX = Custom(
    lambda x: jnp.where(jnp.all(jnp.abs(x) <= 1), 0.0, jnp.inf), lambda x: jnp.clip(x, -1, 1)
)
LAYOUT = (("body/w", 2), ("head/w", 2), ("body/b", 1))
EVERY = {
    "zero": Zero(),
    "anchor": Anchor(),
    "quadratic": Quadratic(0.3),
    "l2": L2(0.7),
    "l1": L1(0.7),
    "blocks": Blocks({"head/*": L1(0.4), "body/*": L2(0.9)}, LAYOUT),
    "custom": BOX,
    "elastic net": ElasticNet(0.4, 0.5),
}

pytestmark = pytest.mark.usefixtures("x64")
every_psi = pytest.mark.parametrize("psi", EVERY.values(), ids=EVERY.keys())
entries = st.floats(-10, 10, allow_subnormal=False)
vectors = st.lists(entries, min_size=D, max_size=D).map(np.array)


def prox_objective(psi, x, theta):
    return psi.value(theta) + 0.5 * jnp.sum((x - theta) ** 2)


@every_psi
@given(x=vectors, other=vectors)
def test_prox_minimises_its_definition(psi, x, other):
    assert prox_objective(psi, x, psi.prox(x)) <= prox_objective(psi, x, other) + 1e-9


@every_psi
@given(x=vectors, move=vectors, size=st.sampled_from([1.0, 1e-2, 1e-4]))
def test_prox_is_lower_than_points_near_it(psi, x, move, size):
    theta = psi.prox(x)
    assert prox_objective(psi, x, theta) <= prox_objective(psi, x, theta + size * move) + 1e-9


@every_psi
@given(x=vectors)
def test_the_envelope_is_the_minimum_and_at_most_psi(psi, x):
    assert np.isclose(psi.envelope(x), prox_objective(psi, x, psi.prox(x)))
    assert psi.envelope(x) <= psi.value(x) + 1e-9


@every_psi
@given(x=vectors)
def test_the_gradient_of_the_envelope_is_x_minus_prox(psi, x):
    """The gradient is computed by central differences."""
    h = 1e-5
    slopes = [(psi.envelope(x + h * e) - psi.envelope(x - h * e)) / (2 * h) for e in np.eye(D)]
    assert np.allclose(slopes, x - psi.prox(x), atol=1e-4)


@every_psi
@given(x=vectors, y=vectors)
def test_prox_is_firmly_non_expansive(psi, x, y):
    difference = psi.prox(x) - psi.prox(y)
    assert jnp.sum(difference**2) <= jnp.sum(difference * (x - y)) + 1e-9


@every_psi
@given(x=vectors)
def test_the_moreau_identity_holds(psi, x):
    """x = prox_ψ(x) + prox_ψ*(x), and the two envelopes add up to ½‖x‖²."""
    theta = psi.prox(x)
    dual = x - theta  # A subgradient of ψ at θ, so ψ(θ) + ψ*(dual) = ⟨θ, dual⟩ …
    conjugate = jnp.sum(theta * dual) - psi.value(theta)
    for z in np.random.default_rng(0).normal(scale=3, size=(20, D)):  # … and ψ* is a supremum.
        assert jnp.sum(z * dual) - psi.value(z) <= conjugate + 1e-8
    conjugate_envelope = conjugate + 0.5 * jnp.sum((x - dual) ** 2)
    assert np.isclose(psi.envelope(x) + conjugate_envelope, 0.5 * jnp.sum(x**2))


@every_psi
def test_value_and_prox_are_zero_at_zero(psi):
    assert psi.value(jnp.zeros(D)) == 0
    assert not psi.prox(jnp.zeros(D)).any()


@every_psi
def test_psi_works_under_jit_and_vmap(psi):
    x = jnp.asarray(np.random.default_rng(1).normal(scale=3, size=(4, D)))
    together = jax.jit(lambda psi, x: jax.vmap(psi.prox)(x))(psi, x)
    assert np.allclose(together, [psi.prox(row) for row in x])
    assert np.allclose(jax.vmap(psi.value)(x), [psi.value(row) for row in x])


@every_psi
def test_numpy_arrays_give_numpy_arrays_and_the_same_numbers(psi):
    if psi in (BOX, EVERY["elastic net"]):
        pytest.skip("a user's own ψ that computes with JAX")
    for x in np.random.default_rng(1).normal(scale=3, size=(4, D)):
        assert isinstance(psi.prox(x), np.ndarray)
        np.testing.assert_allclose(psi.prox(x), psi.prox(jnp.asarray(x)), rtol=1e-12)
        np.testing.assert_allclose(psi.value(x), psi.value(jnp.asarray(x)), rtol=1e-12)
        assert psi.prox(x.astype(np.float32)).dtype == np.float32


def test_psi_works_without_jax_and_under_jit_after_jax_is_imported():
    code = """
import sys
import numpy as np
from fedplus.psi import L1, L2, Anchor, Blocks, Quadratic, Zero

early = Blocks({"a": L1(1.0), "b": L2(1.0), "c": Quadratic(1.0), "d": Anchor(), "*": Zero()},
               (("a", 1), ("b", 1), ("c", 1), ("d", 1), ("e", 1)))
x = np.full(5, 4.0, np.float32)
assert early.prox(x).tolist() == [3, 3, 2, 0, 4]
assert "jax" not in sys.modules

import jax

assert jax.jit(lambda psi, x: psi.prox(x))(L1(1.0), x).tolist() == [3] * 5
assert jax.jit(lambda psi, x: psi.prox(x))(early, x).tolist() == [3, 3, 2, 0, 4]
assert jax.vmap(lambda psi: psi.prox(x))(L2(jax.numpy.ones(2))).shape == (2, 5)
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_vmap_over_several_deltas_gives_the_prox_of_each():
    deltas = jnp.array([0.1, 0.5, 2.0])
    x = jnp.arange(-2.0, 3.0)
    at_once = jax.vmap(lambda psi: psi.prox(x))(L2(deltas))
    assert np.allclose(at_once, [L2(float(delta)).prox(x) for delta in deltas])


def test_soft_thresholding_is_two_sided():
    """Deviation D3: the paper's printed formula maps −2 to 0."""
    assert np.allclose(L1(0.1).prox(jnp.array([-2.0, -0.05, 0.05, 2.0])), [-1.9, 0, 0, 1.9])


@given(x=vectors)
def test_a_single_block_equals_its_psi(x):
    psi = Blocks({"*": L2(0.7)}, LAYOUT)
    assert np.allclose(psi.prox(x), L2(0.7).prox(x))
    assert np.isclose(psi.value(x), L2(0.7).value(x))


def test_the_first_matching_pattern_decides_also_under_jit():
    psi = Blocks({"head/*": Anchor(), "*": Zero()}, LAYOUT)
    x = jnp.arange(1.0, 6.0)
    expected = [1, 2, 0, 0, 5]
    assert psi.prox(x).tolist() == expected
    assert jax.jit(lambda psi, x: psi.prox(x))(psi, x).tolist() == expected
    assert psi.concatenate(psi.split(x)).tolist() == x.tolist()


def test_patterns_match_the_parameter_names_of_ravel():
    flat = fp.models.ravel({"body": {"w": np.ones((2, 3))}, "head": [np.zeros(2), np.ones(1)]})
    assert flat.layout == (("body/w", 6), ("head/0", 2), ("head/1", 1))
    psi = Blocks({"head/1": Anchor(), "*": Zero()}, flat.layout)
    prox = flat.unravel(psi.prox(flat.w))
    assert prox["body"]["w"].all()
    assert not prox["head"][1].any()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: L1(0), ["L1.delta", "> 0", "got 0", "Zero()"]),
        (lambda: L2(-1.0), ["L2.delta", "> 0", "got -1.0"]),
        (lambda: Quadratic(float("nan")), ["Quadratic.delta", "finite", "nan"]),
        (lambda: L1("0.1x"), ["L1.delta", "number", "0.1x"]),
        (lambda: Custom(1, lambda x: x), ["Custom.value_of", "function", "1"]),
        (lambda: Blocks({"tail/*": L1(0.1), "*": Zero()}, LAYOUT), ["tail/*", "body/w, head/w"]),
        (lambda: Blocks({"head/*": L1(0.1)}, LAYOUT), ["body/w", "cover"]),
        (lambda: Blocks({"*": L1(0.1), "head/*": Zero()}, LAYOUT), ["head/*", "first match wins"]),
        (lambda: Blocks({"*": 0.1}, LAYOUT), ["Blocks.parts['*']", "0.1"]),
        (lambda: Blocks({"*": L1(0.1)}, LAYOUT).prox(jnp.ones(9)), ["layout", "9", "5"]),
        (lambda: Blocks({}, LAYOUT), ["Blocks.parts"]),
    ],
)
def test_bad_settings_of_psi_are_reported_in_one_line(make, words):
    with pytest.raises(fp.SettingError) as error:
        make()
    message = str(error.value)
    assert "\n" not in message
    assert all(word in message for word in words), message


@pytest.mark.parametrize("sigma", [0.0, 0.5, 4.0])
@pytest.mark.filterwarnings("ignore::fedplus.KappaWarning")
def test_zero_is_local_sgd_only_if_sigma_is_zero(sigma):
    """With ψ = 0, a step leads to κ·descended + (1 − κ)·w_k, where w_k is the round's first model."""
    rng = np.random.default_rng(0)
    eta, steps = 0.1, 6
    targets = jnp.array(rng.normal(size=(steps, D)))
    first, w_global = jnp.array(rng.normal(size=(2, D)))

    def gradient(w, target):
        return w - target

    solve = fp.LocalSolve(psi=Zero(), eta=eta, sigma=sigma)
    solved = solve(first, w_global, targets, steps, gradient)
    damped, alone, kappa = first, first, 1 / (1 + eta * sigma)
    for target in targets:
        descended = damped - eta * gradient(damped, target)
        damped = kappa * descended + (1 - kappa) * first
        alone = alone - eta * gradient(alone, target)
    np.testing.assert_allclose(solved, damped, rtol=1e-12)
    elsewhere = solve(first, w_global + 5, targets, steps, gradient)
    np.testing.assert_allclose(solved, elsewhere, rtol=1e-9)  # w̃ has no influence.
    local = fp.presets.local_sgd(eta=eta).local(first, w_global, targets, steps, gradient)
    np.testing.assert_allclose(local, alone, rtol=1e-12)
    moved, free = np.linalg.norm(solved - first), np.linalg.norm(alone - first)
    assert np.allclose(solved, alone) if sigma == 0 else moved < 0.95 * free
