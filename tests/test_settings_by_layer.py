"""Settings for each group of layers, and private layers that influence nobody else.

In most tests, f_k is separable: the entries of a model do not interact. Then Fed+ by layer must do to
each group of entries what Fed+ with the settings of this group does to a model of these entries alone.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedplus as fp
from fedplus import presets
from fedplus.flower.local_rule import rule_from_message, rule_to_message
from fedplus.schedules import Linear, WarmUp, at_round
from fedplus.server_optimizer import MomentumServer

pytestmark = [
    pytest.mark.usefixtures("x64_throughout"),
    pytest.mark.filterwarnings("ignore::fedplus.KappaWarning"),
]
N, E, ROUNDS, ETA = 6, 4, 5, 0.2
LAYOUT = (("body/b", 2), ("head/b", 1), ("body/w", 2), ("head/w", 2), ("norm", 1))
COLUMNS = {"head/*": [2, 5, 6], "body/*": [0, 1, 3, 4], "*": [7]}
D = 8
HEAD, SHARED = COLUMNS["head/*"], [0, 1, 3, 4, 7]
START = np.linspace(-1, 1, D)
few = settings(max_examples=8, deadline=None, derandomize=True, database=None)


def separable(w, batch):
    """Return the gradient of Σ_j c_j (w_j − b_j)² / 2, for models of any columns."""
    c, b = batch
    return c * (w - b)


def coupled(w, batch):
    """Return a gradient in which all entries of the model interact."""
    c, b = batch
    return c * (w - b) + 0.3 * jnp.sum(w) * jnp.cos(b)


def draw(seed, active):
    """Return the works of all rounds."""
    rng = np.random.default_rng(seed)
    works = []
    for _ in range(ROUNDS):
        cohort = rng.permutation(N)[:active]
        batches = rng.uniform(0.2, 1, (active, E, D)), 2 * rng.normal(size=(active, E, D))
        works.append(fp.Work(cohort, batches, rng.integers(1, E + 1, active)))
    return works


run_round = jax.jit(fp.FedPlus.round, static_argnums=3)


def run(method, works, columns=slice(None), grad=separable, start=START):
    """Return the states after each round of a model that has these columns only."""
    state, states = method.init(jnp.asarray(start[columns]), N), []
    for t, work in enumerate(works):
        batches = jax.tree.map(lambda leaf: jnp.asarray(leaf[..., columns]), work.batches)
        work = jax.tree.map(jnp.asarray, work._replace(batches=batches))
        state, _ = run_round(at_round(method, t), state, work, grad)
        states.append(state)
    return states


GROUPS = {
    "head/*": fp.Layer(fp.L2(0.3), sigma=0.5, lam=0.0),
    "body/*": fp.Layer(fp.L1(0.1), sigma=0.0, lam=0.4, eta=0.05),
    "*": fp.Layer(fp.Quadratic(0.2), sigma=2.0, lam=1.0),
}
SCHEDULED = {
    "head/*": fp.Layer(fp.L2(0.3), sigma=Linear(0.0, 1.0, rounds=3)),
    "body/*": fp.Layer(fp.L1(Linear(0.1, 0.4, rounds=4)), sigma=0.4, lam=WarmUp(rounds=2)),
    "*": fp.Layer(eta=lambda t: 0.1 * 0.5**t, sigma=1.0),
}
PRIVATE = {
    "head/*": fp.Layer(private=True, eta=0.1),
    "body/*": fp.Layer(fp.L1(0.2), sigma=0.5),
    "*": fp.Layer(lam=1.0),
}


@pytest.mark.parametrize("parts", [GROUPS, SCHEDULED, PRIVATE], ids=["groups", "scheduled", "own"])
@pytest.mark.parametrize("over", ["all", "active"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_each_group_is_trained_as_if_it_were_a_model_by_itself(parts, over, optimizer):
    """For private layers that is local training, and w̃ keeps their first values."""
    works = draw(0, 3)
    options = {"over": over, "optimizer": optimizer, "keep_optimizer_state": optimizer == "adam"}
    states = run(fp.Layers(parts, LAYOUT).method(eta=ETA, **options), works)
    for pattern, part in parts.items():
        columns = COLUMNS[pattern]
        psi = fp.Zero() if part.private else part.psi
        eta = ETA if part.eta is None else part.eta
        local = fp.LocalSolve(psi, eta=eta, sigma=part.sigma, lam=part.lam)
        join = "first" if part.private else "current"  # Private layers start at their first values.
        alone = fp.FedPlus(local).replace(join=join, **options)
        for state, expected in zip(states, run(alone, works, columns), strict=True):
            np.testing.assert_allclose(state.w_local[:, columns], expected.w_local, atol=1e-6)
            w_global = START[columns] if part.private else expected.w_global
            np.testing.assert_allclose(state.w_global[jnp.array(columns)], w_global, atol=1e-6)


def test_equal_numbers_for_all_layers_are_one_number():
    works = draw(1, 4)
    same = {pattern: fp.Layer(fp.L1(0.2), sigma=0.5, lam=0.3) for pattern in COLUMNS}
    by_layer = fp.Layers(same, LAYOUT).method(eta=ETA)
    plain = presets.fedcomed_plus(eta=ETA, sigma=0.5, delta=0.2, lam=0.3)
    for one, other in zip(run(by_layer, works), run(plain, works), strict=True):
        np.testing.assert_allclose(one.w_local, other.w_local, atol=1e-12)
        np.testing.assert_allclose(one.w_global, other.w_global, atol=1e-12)


def test_with_sigma_0_on_a_layer_the_global_model_does_not_pull_it():
    """A round's steps in its columns are the same for any w̃; the steps in other columns are not."""
    method = fp.Layers(
        {"head/*": fp.Layer(sigma=0.0), "*": fp.Layer(sigma=1.0)}, LAYOUT
    ).method(eta=ETA, join="first")  # fmt: skip
    (work, *_), state = draw(2, N), method.init(jnp.asarray(START), N)
    near, far = (
        method.round(state._replace(w_global=START + shift), work, separable)[0].w_local
        for shift in (0.0, 5.0)
    )
    np.testing.assert_array_equal(near[:, jnp.array(HEAD)], far[:, jnp.array(HEAD)])
    assert np.abs(near - far)[:, SHARED].min() > 1e-3


