"""The trading policy ``eiie`` and its task, against loops in NumPy."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedplus as fp
from fedplus import presets
from fedplus.models import eiie, portfolio_growth, ravel
from fedplus.models.portfolio_task import log_returns
from fedplus.simulation.evaluate import constant_answer_scores

pytestmark = pytest.mark.usefixtures("x64")
WINDOW, DAYS, STOCKS = 6, 5, 4


def prices(rng, batch, stocks=STOCKS, days=DAYS, spread=0.05):
    """Return random episodes (B, stocks, window + days − 1, 3) and the next price relatives."""
    close = np.exp(np.cumsum(spread * rng.standard_normal((batch, stocks, WINDOW + days)), axis=-1))
    fields = np.stack([close, 1.01 * close, 0.98 * close], axis=-1)[:, :, :-1]
    relatives = close[..., WINDOW:] / close[..., WINDOW - 1 : -1]
    return jnp.asarray(fields), jnp.asarray(relatives.swapaxes(1, 2))


@functools.cache
def params_of(model, seed=0):
    """Return parameters away from the initial ones, with non-zero memory and cash bias."""
    flat = ravel(model.init(jax.random.key(seed)))
    noise = np.random.default_rng(seed).standard_normal(flat.w.size)
    return flat.unravel(flat.w + 0.3 * noise)


APPLY = jax.jit(eiie(WINDOW).apply)
RETURNS = jax.jit(log_returns)


def numpy_policy(params, x, window):
    """Compute the policy of Jiang et al. one sample, one day and one stock at a time."""
    kernel, bias = (np.asarray(params["conv0"][k]) for k in ("weight", "bias"))
    long, offset = (np.asarray(params["conv1"][k]) for k in ("weight", "bias"))
    weight, memory, cash = (np.asarray(params["score"][k]) for k in ("weight", "memory", "cash"))
    found = []
    for episode in np.asarray(x):
        stocks, length, _ = episode.shape
        before = np.full(1 + stocks, 1 / (1 + stocks))
        for t in range(length - window + 1):
            logits = [cash]
            for i in range(stocks):
                seen = episode[i, t : t + window]
                seen = 20 * (seen / seen[-1, 0] - 1)
                hidden = np.array(
                    [
                        [np.maximum(kernel[c] @ seen[j : j + 3].ravel() + bias[c], 0)
                         for j in range(window - 2)]
                        for c in range(len(kernel))
                    ]
                )  # fmt: skip
                features = np.maximum(long @ hidden.ravel() + offset, 0)
                logits.append(weight @ features + memory * before[1 + i])
            odds = np.exp(np.array(logits) - np.max(logits))
            before = odds / odds.sum()
            found.append(before)
    return np.array(found).reshape(len(x), -1, 1 + x.shape[1])


def ledger_returns(portfolios, relatives, cost):
    """Track the money day by day: trade at the close, pay the cost, apply the price changes."""
    found = []
    for episode, moves in zip(np.asarray(portfolios), np.asarray(relatives), strict=True):
        parts = episode.shape[1]
        holdings = np.full(parts, 1 / parts)
        for w, moved in zip(episode, moves, strict=True):
            wealth = holdings.sum()
            traded = np.abs(w * wealth - holdings)[1:].sum()
            holdings = (wealth - cost * traded) * w * np.concatenate([[1.0], moved])
            found.append(np.log(holdings.sum() / wealth))
    return np.array(found).reshape(relatives.shape[:2])


@given(seed=st.integers(0, 2**32 - 1), spread=st.sampled_from([0.0, 0.05, 0.5]))
def test_a_portfolio_is_on_the_simplex(seed, spread):
    x, _ = prices(np.random.default_rng(seed), 3, spread=spread)
    found = APPLY(params_of(eiie(WINDOW), seed % 4), x)
    assert found.shape == (3, DAYS, 1 + STOCKS)
    assert (found >= 0).all()
    np.testing.assert_allclose(found.sum(-1), 1, rtol=1e-12)


def test_the_policy_equals_a_numpy_implementation():
    x, _ = prices(np.random.default_rng(0), 2)
    params = params_of(eiie(WINDOW))
    np.testing.assert_allclose(APPLY(params, x), numpy_policy(params, x, WINDOW), rtol=1e-9)


@given(seed=st.integers(0, 2**32 - 1), cost=st.sampled_from([0.0, 0.0025, 0.1]))
def test_returns_and_costs_equal_those_of_a_ledger(seed, cost):
    rng = np.random.default_rng(seed)
    portfolios = rng.dirichlet(np.ones(1 + STOCKS), size=(2, DAYS))
    relatives = np.exp(0.1 * rng.standard_normal((2, DAYS, STOCKS)))
    found = RETURNS(jnp.asarray(portfolios), jnp.asarray(relatives), cost)
    np.testing.assert_allclose(found, ledger_returns(portfolios, relatives, cost), atol=1e-12)


def test_the_loss_is_minus_the_mean_log_return_of_the_episode():
    x, y = prices(np.random.default_rng(0), 3)
    chosen, task = APPLY(params_of(eiie(WINDOW)), x), portfolio_growth(0.01)
    found = ledger_returns(chosen, y, 0.01).mean(1)
    np.testing.assert_allclose(task.score(chosen, y), found, rtol=1e-8)
    np.testing.assert_allclose(task.loss(chosen, y), -found, rtol=1e-8)


def test_without_price_changes_there_are_only_costs():
    rng = np.random.default_rng(0)
    portfolios = jnp.asarray(rng.dirichlet(np.ones(1 + STOCKS), size=(2, DAYS)))
    still = jnp.ones((2, DAYS, STOCKS))
    np.testing.assert_allclose(log_returns(portfolios, still, 0.0), 0, atol=1e-15)
    uniform = jnp.full((2, 1, 1 + STOCKS), 1 / (1 + STOCKS))
    before = jnp.concatenate([uniform, portfolios[:, :-1]], axis=1)
    turnover = jnp.abs(portfolios - before)[..., 1:].sum(-1)
    np.testing.assert_allclose(
        log_returns(portfolios, still, 0.01), jnp.log(1 - 0.01 * turnover), rtol=1e-12
    )
    unmoved = jnp.broadcast_to(uniform, portfolios.shape)
    np.testing.assert_allclose(log_returns(unmoved, still, 0.01), 0, atol=1e-15)


def test_the_policy_does_not_depend_on_the_order_of_the_stocks():
    model, order = eiie(WINDOW), np.array([2, 0, 3, 1])
    x, y = prices(np.random.default_rng(1), 3)
    params = params_of(model)
    here, there = APPLY(params, x), APPLY(params, x[:, order])
    np.testing.assert_allclose(there[..., 0], here[..., 0], rtol=1e-10)
    np.testing.assert_allclose(there[..., 1:], here[..., 1:][..., order], rtol=1e-10)
    np.testing.assert_allclose(
        model.task.score(there, y[..., order]), model.task.score(here, y), rtol=1e-8
    )


@pytest.mark.parametrize("unit", [1.0, 250.0])
def test_an_absent_stock_changes_nothing(unit):
    """Parties with fewer stocks can be padded with zeros, and each stock's prices may have any unit."""
    model = eiie(WINDOW)
    x, y = prices(np.random.default_rng(2), 3)
    params = params_of(model)
    more = jnp.concatenate([unit * x, jnp.zeros_like(x[:, :2])], axis=1)
    moved = jnp.concatenate([y, jnp.zeros_like(y[..., :2])], axis=-1)
    found = APPLY(params, more)
    assert (found[..., -2:] == 0).all()
    np.testing.assert_allclose(found[..., :-2], APPLY(params, x), rtol=1e-9)
    np.testing.assert_allclose(
        model.task.score(found, moved), model.task.score(APPLY(params, x), y), rtol=1e-7
    )
    slope = jax.grad(lambda p: model.task.loss(model.apply(p, more), moved).sum())(params)
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(slope))


