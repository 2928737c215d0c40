"""How good each party's model is: on its own data, and on others'."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from fedplus._types import Array, Host, Matrix
from fedplus.data.federation import Federation
from fedplus.data.split import Split, put_on_device
from fedplus.models import Model
from fedplus.models.task import Task
from fedplus.simulation.engine import unravel_function

SMALLEST, LARGEST = 8, 256


class Blocks(NamedTuple):
    """A split's rows in blocks of one size, each of one party's rows alone; some are part full."""

    x: Array
    y: Array
    party: Array
    """(Q,)"""
    first: Array
    """(Q,): the first row."""
    filled: Array
    """(Q,): how many rows count."""
    size: Array
    """(N,)"""


def split_into_blocks(split: Split) -> tuple[Blocks, int]:
    """The blocks, and how many rows each has: near a party's typical number, so that little is idle."""
    typical = float(np.median(split.size))
    rows = int(np.clip(2 ** np.round(np.log2(max(typical, 1))), SMALLEST, LARGEST))
    blocks = np.ceil(split.size / rows).astype(np.int64)
    party = np.repeat(np.arange(len(split.size)), blocks)
    before = np.repeat(np.cumsum(blocks) - blocks, blocks)
    offset = (np.arange(len(party)) - before) * rows
    first, filled = split.start[party] + offset, np.minimum(split.size[party] - offset, rows)
    where = jax.device_put((party, first, filled, split.size))
    return Blocks(put_on_device(split.x), put_on_device(split.y), *where), rows


def most_blocks(blocks: Blocks, parties: int) -> int:
    """The most blocks that so many parties in a row have."""
    ends = np.searchsorted(
        np.asarray(blocks.party), np.arange(0, len(blocks.size) + parties, parties)
    )
    return int(np.diff(ends).max())


def blocks_of_parties(blocks: Blocks, parties: Host, rows: int, most: int) -> Blocks:
    """The blocks of a row of parties, numbered from 0 and filled up to ``most`` with empty ones."""
    first, last = np.searchsorted(np.asarray(blocks.party), [parties[0], parties[-1] + 1])
    idle = (0, most - (last - first))
    own = np.asarray(blocks.party[first:last]) - parties[0]
    return blocks._replace(
        party=jnp.asarray(np.pad(own, idle)),
        first=jnp.asarray(np.pad(np.asarray(blocks.first[first:last]), idle)),
        filled=jnp.asarray(np.pad(np.asarray(blocks.filled[first:last]), idle)),
        size=jnp.asarray(
            np.pad(np.asarray(blocks.size)[parties], (0, rows - len(parties)), constant_values=1)
        ),
    )


class PartyScores(NamedTuple):
    """Of each party (N,): mean loss and mean score over its samples."""

    loss: Array
    score: Array


@partial(jax.jit, static_argnames=("model", "rows"))
def evaluate_parties(model: Model, rows: int, blocks: Blocks, models: Matrix) -> PartyScores:
    """Each party's samples under its own row of ``models``; one row (1, d) serves all parties."""
    unravel = unravel_function(model)
    last = len(blocks.x) - 1

    def of_block(block: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        party, first, filled = block
        within = jnp.arange(rows)
        chosen = jnp.minimum(first + within, last)
        w = models[jnp.minimum(party, len(models) - 1)]
        outputs, y = model.apply(unravel(w), blocks.x[chosen]), blocks.y[chosen]
        counts = within < filled
        sums = (jnp.sum(jnp.where(counts, f(outputs, y), 0)) for f in model.task[1:3])
        return next(sums), next(sums)

    sums = lax.map(of_block, (blocks.party, blocks.first, blocks.filled))
    parties = len(blocks.size)
    return PartyScores(
        *(jax.ops.segment_sum(s, blocks.party, parties) / blocks.size.astype(s.dtype) for s in sums)
    )


class Summary(NamedTuple):
    """Scores of all parties in a few numbers."""

    mean: float
    """Every party counts the same."""
    pooled: float
    """Every sample counts the same."""
    worst_decile: float
    """Mean over the worst tenth of the parties, at least one."""
    std: float
    """Over the parties."""


def summary(score: Host, size: Host, better: str = "higher") -> Summary:
    """Sum up scores (N,) of parties with ``size`` (N,) samples.

    >>> summary(np.array([0.9, 0.7, 0.2]), np.array([10, 10, 80])).worst_decile
    0.2
    """
    score = np.asarray(score, float)
    order = np.sort(score) if better == "higher" else -np.sort(-score)
    worst = order[: max(1, len(score) // 10)]
    with np.errstate(invalid="ignore", over="ignore"):  # Models that diverge have such scores.
        pooled = np.average(score, weights=np.asarray(size, float))
        return Summary(float(score.mean()), float(pooled), float(worst.mean()), float(score.std()))


def majority_class(train: Split, test: Split) -> Any:
    """(N,): accuracy of always answering the label that a party has most often in training."""
    found = []
    for k in range(len(train.size)):
        labels, counts = np.unique(train.party(k)[1], return_counts=True)
        found.append(np.mean(test.party(k)[1] == labels[np.argmax(counts)]))
    return np.array(found)


def constant_answer(federation: Federation, task: Task) -> Host | None:
    """(N,): each party's test score where all its answers are the same, the best for its training.

    The most frequent label; the mean, where numbers are predicted; None where the task has no such
    answer.
    """
    if task.constant is None:
        return None
    parties, test = range(federation.parties), federation.test
    answers = _alike([np.asarray(task.constant(federation.train.party(k)[1])) for k in parties])
    owner = test.owner()
    score = np.asarray(task.score(jnp.asarray(answers[owner]), jnp.asarray(test.y)))
    return np.bincount(owner, score, federation.parties) / test.size


def _alike(answers: Sequence[Host]) -> Host:
    """(N, ...): in one array; 0 for labels that a party has not seen, as for what it does not say."""
    most = np.max([answer.shape for answer in answers], axis=0)
    return np.concatenate(
        [np.pad(a, [(0, m - n) for m, n in zip(most, a.shape, strict=True)]) for a in answers]
    )
