"""``mnist``: 1,000 parties with one digit each and sizes that follow a power law."""

import numpy as np

from fedplus._types import NumpyArray
from fedplus.check import require
from fedplus.data.federation import Federation
from fedplus.data.partition import shards
from fedplus.data.sets.base import DataSet
from fedplus.data.sets.mnist_files import INFO, LICENCE, MNIST, SOURCE, load_images, scale

MIN_IMAGES = 10
"""Smallest number of images of a party, as in FedProx's code."""
BLOCK_ROWS = 256
"""Number of rows whose squared bytes float32 adds without rounding, in any order."""


def make(
    *, seed: int, parties: int = 1000, digits: int = 1, uneven: float = 2.0,
    test_share: float = 0.2, validation_share: float = 0.0,
) -> Federation:  # fmt: skip
    """Divide all 70,000 images.

    Args:
        seed: Seed of the partition.
        parties: Number N of parties.
        digits: Number of digits of a party.
        uneven: See ``partition.shards``.
        test_share: Share of a party's images for testing; 0.2 in the paper.
        validation_share: Share of the training images for validation.
    """
    require(1 <= digits <= 10, "digits", digits, "from 1 to 10")
    x, y = load_images()
    partition = shards(parties, digits, uneven=uneven, least=-(-MIN_IMAGES // digits))
    federation = Federation.from_partition(
        _standardise_pixels(x), y, partition, seed=seed, test_share=test_share,
        validation_share=validation_share,
    )  # fmt: skip
    return federation._replace(info=INFO)


def _standardise_pixels(x: NumpyArray) -> NumpyArray:
    """Return (x/255 − mean)/(deviation + 0.001), with mean and deviation of each pixel."""
    total, squares = np.zeros((2, x.shape[1]))
    for first in range(0, len(x), BLOCK_ROWS):
        block = x[first : first + BLOCK_ROWS].astype(np.float32)
        ones = np.ones(len(block), np.float32)
        total += ones @ block
        squares += ones @ block**2
    mean = total / len(x) / 255
    divisor = np.sqrt(squares / len(x) / 255**2 - mean**2) + 0.001
    return scale(x, (1 / 255 / divisor).astype(np.float32), (mean / divisor).astype(np.float32))


SET = DataSet(
    "mnist", make, "MNIST over 1,000 parties, one digit each, sizes by a power law", SOURCE,
    LICENCE,
    "One digit per party, as the paper says; FedProx's code, which it follows otherwise, has two: "
    "digits=2. All 70,000 images are used; FedProx's rounding leaves 69,035.",
    (MNIST,),
)  # fmt: skip
