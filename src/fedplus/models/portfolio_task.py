"""What a trading policy is judged by: how fast its portfolio grows, costs paid."""

import functools

import jax.numpy as jnp
import numpy as np

from fedplus._types import Array, Host
from fedplus.check import require_number
from fedplus.models.task import Outputs, PerSample, Task


def log_returns(portfolios: Outputs, relatives: Array, cost: float) -> Array:
    r"""(B, L): the log return of each day of an episode.

    .. math:: r_t = \log(y_t \cdot w_t) + \log\Big(1 - c \sum_{i \ge 1} |w_{t,i} - w'_{t,i}|\Big),
              \qquad w'_{t+1} = \frac{y_t \odot w_t}{y_t \cdot w_t}

    w_t is held over day t, w'_t is what the market has made of w_{t-1} when it is bought; an episode
    begins from the uniform portfolio w'_1, cash being one of its parts. Cash neither grows nor costs.

    Args:
        portfolios: (B, L, 1 + assets): w_t, cash first.
        relatives: (B, L, assets), or (B, assets) of one day: y_t, the next price over the last.
        cost: c, of what is bought and of what is sold.

    Paper: Jiang, Xu and Liang (2017), eqs. (7), (10) and (21). Deviation D16: the share lost to
    costs is theirs to first order in c.
    """
    batch, days, parts = portfolios.shape
    moved = jnp.asarray(relatives, portfolios.dtype).reshape(batch, days, parts - 1)
    moved = jnp.concatenate([jnp.ones((batch, days, 1), moved.dtype), moved], axis=-1)
    # y·w − 1 summed by itself: in float32 a day's return would else lose half of its digits.
    gained = jnp.sum(portfolios * (moved - 1), axis=-1)
    drifted = portfolios * moved / (1 + gained)[..., None]
    first = jnp.broadcast_to(_uniform(moved[:, :1]), (batch, 1, parts)).astype(portfolios.dtype)
    held = jnp.concatenate([first, drifted[:, :-1]], axis=1)
    turnover = jnp.sum(jnp.abs(portfolios - held)[..., 1:], axis=-1)
    return jnp.log1p(gained) + jnp.log1p(-cost * turnover)


def _uniform(moved: Array) -> Array:
    """Shares of all parts alike; a stock that is not there (its price relative is 0) has none."""
    there = (moved > 0).astype(moved.dtype)
    return there / jnp.sum(there, axis=-1, keepdims=True)


@functools.cache  # The same task for the same cost: a second run compiles nothing.
def portfolio_growth(cost: float = 0.0025) -> Task:
    """The mean log return a day, after costs; the loss is its negative.

    Args:
        cost: c, the share of every purchase and every sale that is lost; 0.25% as in Jiang et al.

    >>> float(growth(0.0).score(jnp.array([[[0.5, 0.5]]]), jnp.array([[[1.1]]]))[0])
    0.0487...
    """
    require_number(cost, "growth's cost", least=0, most=0.5)

    def score(portfolios: Outputs, relatives: Array) -> PerSample:
        return jnp.mean(log_returns(portfolios, relatives, cost), axis=-1)

    def loss(portfolios: Outputs, relatives: Array) -> PerSample:
        return -score(portfolios, relatives)

    return Task("growth", loss, score, "log return a day", "higher", _uniform_answer)


def _uniform_answer(relatives: Host) -> Host:
    """(1, L, 1 + assets): every day the uniform portfolio, whatever the past."""
    moved = relatives[:1] if relatives.ndim == 3 else relatives[:1, None]
    cash = np.ones((*moved.shape[:-1], 1), moved.dtype)
    return np.asarray(_uniform(jnp.asarray(np.concatenate([cash, moved], axis=-1))))
