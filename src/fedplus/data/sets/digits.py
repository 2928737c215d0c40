"""``digits-robust`` and ``digits-personal``: the 8 × 8 digits that come with scikit-learn."""

import functools

import numpy as np

from fedplus._types import NumpyArray
from fedplus.data.federation import Federation
from fedplus.data.metadata import Metadata
from fedplus.data.sets import image_variants
from fedplus.data.sets.base import DataSet
from fedplus.extras import import_extra

INFO = Metadata(classes=tuple("0123456789"), image_shape=(8, 8))
SOURCE = "Optical Recognition of Handwritten Digits (Alpaydin and Kaynak 1998), in scikit-learn"
LICENCE = "CC BY 4.0 (UCI)"


@functools.cache
def _digits() -> tuple[NumpyArray, NumpyArray]:
    datasets = import_extra("sklearn.datasets", "data", "the digits data set")
    images, labels = datasets.load_digits(return_X_y=True)
    standard = ((images - images.mean()) / images.std()).astype(np.float32)
    return standard, labels.astype(np.int32)


def robust(
    *, seed: int, parties: int = 10, outliers: float = 0.1, test_share: float = 0.5,
    validation_share: float = 0.0,
) -> Federation:  # fmt: skip
    """Build ``digits-robust``; see ``image_variants.robust``."""
    return image_variants.robust(
        *_digits(), INFO, seed=seed, parties=parties, outliers=outliers, test_share=test_share,
        validation_share=validation_share,
    )  # fmt: skip


def personal(
    *, seed: int, parties: int = 10, outliers: float = 0.1, scale: float = 1.0,
    noisy_classes: int = 2, test_share: float = 0.5, validation_share: float = 0.0,
) -> Federation:  # fmt: skip
    """Build ``digits-personal``; see ``image_variants.personal``."""
    federation = robust(
        seed=seed, parties=parties, outliers=outliers, test_share=test_share,
        validation_share=validation_share,
    )  # fmt: skip
    return image_variants.personal(federation, seed=seed, scale=scale, noisy_classes=noisy_classes)


ROBUST = DataSet(
    "digits-robust", robust, "small digits in equal parts; some parties hold negatives",
    SOURCE, LICENCE,
    "Not in the paper: its recipe for MNIST-robust on 1,797 small images that need no download.",
)  # fmt: skip
PERSONAL = DataSet(
    "digits-personal", personal,
    "as digits-robust, and every party has two classes with noisy images", SOURCE, LICENCE,
    "Not in the paper: its recipe for MNIST-personal on 1,797 small images that need no download.",
)  # fmt: skip