def test_a_layer_with_eta_0_keeps_its_values():
    method = fp.Layers({"head/*": fp.Layer(eta=0.0), "*": fp.Layer(lam=1.0)}, LAYOUT)
    states = run(method.method(eta=ETA), draw(3, 3), grad=coupled)
    kept = states[-1].w_local[:, jnp.array(HEAD)]
    np.testing.assert_allclose(kept, [START[HEAD]] * N, rtol=1e-14)  # A mean of them is rounded.
    assert np.abs(states[-1].w_local - START)[:, SHARED].max() > 0.1


METHODS = {
    "layers": fp.Layers(PRIVATE, LAYOUT).method(eta=ETA),
    "fedper": presets.fedper(LAYOUT, eta=ETA),
    "fedrep": presets.fedrep(LAYOUT, eta=ETA, head_steps=2),
    "fedbabu": presets.fedbabu(LAYOUT, eta=ETA),
    "momentum": presets.fedper(LAYOUT, eta=ETA).replace(
        server_optimizer=MomentumServer(), optimizer="adam", keep_optimizer_state=True
    ),
    "robust": presets.fedper(LAYOUT, eta=ETA, aggregate=fp.GeometricMedian()),
}
every_method = pytest.mark.parametrize("name", METHODS)


@every_method
@few
@given(seed=st.integers(0, 2**32 - 1))
def test_the_global_model_keeps_the_first_values_of_private_layers(name, seed):
    for state in run(METHODS[name], draw(seed, 3), grad=coupled):
        np.testing.assert_array_equal(np.asarray(state.w_global)[HEAD], START[HEAD])


@every_method
@few
@given(seed=st.integers(0, 2**32 - 1), party=st.integers(0, N - 1))
def test_private_layers_of_a_party_influence_nobody_else(name, seed, party):
    """Its shared layers do not depend on them here, so nothing changes but its private layers.

    Both their values and the samples that train them are replaced.
    """
    works, others = draw(seed, 4), []
    rng = np.random.default_rng(seed)
    for work in works:
        c, b = (leaf.copy() for leaf in work.batches)
        for leaf in (c, b):
            mine = np.asarray(work.cohort) == party
            leaf[np.ix_(mine, np.arange(E), HEAD)] = rng.normal(size=(mine.sum(), E, len(HEAD)))
        others.append(work._replace(batches=(c, b)))
    method = METHODS[name]
    one = other = method.init(jnp.asarray(START), N)
    for t, works_of_round in enumerate(zip(works, others, strict=True)):
        before, after = (
            run_round(at_round(method, t), state, jax.tree.map(jnp.asarray, work), separable)
            for state, work in zip((one, other), works_of_round, strict=True)
        )
        one, other = before[0], after[0]
        changed = other.w_local.at[party, jnp.array(HEAD)].add(1.0)
        other = other._replace(w_local=changed)
        np.testing.assert_array_equal(one.w_global, other.w_global)
        same = np.asarray(one.w_local == other.w_local)
        assert same[:, SHARED].all()
        assert np.delete(same, party, axis=0).all()
        assert not same[party, HEAD].any()


@every_method
def test_other_parties_of_the_round_do_not_see_a_partys_private_layers(name):
    """With losses in which all layers interact, others change only through w̃ in later rounds."""
    method, (work, *_) = METHODS[name], draw(4, N)
    state = method.init(jnp.asarray(START), N)._replace(joined=jnp.ones(N, bool))
    moved = state._replace(w_local=state.w_local.at[2, jnp.array(HEAD)].add(3.0))
    one, other = (method.round(s, work, coupled)[0].w_local for s in (state, moved))
    same = np.asarray(one == other).all(axis=1)
    assert same.tolist() == [k != 2 for k in range(N)]


SEEN = []


@fp.settings
class Spy(fp.AbstractAggregator):
    """The mean, as an aggregator that records the shapes of its inputs."""

    def solve(self, w_local, weights, start):
        SEEN.append((w_local.shape, start.shape))
        return fp.direct_aggregate(w_local.mean(0))


