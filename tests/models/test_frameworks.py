"""Equinox and Flax modules as models, compared with direct use of the frameworks."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedplus as fp
from fedplus.models import REGRESSION, from_equinox, from_flax, ravel

X = jnp.asarray(np.random.default_rng(0).standard_normal((7, 4)), jnp.float32)
KEY = jax.random.key(5)


def assert_same_outputs_and_gradient(model, direct):
    """Compare the raveled model's outputs and gradient with the framework's, also under ``vmap``."""
    flat = ravel(model.init(KEY))

    def loss(w):
        return jnp.sum(jnp.sin(model.apply(flat.unravel(w), X)))

    value, grad = jax.jit(jax.value_and_grad(loss))(flat.w)
    expected, theirs = direct
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    np.testing.assert_allclose(grad, ravel(theirs).w, rtol=1e-4, atol=1e-5)
    parties = jnp.stack([flat.w, 2 * flat.w])
    np.testing.assert_allclose(jax.vmap(jax.grad(loss))(parties)[0], grad, rtol=1e-4, atol=1e-5)


class TestEquinox:
    @pytest.fixture
    def eqx(self):
        return pytest.importorskip("equinox")

    def make(self, eqx, key):
        return eqx.nn.MLP(4, 3, 6, 2, key=key)

    def direct(self, eqx, module):
        return eqx.filter_value_and_grad(lambda m: jnp.sum(jnp.sin(jax.vmap(m)(X))))(module)

    @pytest.mark.parametrize("is_instance", [True, False])
    def test_an_equinox_model_has_the_outputs_and_gradient_of_its_module(self, eqx, is_instance):
        module = self.make(eqx, KEY)
        model = from_equinox(
            module if is_instance else lambda key: self.make(eqx, key), task=REGRESSION
        )
        assert model.task is REGRESSION
        assert model.name == "MLP"
        assert_same_outputs_and_gradient(model, self.direct(eqx, module))

    def test_the_layout_has_the_modules_names(self, eqx):
        layout = ravel(from_equinox(self.make(eqx, KEY)).init(KEY)).layout
        assert layout[0] == ("layers/0/weight", 24)

    def test_a_batched_module_may_have_an_integer_array(self, eqx):
        class Shifted(eqx.Module):
            weight: jax.Array
            by: jax.Array

            def __call__(self, x):
                return jnp.roll(x, self.by[0], axis=1) @ self.weight

        module = Shifted(jnp.ones((4, 2)), jnp.array([1]))
        model = from_equinox(module, batched=True)
        assert ravel(model.init(KEY)).layout == (("weight", 8),)
        np.testing.assert_allclose(model.apply(model.init(KEY), X), module(X))

    def test_state_and_random_numbers_are_rejected(self, eqx):
        norm = eqx.nn.BatchNorm(4, axis_name="batch", mode="ema")
        with pytest.raises(
            fp.SettingError, match="BatchNorm must be free of state and random numbers"
        ):
            from_equinox(norm)
        body = eqx.nn.Sequential([eqx.nn.Linear(4, 3, key=KEY), eqx.nn.Dropout(0.5)])
        with pytest.raises(fp.SettingError, match="got a Dropout in use"):
            from_equinox(body)
        from_equinox(eqx.nn.inference_mode(body))

    def test_other_objects_than_modules_are_rejected(self, eqx):
        for wrong in (3, eqx.nn.MLP, lambda key: 3):
            with pytest.raises(fp.SettingError, match="from_equinox's module must be"):
                from_equinox(wrong)
        with pytest.raises(fp.SettingError, match="parameters to train"):
            from_equinox(eqx.nn.Identity())


class TestLinen:
    @pytest.fixture
    def linen(self):
        return pytest.importorskip("flax.linen")

    def test_a_linen_model_has_the_outputs_and_gradient_of_its_module(self, linen):
        module = linen.Sequential([linen.Dense(6), linen.relu, linen.Dense(3)])
        params = module.init(KEY, X)["params"]

        def loss(p):
            return jnp.sum(jnp.sin(module.apply({"params": p}, X)))

        model = from_flax(module, X[:1])
        assert model.name == "Sequential"
        assert_same_outputs_and_gradient(model, jax.value_and_grad(loss)(params))

    def test_state_and_random_numbers_are_rejected(self, linen):
        with pytest.raises(fp.SettingError, match="must be free of state and random numbers"):
            from_flax(linen.BatchNorm(use_running_average=False), X)
        with pytest.raises(fp.SettingError, match="must be free of state and random numbers"):
            from_flax(
                linen.Sequential([linen.Dense(3), linen.Dropout(0.5, deterministic=False)]), X
            )
        with pytest.raises(fp.SettingError, match="from_flax's sample must be a batch"):
            from_flax(linen.Dense(3))


class TestNNX:
    @pytest.fixture
    def nnx(self):
        return pytest.importorskip("flax.nnx")

    @pytest.mark.parametrize("is_instance", [True, False])
    def test_an_nnx_model_has_the_outputs_and_gradient_of_its_module(self, nnx, is_instance):
        def make(key):
            rngs = nnx.Rngs(key)
            return nnx.Sequential(
                nnx.Linear(4, 6, rngs=rngs), jax.nn.relu, nnx.Linear(6, 3, rngs=rngs)
            )

        module = make(KEY)
        expected, theirs = nnx.value_and_grad(lambda m: jnp.sum(jnp.sin(m(X))))(module)
        model = from_flax(module if is_instance else make)
        assert_same_outputs_and_gradient(model, (expected, nnx.to_pure_dict(theirs)))

    def test_state_and_random_numbers_are_rejected(self, nnx):
        with pytest.raises(fp.SettingError, match="got BatchStat"):
            from_flax(nnx.BatchNorm(4, rngs=nnx.Rngs(0)))
        with pytest.raises(fp.SettingError, match="RngKey"):
            from_flax(
                nnx.Sequential(
                    nnx.Linear(4, 3, rngs=nnx.Rngs(0)), nnx.Dropout(0.5, rngs=nnx.Rngs(0))
                )
            )
        with pytest.raises(fp.SettingError, match="from_flax's module must be"):
            from_flax(3)


@pytest.mark.parametrize(("adapter", "package"), [(from_equinox, "equinox"), (from_flax, "flax")])
def test_a_missing_framework_is_an_error_that_says_what_to_install(monkeypatch, adapter, package):
    for name in (package, f"{package}.linen", f"{package}.nnx"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(fp.SettingError, match=rf"pip install 'fedplus\[{package}\]'"):
        adapter(object())
