"""A policy that trades any number of stocks with the same few parameters."""

import functools

import jax
import jax.numpy as jnp
from jax import lax

from fedplus._types import Array
from fedplus.check import require
from fedplus.models.dense import dense, require_sizes, scaled_normal
from fedplus.models.model import Model, Params
from fedplus.models.portfolio_task import portfolio_growth

FIELDS = 3
"""Close, high and low."""
KERNEL = 3
SPREAD = 20.0
"""Prices over the last close differ from 1 by about a twentieth; the network sees about 1."""


@functools.cache  # The same function for the same sizes: a second run compiles nothing.
def eiie(window: int = 31, *, channels: int = 2, filters: int = 20, cost: float = 0.0025) -> Model:
    r"""Ensemble of identical independent evaluators: what share of the portfolio to put where.

    .. math:: w_t = \operatorname{softmax}\big(b,\; v \cdot h(X_{t,i}) + u\, w_{t-1,i}\big)_i

    Each stock's window X_{t,i} of prices over its last close goes through the same two convolutions
    over time, the second as long as what the first leaves; then through a 1 × 1 convolution together
    with the stock's share w_{t−1,i} of the portfolio before. Cash has the bias b for a score. So
    parties with other stocks, and with other numbers of stocks, have models of the same parameters.

    A sample is an episode of L days in a row: inputs (B, stocks, window + L − 1, 3) of closes, highs
    and lows in any unit a stock, outputs (B, L, 1 + stocks), cash first. The portfolio-vector memory
    is within an episode, from the uniform portfolio on; gradients go through it (Deviation D16). A
    stock whose prices are 0 is not there: it gets no share.

    Args:
        window: Days that the policy sees.
        channels: Of the first convolution.
        filters: Of the second.
        cost: Of trading; see ``growth``.

    Paper: Jiang, Xu and Liang, A Deep Reinforcement Learning Framework for the Financial Portfolio
    Management Problem (2017), for the training failure of Figures 1 to 3.

    >>> import jax
    >>> model = eiie(window=5)
    >>> params = model.init(jax.random.key(0))
    >>> model.apply(params, jax.numpy.ones((2, 4, 5 + 9, 3))).shape
    (2, 10, 5)
    """
    require_sizes("eiie", window=window, channels=channels, filters=filters)
    require(window >= KERNEL, "eiie's window", window, f"at least {KERNEL}, the first kernel")
    reach = window - KERNEL + 1

    def init(key: Array) -> Params:
        keys = jax.random.split(key, 3)
        first, second = (channels, KERNEL * FIELDS), (filters, channels * reach)
        return {
            "conv0": dense(*first, scaled_normal(keys[0], first, first[1], gain=2)),
            "conv1": dense(*second, scaled_normal(keys[1], second, second[1], gain=2)),
            "score": {
                "cash": jnp.zeros(()),
                "memory": jnp.zeros(()),
                "weight": scaled_normal(keys[2], (filters,), filters),
            },
        }

    def apply(params: Params, x: Array) -> Array:
        ok = x.ndim == 4 and x.shape[2] >= window and x.shape[3] == FIELDS
        shape = f"(B, stocks, ≥ {window}, {FIELDS})"
        require(ok, "eiie's input", f"shape {x.shape}", f"episodes of prices {shape}")
        x = x.astype(params["score"]["weight"].dtype)
        scores = _features(params, x, window) @ params["score"]["weight"]
        return _remembering(params["score"], scores, there=x[:, :, window - 1, 0] > 0)

    return Model(init, apply, portfolio_growth(cost), "eiie")


def _features(params: Params, x: Array, window: int) -> Array:
    """(B, stocks, L, filters): both convolutions, of every day's window.

    The first is linear in the prices, so it is taken once over the whole episode and cut into windows
    afterwards; then comes each window's own unit, its last close.
    """
    reach, days = window - KERNEL + 1, x.shape[2] - window + 1
    weight = params["conv0"]["weight"]
    shifts = [x[:, :, i : i + x.shape[2] - KERNEL + 1] for i in range(KERNEL)]
    long = jnp.moveaxis(jnp.concatenate(shifts, axis=-1) @ weight.T, -1, 2)
    seen = jnp.stack([long[..., i : i + reach] for i in range(days)], axis=2)
    last = x[:, :, window - 1 :, 0]
    last = jnp.where(last > 0, last, 1)[..., None, None]
    relative = seen / last - jnp.sum(weight, axis=1)[:, None]  # Of x/last − 1.
    hidden = jax.nn.relu(SPREAD * relative + params["conv0"]["bias"][:, None])
    flat = hidden.reshape(*hidden.shape[:3], -1)
    return jax.nn.relu(flat @ params["conv1"]["weight"].T + params["conv1"]["bias"])


def _remembering(layer: dict[str, Array], scores: Array, there: Array) -> Array:
    """(B, L, 1 + stocks): a portfolio a day of scores (B, stocks, L), each day knowing the last."""
    batch = scores.shape[0]
    open_ = jnp.concatenate([jnp.ones((batch, 1), bool), there], axis=1)
    cash = jnp.broadcast_to(layer["cash"], (batch, 1))

    def day(before: Array, scores: Array) -> tuple[Array, Array]:
        of_stocks = scores + layer["memory"] * before[:, 1:]
        chosen = jax.nn.softmax(jnp.concatenate([cash, of_stocks], axis=1), axis=1, where=open_)
        return chosen, chosen

    uniform = open_ / jnp.sum(open_, axis=1, keepdims=True, dtype=scores.dtype)
    _, chosen = lax.scan(day, uniform.astype(scores.dtype), jnp.moveaxis(scores, 2, 0))
    return jnp.moveaxis(chosen, 0, 1)