@pytest.mark.parametrize("over", ["all", "active"])
def test_the_aggregator_never_gets_private_layers(over):
    method = fp.Layers(PRIVATE, LAYOUT).method(eta=ETA, aggregate=Spy(), over=over)
    SEEN.clear()
    method.round(method.init(jnp.asarray(START), N), draw(5, 3)[0], coupled)
    assert {(models[1], start) for models, start in SEEN} == {(5, (5,))}


def test_private_layers_need_no_model_to_start_from_and_no_psi():
    """It is an error to give them λ, σ or a ψ that has an effect."""
    for more in ({"sigma": 1.0}, {"lam": 1.0}, {"psi": fp.L2(0.1)}, {"lam": WarmUp(rounds=3)}):
        with pytest.raises(fp.SettingError, match=r"^Layer\.private must be [^\n]+$"):
            fp.Layer(private=True, **more)


PSIS = {"one ψ": fp.L2(0.3), "blocks of all layers": fp.Blocks({"*": fp.L2(0.3)}, LAYOUT)}


@pytest.mark.parametrize("psi", PSIS.values(), ids=PSIS)
@pytest.mark.parametrize("replaced", [False, True], ids=["given", "replaced"])
def test_a_psi_of_the_whole_model_applies_to_the_shared_layers_only(psi, replaced):
    """Private layers change nothing; a deployment, whose parties send shared layers, does the same."""
    sigma = fp.ByLayer({"head/*": 0.0, "*": 1.0}, LAYOUT)
    private = fp.PrivateLayers(("head/*",), LAYOUT)
    local = fp.LocalSolve(fp.Zero() if replaced else psi, eta=ETA, sigma=sigma)
    method = fp.FedPlus(local, private=private, join="first")
    method = method.replace(psi=psi) if replaced else method
    alone = fp.FedPlus(fp.LocalSolve(fp.L2(0.3), eta=ETA, sigma=1.0), join="first")
    works = draw(3, 3)
    states = run(method, works)
    for state, expected in zip(states, run(alone, works, SHARED), strict=True):
        np.testing.assert_allclose(state.w_local[:, SHARED], expected.w_local, rtol=1e-10)
        np.testing.assert_allclose(state.w_global[jnp.array(SHARED)], expected.w_global, rtol=1e-10)
    parts = method.personal_parts(states[-1], jnp.arange(N))
    rule = rule_from_message(
        rule_to_message(method), tuple((n, s) for n, s in LAYOUT if not n.startswith("head"))
    )
    w_local, w_global = (
        np.asarray(x)[..., SHARED] for x in (states[-1].w_local, states[-1].w_global)
    )
    for part, w_k in zip(parts, w_local, strict=True):
        np.testing.assert_allclose(part[jnp.array(SHARED)], rule.prox(w_k - w_global), rtol=1e-10)


BAD = {
    "Layer.psi": lambda: fp.Layer(psi=0.1),
    r"Layers.parts\['\*'\]": lambda: fp.Layers({"*": fp.L2(0.1)}, LAYOUT),
    "Layers.parts": lambda: fp.Layers({"head/*": fp.Layer()}, LAYOUT),
    "LocalSolve.sigma": lambda: fp.Layers({"*": fp.Layer(sigma=-1)}, LAYOUT).method(eta=1.0),
    "LocalSolve.lam": lambda: fp.Layers({"*": fp.Layer(lam=2.0)}, LAYOUT).method(eta=1.0),
    "LocalSolve.eta": lambda: fp.Layers({"*": fp.Layer(eta=-1.0)}, LAYOUT).method(eta=1.0),
    "LocalSolve.end_step": lambda: fp.Layers({"*": fp.Layer(end_step=-1)}, LAYOUT).method(eta=1.0),
    "private": lambda: fp.Layers({"*": fp.Layer(private=True)}, LAYOUT).method(eta=1.0),
    "setting of FedPlus": lambda: fp.Layers({"*": fp.Layer()}, LAYOUT).method(eta=1.0, mu=3),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_layers_are_reported_in_one_line(name):
    with pytest.raises(fp.SettingError, match=rf"\A{name} must be [^\n]+, got [^\n]+\Z"):
        BAD[name]()


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_layers_that_wait_gather_no_momentum(optimizer):
    """With FedRep, the body's first step does not depend on the gradients of the head's steps."""
    method = presets.fedrep(LAYOUT, eta=0.01, head_steps=2).replace(optimizer=optimizer)
    body = COLUMNS["body/*"]

    def after_one_step_of_the_body(size):
        batches = np.ones((1, 3, D)), np.zeros((1, 3, D))
        batches[1][:, :2, body] = size  # The gradients of the body while the head is trained.
        w = jnp.ones(D)
        return method.local(
            w, w, jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), batches), 3, separable
        )

    one, other = after_one_step_of_the_body(0.0), after_one_step_of_the_body(100.0)
    np.testing.assert_array_equal(one, other)
    assert float(jnp.abs(one[jnp.array(body)] - 1).min()) > 0
