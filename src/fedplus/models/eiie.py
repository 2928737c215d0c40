"""``eiie``: a trading policy whose parameters do not depend on the number of stocks."""

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
INPUT_SCALE = 20.0
"""Prices over the last close differ from 1 by about 1/20; scaled inputs are about 1."""


@functools.cache  # Equal sizes give the same functions, so a second run compiles nothing.
def eiie(window: int = 31, *, channels: int = 2, filters: int = 20, cost: float = 0.0025) -> Model:
    r"""Ensemble of identical independent evaluators: a policy that chooses a portfolio every day.

    .. math:: w_t = \operatorname{softmax}\big(b,\; v \cdot h(X_{t,i}) + u\, w_{t-1,i}\big)_i

    Each stock's window X_{t,i} of prices over the last close passes the same two convolutions over
    time; the second spans the whole output of the first. A 1 × 1 convolution then adds the stock's
    share w_{t−1,i} of the previous portfolio. The score of cash is the bias b. All stocks share the
    parameters, so parties with different stocks, and different numbers of stocks, have models of the
    same size.

    A sample is an episode of L consecutive days: inputs (B, stocks, window + L − 1, 3) of closes, highs
    and lows in any unit per stock, outputs (B, L, 1 + stocks), cash first. The portfolio-vector memory
    starts with the uniform portfolio in each episode; gradients pass through it (Deviation D16). A
    stock with prices of 0 is absent and gets no share.

    Args:
        window: Number of days that the policy sees.
        channels: Number of channels of the first convolution.
        filters: Number of channels of the second convolution.
        cost: Cost of trading; see ``portfolio_growth``.

    Raises:
        SettingError: A size is not a positive whole number, or the window is too short.

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
    span = window - KERNEL + 1

    def init(key: Array) -> Params:
        keys = jax.random.split(key, 3)
        first, second = (channels, KERNEL * FIELDS), (filters, channels * span)
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
        is_valid = x.ndim == 4 and x.shape[2] >= window and x.shape[3] == FIELDS
        shape = f"(B, stocks, ≥ {window}, {FIELDS})"
        require(is_valid, "eiie's input", f"shape {x.shape}", f"episodes of prices {shape}")
        x = x.astype(params["score"]["weight"].dtype)
        scores = _features(params, x, window) @ params["score"]["weight"]
        return _portfolios(params["score"], scores, x[:, :, window - 1, 0] > 0)

    return Model(init, apply, portfolio_growth(cost), "eiie")


def _features(params: Params, x: Array, window: int) -> Array:
    """Return both convolutions of every day's window, (B, stocks, L, filters).

    The first convolution is linear in the prices, so it is computed once for the whole episode, cut
    into windows, and only then divided by the last close of each window.
    """
    span, days = window - KERNEL + 1, x.shape[2] - window + 1
    weight = params["conv0"]["weight"]
    shifts = [x[:, :, i : i + x.shape[2] - KERNEL + 1] for i in range(KERNEL)]
    convolved = jnp.moveaxis(jnp.concatenate(shifts, axis=-1) @ weight.T, -1, 2)
    windows = jnp.stack([convolved[..., i : i + span] for i in range(days)], axis=2)
    last_close = x[:, :, window - 1 :, 0]
    last_close = jnp.where(last_close > 0, last_close, 1)[..., None, None]
    relative = windows / last_close - jnp.sum(weight, axis=1)[:, None]  # Of x/last_close − 1.
    hidden = jax.nn.relu(INPUT_SCALE * relative + params["conv0"]["bias"][:, None])
    flat = hidden.reshape(*hidden.shape[:3], -1)
    return jax.nn.relu(flat @ params["conv1"]["weight"].T + params["conv1"]["bias"])


def _portfolios(layer: dict[str, Array], scores: Array, is_present: Array) -> Array:
    """Return each day's portfolio (B, L, 1 + stocks), which depends on that of the day before.

    Args:
        layer: The parameters ``cash`` and ``memory``.
        scores: (B, stocks, L).
        is_present: Mask (B, stocks) of the stocks that are not padding.
    """
    batch = scores.shape[0]
    is_tradable = jnp.concatenate([jnp.ones((batch, 1), bool), is_present], axis=1)
    cash = jnp.broadcast_to(layer["cash"], (batch, 1))

    def day(previous: Array, scores: Array) -> tuple[Array, Array]:
        stocks = scores + layer["memory"] * previous[:, 1:]
        logits = jnp.concatenate([cash, stocks], axis=1)
        portfolio = jax.nn.softmax(logits, axis=1, where=is_tradable)
        return portfolio, portfolio

    uniform = is_tradable / jnp.sum(is_tradable, axis=1, keepdims=True, dtype=scores.dtype)
    _, portfolios = lax.scan(day, uniform.astype(scores.dtype), jnp.moveaxis(scores, 2, 0))
    return jnp.moveaxis(portfolios, 0, 1)
