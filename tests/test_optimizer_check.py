"""Optimizers with a learning-rate schedule are rejected, as it would restart in every round.

``LocalSolve`` calls a function of a learning rate. Those here ignore it and return one of these.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
import pytest

import fedplus as fp
from fedplus.local import OPTIMIZERS, LocalSolve, ParameterGradient
from small_federation import CLASSIFIER, federation

DECAY = optax.exponential_decay(0.1, 1, 0.5)


class Count(NamedTuple):
    """A step count of a user's own schedule."""

    count: jax.Array


class Moments(NamedTuple):
    """The state of a user's own Adam without a second moment."""

    count: jax.Array
    mean: jax.Array


def own_schedule(state):
    def update(grads, state, params=None):
        (step,) = jax.tree.leaves(state)
        new = jax.tree.map(lambda count: count + 1, state)
        return jax.tree.map(lambda g: -DECAY(step) * g, grads), new

    return optax.GradientTransformation(lambda params: state, update)


def own_moments():
    def update(grads, state, params=None):
        mean = 0.9 * state.mean + 0.1 * grads
        return -0.1 * mean / (1 - 0.9 ** (state.count + 1)), Moments(state.count + 1, mean)

    return optax.GradientTransformation(
        lambda params: Moments(jnp.zeros([], int), jnp.zeros_like(params)), update
    )


SCHEDULED = {
    "sgd": optax.sgd(DECAY),
    "adam": optax.adam(DECAY),
    "adamw, cosine": optax.adamw(optax.cosine_decay_schedule(0.1, 100)),
    "warm-up": optax.sgd(optax.linear_schedule(0.0, 0.1, 10), momentum=0.9),
    "late": optax.sgd(optax.piecewise_constant_schedule(0.1, {500: 0.1})),
    "chain": optax.chain(optax.clip(1.0), optax.scale_by_adam(), optax.scale_by_schedule(DECAY)),
    "injected": optax.inject_hyperparams(optax.sgd)(learning_rate=DECAY),
    "in a chain, injected": optax.chain(
        optax.clip(1.0), optax.inject_hyperparams(optax.adam)(learning_rate=DECAY)
    ),
    "masked": optax.masked(optax.sgd(DECAY), True),
    "if finite": optax.apply_if_finite(optax.sgd(DECAY), 3),
    "several steps": optax.MultiSteps(optax.sgd(DECAY), 2).gradient_transformation(),
    "plateau": optax.chain(optax.sgd(0.1), optax.contrib.reduce_on_plateau()),
    "own": own_schedule(Count(jnp.zeros([], int))),
    "own, bare": own_schedule(jnp.zeros([], int)),
    "own, in a chain": optax.chain(optax.trace(0.9), own_schedule(jnp.zeros([], int))),
}
CONSTANT = {
    "sgd": optax.sgd(0.1),
    "momentum": optax.sgd(0.1, momentum=0.9),
    "adam": optax.adam(0.1),
    "adamw": optax.adamw(0.1),
    "nadam": optax.nadam(0.1),
    "radam": optax.radam(0.1),
    "adafactor": optax.adafactor(0.1, min_dim_size_to_factor=2),
    "yogi": optax.yogi(0.1),
    "lion": optax.lion(0.1),
    "clipped": optax.chain(optax.clip_by_global_norm(1.0), optax.adam(0.1)),
    "injected": optax.inject_hyperparams(optax.adam)(learning_rate=0.1),
    "own": own_moments(),
}


@pytest.mark.parametrize("name", SCHEDULED)
def test_an_optimizer_with_a_schedule_is_rejected(name):
    message = "constant learning rate, got one with a schedule"
    with pytest.raises(fp.SettingError, match=message) as error:
        LocalSolve(fp.L2(0.1), eta=0.1, optimizer=lambda rate: SCHEDULED[name])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", SCHEDULED)
def test_an_optimizer_with_a_schedule_is_accepted_if_its_state_is_kept(name):
    """It then counts the steps of its party from round to round."""
    LocalSolve(
        fp.L2(0.1), eta=0.1, optimizer=lambda rate: SCHEDULED[name], keep_optimizer_state=True
    )


@pytest.mark.parametrize("name", CONSTANT)
def test_an_optimizer_with_a_constant_rate_is_accepted(name):
    """Adam and similar optimizers also count steps, to correct the bias of their moments."""
    LocalSolve(fp.L2(0.1), eta=0.1, optimizer=lambda rate: CONSTANT[name])


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_with_a_name_is_accepted(name):
    LocalSolve(fp.L2(0.1), eta=0.1, optimizer=name)


def test_other_optimizers_are_rejected_in_one_line():
    with pytest.raises(fp.SettingError, match=r"got 'adamm'\. Did you mean adamw?\?$"):
        LocalSolve(fp.L2(0.1), eta=0.1, optimizer="adamm")
    with pytest.raises(fp.SettingError, match=r"^LocalSolve\.optimizer must be .+ got [^\n]+$"):
        LocalSolve(fp.L2(0.1), eta=0.1, optimizer=optax.adam(0.1))


def test_a_schedule_for_some_parameters_is_rejected_when_training_starts():
    """Its state can only be initialised from a model with these parameters."""
    labels = {"bias": "slow", "weight": "fast"}
    optimizer = optax.multi_transform({"slow": optax.sgd(DECAY), "fast": optax.sgd(0.1)}, labels)
    local = LocalSolve(fp.L2(0.1), eta=0.1, optimizer=lambda rate: optimizer)
    grad = ParameterGradient(lambda w, batch: w, lambda w: {"bias": w[:1], "weight": w[1:]})
    with pytest.raises(fp.SettingError, match="got one with a schedule"):
        local(jnp.ones(3), jnp.zeros(3), jnp.zeros((2, 1)), 2, grad)


def test_an_optimizer_whose_state_depends_on_shapes_cannot_keep_it():
    """Adafactor has factors for matrices, so its state for a raveled model has another size."""
    local = fp.LocalSolve(
        fp.L2(0.1), eta=0.1, keep_optimizer_state=True,
        optimizer=lambda rate: optax.adafactor(rate, min_dim_size_to_factor=2),
    )  # fmt: skip
    with pytest.raises(
        fp.SettingError,
        match=r"optimizer must be an optimizer whose state has the same size .*adafactor",
    ):
        fp.simulate(fp.FedPlus(local), federation(), CLASSIFIER, rounds=1, steps=1, batch_size=4)
