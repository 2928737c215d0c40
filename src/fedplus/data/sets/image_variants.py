"""The paper's robust and personal variants of an image data set.

Images are divided equally, and a share of the parties gets negatives. In the personal variant every
party also has two classes whose images get Laplacian noise. Half of each party's images are for
training.
"""

import dataclasses

from fedplus._types import NumpyArray
from fedplus.check import require_number
from fedplus.data.corrupt import corrupt, negate, noise
from fedplus.data.federation import Federation
from fedplus.data.metadata import Metadata
from fedplus.data.partition import iid

ALL_SPLITS = ("train", "validation", "test")


def robust(
    x: NumpyArray, y: NumpyArray, info: Metadata, *, seed: int, parties: int, outliers: float,
    test_share: float, validation_share: float,
) -> Federation:  # fmt: skip
    """Divide the images equally; the last parties have negatives in all splits.

    Args:
        x: Standardised images, raveled.
        y: Labels.
        info: Metadata of the images.
        seed: Seed of the partition.
        parties: Number N of parties.
        outliers: Share of parties with negatives; in the paper 0.1 for N = 10 and 0.2 for N = 50.
        test_share: Share of a party's images for testing; 0.5 in the paper.
        validation_share: Share of the training images for validation.
    """
    require_number(outliers, "outliers", least=0, most=1)
    federation = Federation.from_partition(
        x, y, iid(parties), seed=seed, test_share=test_share, validation_share=validation_share
    )
    outlier_names = federation.names[parties - round(outliers * parties) :]
    federation = corrupt(federation, outlier_names, negate, splits=ALL_SPLITS)
    return federation._replace(info=dataclasses.replace(info, outliers=outlier_names))


def personal(federation: Federation, *, seed: int, scale: float, noisy_classes: int) -> Federation:
    """Add Laplacian noise to the images of a few classes, drawn at random for each party.

    Args:
        federation: The robust variant.
        seed: Seed of the classes and the noise.
        scale: Scale of the noise.
        noisy_classes: Number of noisy classes of a party.
    """
    corruption = noise(scale, "laplace", classes=noisy_classes)
    return corrupt(federation, federation.names, corruption, splits=ALL_SPLITS, seed=seed)
