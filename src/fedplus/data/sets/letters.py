"""The shared part of ``femnist`` and its stand-in: letters a to j, a few letters per party."""

import numpy as np

from fedplus._types import NumpyArray
from fedplus.check import require
from fedplus.data.federation import Federation
from fedplus.data.metadata import Metadata
from fedplus.data.partition import assign_classes, draw_rows

LETTERS = "abcdefghij"
INFO = Metadata(classes=tuple(LETTERS), image_shape=(28, 28))
MAX_IMAGES = 4000
"""Largest number of images of a letter that is used, as in FedProx's code."""


def build_federation(
    x: NumpyArray, y: NumpyArray, *, seed: int, parties: int, letters: int, test_share: float,
    validation_share: float,
) -> Federation:  # fmt: skip
    """Build a federation in which a party has a few letters and 5 + ⌊lognormal(4, 1)⌋ images.

    A party's images are divided equally among its letters. No image is used twice: if there are too few
    images of a letter, each of its parties gets one image and a proportional share of the rest.

    Args:
        x: Images (n, 784).
        y: Labels 0 to 9.
        seed: Seed of the partition and of the test samples.
        parties: Number N of parties.
        letters: Number of letters of a party.
        test_share: Share of a party's images for testing.
        validation_share: Share of the training images for validation.
    """
    require(1 <= letters <= 10, "letters", letters, "from 1 to 10")

    def partition(y: NumpyArray, rng: np.random.Generator) -> dict[str, NumpyArray]:
        sizes = 5 + np.floor(rng.lognormal(4, 1, parties)).astype(np.int64)
        wanted = np.zeros((parties, len(LETTERS)), dtype=np.int64)
        has_letter = assign_classes(parties, letters, 10)
        for party, is_own, size in zip(wanted, has_letter, sizes, strict=True):
            party[is_own] = np.diff(np.arange(letters + 1) * size // letters)
        available = np.minimum(np.bincount(y, minlength=10), MAX_IMAGES)
        holders = (wanted > 0).sum(0)
        rarest = int((available - holders).argmin())
        require(
            bool(available[rarest] >= holders[rarest]), "parties", parties,
            "few enough that each party gets an image of each of its letters",
            f"{holders[rarest]} parties share the letter {LETTERS[rarest]}, which has "
            f"{available[rarest]} images.",
        )  # fmt: skip
        share = np.minimum(1, (available - holders) / np.maximum(wanted.sum(0) - holders, 1))
        more = np.floor(np.maximum(wanted - 1, 0) * share).astype(np.int64)
        return draw_rows(y, (wanted > 0) + more, rng)

    federation = Federation.from_partition(
        x, y, partition, seed=seed, test_share=test_share, validation_share=validation_share
    )
    return federation._replace(info=INFO)