def test_the_parameters_do_not_depend_on_the_number_of_stocks():
    model = eiie(WINDOW)
    params = params_of(model)
    for stocks in (1, 2, 9):
        x, _ = prices(np.random.default_rng(0), 2, stocks=stocks)
        assert APPLY(params, x).shape == (2, DAYS, 1 + stocks)


def test_a_large_memory_weight_reduces_trading():
    """With a large u the policy keeps the first day's largest share, independently of prices."""
    x, _ = prices(np.random.default_rng(3), 8)
    params = params_of(eiie(WINDOW))
    turnover = []
    for memory in (0.0, 50.0):
        score = params["score"] | {"memory": jnp.asarray(memory)}
        chosen = APPLY(params | {"score": score}, x)
        turnover.append(float(jnp.abs(jnp.diff(chosen, axis=1)).sum()))
    assert turnover[1] < 0.7 * turnover[0]


def test_the_constant_baseline_is_the_uniform_portfolio():
    rng = np.random.default_rng(0)
    parties = [tuple(map(np.asarray, prices(rng, 6))) for _ in range(2)]
    federation = fp.Federation.from_arrays(parties, parties)
    found = constant_answer_scores(federation, portfolio_growth(0.01))
    for k, (_, y) in enumerate(parties):
        uniform = np.full((6, DAYS, 1 + STOCKS), 1 / (1 + STOCKS))
        assert found[k] == pytest.approx(ledger_returns(uniform, y, 0.01).mean(), rel=1e-6)


