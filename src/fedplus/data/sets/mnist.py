"""``mnist``: 1,000 parties with one digit each, sizes by a power law."""

import numpy as np

from fedplus._types import Host
from fedplus.check import require
from fedplus.data.federation import Federation
from fedplus.data.partition import shards
from fedplus.data.sets.base import DataSet
from fedplus.data.sets.mnist_files import INFO, LICENCE, MNIST, SOURCE, load_images, scale

LEAST = 10
"""Images that a party has at least, as in FedProx's code."""
EXACT = 256
"""Rows whose squares of bytes add up without rounding in float32, in whatever order."""


def make(
    *, seed: int, parties: int = 1000, digits: int = 1, uneven: float = 2.0,
    test_share: float = 0.2, validation_share: float = 0.0,
) -> Federation:  # fmt: skip
    """All 70,000 images.

    Args:
        seed: Of who gets which image.
        parties: N.
        digits: A party's.
        uneven: See ``partition.shards``.
        test_share: The paper's is 0.2.
        validation_share: Of the training images.
    """
    require(1 <= digits <= 10, "digits", digits, "from 1 to 10")
    x, y = load_images()
    how = shards(parties, digits, uneven=uneven, least=-(-LEAST // digits))
    federation = Federation.from_partition(
        _pixel_by_pixel(x), y, how, seed=seed, test_share=test_share,
        validation_share=validation_share,
    )  # fmt: skip
    return federation._replace(info=INFO)


def _pixel_by_pixel(x: Host) -> Host:
    """Each pixel less its mean, over its standard deviation + 0.001, in units of 255."""
    total, squares = np.zeros((2, x.shape[1]))
    for first in range(0, len(x), EXACT):
        block = x[first : first + EXACT].astype(np.float32)
        ones = np.ones(len(block), np.float32)
        total += ones @ block
        squares += ones @ block**2
    mean = total / len(x) / 255
    spread = np.sqrt(squares / len(x) / 255**2 - mean**2) + 0.001
    return scale(x, (1 / 255 / spread).astype(np.float32), (mean / spread).astype(np.float32))


SET = DataSet(
    "mnist", make, "MNIST over 1,000 parties, one digit each, sizes by a power law", SOURCE,
    LICENCE,
    "One digit a party, as the paper says; FedProx's code, which it follows otherwise, gives two: "
    "digits=2. All 70,000 images are dealt out, where FedProx's rounding leaves 69,035.",
    (MNIST,),
)  # fmt: skip
