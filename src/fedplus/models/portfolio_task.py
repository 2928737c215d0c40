"""``portfolio_growth``: the task of a trading policy, its log return after costs."""

import functools

import jax.numpy as jnp
import numpy as np

from fedplus._types import Array, NumpyArray
from fedplus.check import require_number
from fedplus.models.task import Outputs, PerSample, Task


def log_returns(portfolios: Outputs, relatives: Array, cost: float) -> Array:
    r"""Return the log return of each day of an episode, (B, L).

    .. math:: r_t = \log(y_t \cdot w_t) + \log\Big(1 - c \sum_{i \ge 1} |w_{t,i} - w'_{t,i}|\Big),
              \qquad w'_{t+1} = \frac{y_t \odot w_t}{y_t \cdot w_t}

    w_t is the portfolio of day t; w'_t is w_{t-1} after the price changes of day t − 1, just before w_t
    is bought. An episode starts from the uniform portfolio w'_1, which includes cash. Cash has no
    return and no cost.

    Args:
        portfolios: w_t, (B, L, 1 + assets), cash first.
        relatives: y_t, the next price over the last one, (B, L, assets), or (B, assets) for one day.
        cost: c, the cost per unit of what is bought and of what is sold.

    Paper: Jiang, Xu and Liang (2017), eqs. (7), (10) and (21). Deviation D16: the share lost to
    costs is theirs to first order in c.
    """
    batch, days, parts = portfolios.shape
    growth = jnp.asarray(relatives, portfolios.dtype).reshape(batch, days, parts - 1)
    growth = jnp.concatenate([jnp.ones((batch, days, 1), growth.dtype), growth], axis=-1)
    # The sum of w·(y − 1), not of w·y: otherwise float32 loses half of the digits of a day's return.
    gain = jnp.sum(portfolios * (growth - 1), axis=-1)
    drifted = portfolios * growth / (1 + gain)[..., None]
    first = jnp.broadcast_to(_uniform(growth[:, :1]), (batch, 1, parts)).astype(portfolios.dtype)
    before_trade = jnp.concatenate([first, drifted[:, :-1]], axis=1)
    turnover = jnp.sum(jnp.abs(portfolios - before_trade)[..., 1:], axis=-1)
    return jnp.log1p(gain) + jnp.log1p(-cost * turnover)


def _uniform(growth: Array) -> Array:
    """Return equal shares of all parts; an absent stock (its price relative is 0) has no share."""
    is_present = (growth > 0).astype(growth.dtype)
    return is_present / jnp.sum(is_present, axis=-1, keepdims=True)


@functools.cache  # Equal costs give the same task, so a second run compiles nothing.
def portfolio_growth(cost: float = 0.0025) -> Task:
    """Return the task whose score is the mean log return per day after costs; the loss is its negative.

    Args:
        cost: c, the share of every purchase and every sale that is lost; 0.25% as in Jiang et al.

    >>> float(portfolio_growth(0.0).score(jnp.array([[[0.5, 0.5]]]), jnp.array([[[1.1]]]))[0])
    0.0487...
    """
    require_number(cost, "cost", least=0, most=0.5)

    def score(portfolios: Outputs, relatives: Array) -> PerSample:
        return jnp.mean(log_returns(portfolios, relatives, cost), axis=-1)

    def loss(portfolios: Outputs, relatives: Array) -> PerSample:
        return -score(portfolios, relatives)

    return Task("growth", loss, score, "log return a day", "higher", _uniform_portfolios)


def _uniform_portfolios(relatives: NumpyArray) -> NumpyArray:
    """Return the uniform portfolio for every day, (1, L, 1 + assets)."""
    growth = relatives[:1] if relatives.ndim == 3 else relatives[:1, None]
    cash = np.ones((*growth.shape[:-1], 1), growth.dtype)
    return np.asarray(_uniform(jnp.asarray(np.concatenate([cash, growth], axis=-1))))
