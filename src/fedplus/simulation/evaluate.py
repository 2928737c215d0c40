"""Losses and scores of models on the parties' samples, and summaries of them."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from fedplus._types import Array, Matrix, NumpyArray
from fedplus.data.federation import Federation
from fedplus.data.split import Split, put_on_device
from fedplus.models import Model
from fedplus.models.task import Task
from fedplus.simulation.engine import unravel_function

MIN_BLOCK_ROWS, MAX_BLOCK_ROWS = 8, 256


class Blocks(NamedTuple):
    """The rows of a split in Q blocks of equal size.

    A block has rows of one party only, so the last block of a party may be partly filled.
    """

    x: Array
    y: Array
    party: Array
    """(Q,): the party of each block."""
    first: Array
    """(Q,): the first row of each block."""
    filled: Array
    """(Q,): the number of rows that count."""
    size: Array
    """(N,): the number of samples of each party."""


def split_into_blocks(split: Split) -> tuple[Blocks, int]:
    """Return the blocks and the number of rows per block.

    That number is near the median party's number of samples, so that little of a block is unused.
    """
    typical = float(np.median(split.size))
    rows = int(np.clip(2 ** np.round(np.log2(max(typical, 1))), MIN_BLOCK_ROWS, MAX_BLOCK_ROWS))
    blocks = np.ceil(split.size / rows).astype(np.int64)
    party = np.repeat(np.arange(len(split.size)), blocks)
    first_block = np.repeat(np.cumsum(blocks) - blocks, blocks)
    offset = (np.arange(len(party)) - first_block) * rows
    first, filled = split.start[party] + offset, np.minimum(split.size[party] - offset, rows)
    index = jax.device_put((party, first, filled, split.size))
    return Blocks(put_on_device(split.x), put_on_device(split.y), *index), rows


def max_blocks_per_page(blocks: Blocks, parties: int) -> int:
    """Return the largest number of blocks on any page, if a page has this many parties."""
    ends = np.searchsorted(
        np.asarray(blocks.party), np.arange(0, len(blocks.size) + parties, parties)
    )
    return int(np.diff(ends).max())


def blocks_of_parties(blocks: Blocks, parties: NumpyArray, rows: int, count: int) -> Blocks:
    """Return the blocks of consecutive parties, padded with empty blocks and parties.

    Args:
        blocks: The blocks of all parties.
        parties: Consecutive party indices; they become 0, 1, ... in the result.
        rows: The number of parties in the result.
        count: The number of blocks in the result.
    """
    first, last = np.searchsorted(np.asarray(blocks.party), [parties[0], parties[-1] + 1])
    padding = (0, count - (last - first))
    party = np.asarray(blocks.party[first:last]) - parties[0]
    return blocks._replace(
        party=jnp.asarray(np.pad(party, padding)),
        first=jnp.asarray(np.pad(np.asarray(blocks.first[first:last]), padding)),
        filled=jnp.asarray(np.pad(np.asarray(blocks.filled[first:last]), padding)),
        size=jnp.asarray(
            np.pad(np.asarray(blocks.size)[parties], (0, rows - len(parties)), constant_values=1)
        ),
    )


class PartyScores(NamedTuple):
    """Mean loss and mean score of each party over its samples."""

    loss: Array
    """(N,)"""
    score: Array
    """(N,)"""


@partial(jax.jit, static_argnames=("model", "rows"))
def evaluate_parties(model: Model, rows: int, blocks: Blocks, models: Matrix) -> PartyScores:
    """Evaluate each party's samples under its own row of ``models``, or under the only row (1, d).

    Args:
        model: The model that the rows are parameters of.
        rows: The number of rows per block.
        blocks: The samples; see ``split_into_blocks``.
        models: (N, d), or (1, d) for one model for all parties.
    """
    unravel = unravel_function(model)
    last = len(blocks.x) - 1

    def sums_of_block(block: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        party, first, filled = block
        offset = jnp.arange(rows)
        samples = jnp.minimum(first + offset, last)
        w = models[jnp.minimum(party, len(models) - 1)]
        outputs, y = model.apply(unravel(w), blocks.x[samples]), blocks.y[samples]
        counts = offset < filled
        sums = (
            jnp.sum(jnp.where(counts, f(outputs, y), 0))
            for f in (model.task.loss, model.task.score)
        )
        return next(sums), next(sums)

    sums = lax.map(sums_of_block, (blocks.party, blocks.first, blocks.filled))
    parties = len(blocks.size)
    return PartyScores(
        *(jax.ops.segment_sum(s, blocks.party, parties) / blocks.size.astype(s.dtype) for s in sums)
    )


class Summary(NamedTuple):
    """The parties' scores, summarised."""

    mean: float
    """The mean over the parties: every party has the same weight."""
    pooled: float
    """The mean over the samples: every sample has the same weight."""
    worst_decile: float
    """The mean over the worst tenth of the parties, at least one."""
    std: float
    """The standard deviation over the parties."""


def summary(score: NumpyArray, size: NumpyArray, better: str = "higher") -> Summary:
    """Summarise the parties' scores.

    Args:
        score: (N,)
        size: (N,), the number of samples of each party.
        better: "higher" or "lower", whichever score is better.

    >>> summary(np.array([0.9, 0.7, 0.2]), np.array([10, 10, 80])).worst_decile
    0.2
    """
    score = np.asarray(score, float)
    order = np.sort(score) if better == "higher" else -np.sort(-score)
    worst = order[: max(1, len(score) // 10)]
    with np.errstate(invalid="ignore", over="ignore"):  # Diverged models have NaN or huge scores.
        pooled = np.average(score, weights=np.asarray(size, float))
        return Summary(float(score.mean()), float(pooled), float(worst.mean()), float(score.std()))


def majority_class_accuracy(train: Split, test: Split) -> Any:
    """Return the test accuracy (N,) of predicting each party's most frequent training label.

    Args:
        train: The training samples, from which the label is taken.
        test: The test samples of the same parties.

    >>> import fedplus as fp
    >>> parties = [([[0.0]] * 4, [1, 1, 1, 0]), ([[0.0]] * 2, [0, 0])]
    >>> federation = fp.Federation.from_arrays(parties, parties)
    >>> majority_class_accuracy(federation.train, federation.test).tolist()
    [0.75, 1.0]
    """
    accuracy = []
    for k in range(len(train.size)):
        labels, counts = np.unique(train.party(k)[1], return_counts=True)
        accuracy.append(np.mean(test.party(k)[1] == labels[np.argmax(counts)]))
    return np.array(accuracy)


def constant_answer_scores(federation: Federation, task: Task) -> NumpyArray | None:
    """Return each party's test score (N,) for the best constant prediction on its training samples.

    That is the most frequent label in classification and the mean in regression. The result is None if
    the task has no constant prediction.
    """
    if task.constant is None:
        return None
    train, test = federation.train, federation.test
    labels = [train.party(k)[1] for k in range(federation.parties)]
    answers = _pad_and_join([np.asarray(task.constant(y)) for y in labels])
    owner = test.party_of_sample()
    score = np.asarray(task.score(jnp.asarray(answers[owner]), jnp.asarray(test.y)))
    return np.bincount(owner, score, federation.parties) / test.size


def _pad_and_join(answers: Sequence[NumpyArray]) -> NumpyArray:
    """Return all answers in one array (N, ...), with 0 for classes that a party has not seen."""
    shape = np.max([answer.shape for answer in answers], axis=0)
    return np.concatenate(
        [np.pad(a, [(0, m - n) for m, n in zip(shape, a.shape, strict=True)]) for a in answers]
    )
