"""``mnist-robust`` and ``mnist-personal``, from the paper's Table 2."""

from fedplus.check import require
from fedplus.data.federation import Federation
from fedplus.data.sets import image_variants
from fedplus.data.sets.base import DataSet
from fedplus.data.sets.mnist_files import INFO, LICENCE, MNIST, SOURCE, load_images, standardise


def robust(
    *, seed: int, parties: int = 10, outliers: float = 0.1, samples: int = 60_000,
    test_share: float = 0.5, validation_share: float = 0.0,
) -> Federation:  # fmt: skip
    """Build ``mnist-robust`` from the first ``samples`` images; see ``image_variants.robust``."""
    x, y = load_images()
    require(samples <= len(x), "samples", samples, f"at most {len(x)}")
    return image_variants.robust(
        standardise(x[:samples]), y[:samples], INFO, seed=seed, parties=parties,
        outliers=outliers, test_share=test_share, validation_share=validation_share,
    )  # fmt: skip


def personal(
    *, seed: int, parties: int = 10, outliers: float = 0.1, scale: float = 1.0,
    noisy_classes: int = 2, samples: int = 60_000, test_share: float = 0.5,
    validation_share: float = 0.0,
) -> Federation:  # fmt: skip
    """Build ``mnist-personal``; see ``image_variants.personal``."""
    federation = robust(
        seed=seed, parties=parties, outliers=outliers, samples=samples, test_share=test_share,
        validation_share=validation_share,
    )  # fmt: skip
    return image_variants.personal(federation, seed=seed, scale=scale, noisy_classes=noisy_classes)


DIFFERENCES = (
    "The paper does not say how pixels are scaled: here (x/255 − 0.1307)/0.3081, and a negative is "
    "the negative of that (D11). It does not say whether it uses the 60,000 training images "
    "or all 70,000: here the 60,000."
)
ROBUST = DataSet(
    "mnist-robust", robust, "MNIST in equal parts; some parties hold negatives", SOURCE, LICENCE,
    DIFFERENCES, (MNIST,),
)  # fmt: skip
PERSONAL = DataSet(
    "mnist-personal", personal,
    "as mnist-robust, and every party has two classes with noisy images", SOURCE, LICENCE,
    f"{DIFFERENCES} Nor does it give the scale of the Laplacian noise: here 1, in standardised pixels.",
    (MNIST,),
)  # fmt: skip