def test_parties_with_opposite_trends_learn_their_own_policies():
    """Rising stocks keep rising at one party and fall at the other, so no common policy serves both."""
    rng = np.random.default_rng(0)
    parties = []
    for sign in (1, -1):
        up = np.sign(rng.standard_normal((60, 2, 1)))
        past = np.exp(0.02 * np.cumsum(np.tile(up, (1, 1, WINDOW + DAYS - 1)), axis=-1))
        # The trend on the last day of a window determines the next day.
        parties.append((
            np.stack([past] * 3, axis=-1),
            np.exp(0.02 * sign * np.tile(up[..., 0][:, None], (1, DAYS, 1))),
        ))  # fmt: skip
    federation = fp.Federation.from_arrays(parties, parties, names=["follows", "reverts"])
    model = eiie(WINDOW, filters=6, cost=0.0)
    arguments = {"rounds": 30, "steps": 10, "batch_size": 20}
    alone = fp.simulate(presets.local_sgd(eta=20.0), federation, model, **arguments)
    best = [np.mean(np.maximum(np.log(y).max(-1), 0)) for _, y in parties]
    np.testing.assert_allclose(alone.evaluations["personal_score"][-1], best, rtol=0.1)
    x, y = parties[0]
    chosen = model.apply(alone.parameters("follows"), jnp.asarray(x))
    risen = np.concatenate([np.zeros((60, DAYS, 1), bool), y > 1], axis=-1)
    has_riser = risen.any(-1)
    assert (np.where(risen, chosen, 0).sum(-1)[has_riser] > 0.9).all()
    common = fp.simulate(presets.fedavg(eta=20.0), federation, model, **arguments)
    assert common.evaluations["personal_score"][-1].mean() < 0.5 * np.mean(best)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: eiie(2), "eiie's window must be at least 3"),
        (lambda: eiie(filters=0), "eiie's filters must be a positive whole number, got 0"),
        (lambda: eiie(cost=-0.1), "^cost must be"),
    ],
)
def test_wrong_settings_raise_a_setting_error(make, match):
    with pytest.raises(fp.SettingError, match=match):
        make()
