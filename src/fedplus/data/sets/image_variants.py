"""The paper's recipe for the robust and the personal variants of an image data set.

Images are dealt out equally; a share of the parties gets negatives; for the personal variant every
party has two classes whose images get Laplacian noise. Half of each party's images are for training.
"""

import dataclasses

from fedplus._types import Host
from fedplus.check import require_number
from fedplus.data.corrupt import corrupt, negate, noise
from fedplus.data.federation import Federation
from fedplus.data.metadata import Metadata
from fedplus.data.partition import iid

EVERYWHERE = ("train", "validation", "test")


def robust(
    x: Host, y: Host, info: Metadata, *, seed: int, parties: int, outliers: float | None,
    test_share: float, validation_share: float,
) -> Federation:  # fmt: skip
    """Equal parts; the last parties hold negatives, in training as in testing.

    Args:
        x: Standardised images, raveled.
        y: Labels.
        info: Of the images.
        seed: Of who gets which image.
        parties: N.
        outliers: Share of the parties with negatives; None: the paper's, 0.2 for N = 50, else 0.1.
        test_share: The paper's is 0.5.
        validation_share: Of the training images.
    """
    share = (0.2 if parties == 50 else 0.1) if outliers is None else outliers
    require_number(share, "outliers", least=0, most=1)
    federation = Federation.from_partition(
        x, y, iid(parties), seed=seed, test_share=test_share, validation_share=validation_share
    )
    unlike = federation.names[parties - round(share * parties) :]
    federation = corrupt(federation, unlike, negate, splits=EVERYWHERE)
    return federation._replace(info=dataclasses.replace(info, outliers=unlike))


def personal(federation: Federation, *, seed: int, scale: float, noisy_classes: int) -> Federation:
    """Every party's images of a few classes, its own choice, get Laplacian noise."""
    added = noise(scale, "laplace", classes=noisy_classes)
    return corrupt(federation, federation.names, added, splits=EVERYWHERE, seed=seed)
