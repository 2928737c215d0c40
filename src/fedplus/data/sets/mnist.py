"""``mnist``: 1,000 parties with one digit each, sizes by a power law."""

import numpy as np

from fedplus.data.federation import Federation
from fedplus.data.partition import shards
from fedplus.data.sets.data_set import DataSet
from fedplus.data.sets.mnist_files import INFO, LICENCE, MNIST, SOURCE, images
from fedplus.data.split import Host

LEAST = 10
"""Images that a party has at least, as in FedProx's code."""


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
    x, y = images()
    how = shards(parties, digits, uneven=uneven, least=-(-LEAST // digits))
    federation = Federation.from_partition(
        _pixel_by_pixel(x), y, how, seed=seed, test_share=test_share,
        validation_share=validation_share,
    )  # fmt: skip
    return federation._replace(info=INFO)


def _pixel_by_pixel(x: Host) -> Host:
    """Each pixel less its mean, over its standard deviation + 0.001, in units of 255."""
    mean = x.mean(0, dtype=np.float64) / 255
    square = np.einsum("ij,ij->j", x, x, dtype=np.float64) / len(x) / 255**2
    spread = np.sqrt(square - mean**2) + 0.001
    slope, shift = (1 / 255 / spread).astype(np.float32), (mean / spread).astype(np.float32)
    standard: Host = np.multiply(x, slope, dtype=np.float32)
    standard -= shift
    return standard


SET = DataSet(
    "mnist", make, "MNIST over 1,000 parties, one digit each, sizes by a power law", SOURCE,
    LICENCE,
    "One digit a party, as the paper says; FedProx's code, which it follows otherwise, gives two: "
    "digits=2. All 70,000 images are dealt out, where FedProx's rounding leaves 69,035.",
    (MNIST,),
)  # fmt: skip
