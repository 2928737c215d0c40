"""``mnist-writers``: MNIST with one party per writer; QMNIST published the writers."""

from pathlib import Path

import numpy as np

from fedplus._types import NumpyArray
from fedplus.check import require, require_integer
from fedplus.data.federation import Federation
from fedplus.data.files import File, Source, load_source
from fedplus.data.files.formats import read_idx_file, read_npz
from fedplus.data.partition import by_column
from fedplus.data.sets.base import DataSet
from fedplus.data.sets.mnist_files import INFO, LICENCE, MNIST, SOURCE, load_images, standardise

ADDRESS = "https://raw.githubusercontent.com/facebookresearch/qmnist"
COMMIT = "94061367ec2e099ea18c553c75727ecf849ddb9b"


def _file(name: str, sha256: str) -> File:
    urls = tuple(f"{ADDRESS}/{version}/{name}" for version in (COMMIT, "master"))
    return File(f"mnist/{name}", f"sha256:{sha256}", urls)


def _read_qmnist(train: Path, test: Path) -> NumpyArray:
    """Return the writer of each image.

    The third column is the writer; QMNIST's first 10,000 test images are MNIST's.
    """
    return np.concatenate([read_idx_file(train)[:60_000, 2], read_idx_file(test)[:10_000, 2]])


def _read_npz(path: Path) -> NumpyArray:
    arrays = read_npz(path)
    return np.concatenate([arrays["train_writer"], arrays["test_writer"]])


WRITERS = (
    Source(
        (
            File(
                "mnist/mnist_writers_from_qmnist.npz",
                "sha256:e3f7806d6d477134bd37bf32295465005424046a914628510e3217bc24020cc4",
            ),
        ),
        _read_npz,
    ),
    Source(
        (
            _file(
                "qmnist-train-labels-idx2-int.gz",
                "2c05dc77f6b916b38e455e97ab129a42a444f3dbef09b278a366f82904e0dd9f",
            ),
            _file(
                "qmnist-test-labels-idx2-int.gz",
                "9fbcbe594c3766fdf4f0b15c5165dc0d1e57ac604e01422608bb72c906030d06",
            ),
        ),
        _read_qmnist,
    ),
)


def make(
    *, seed: int, parties: int | None = None, least: int = 10, test_share: float = 0.2,
    validation_share: float = 0.0,
) -> Federation:  # fmt: skip
    """Build a federation with one party per writer, named by NIST's number.

    Args:
        seed: Seed of the choice of test samples.
        parties: Number of writers, evenly spread over NIST's numbers and the same for every seed;
            None: all.
        least: Writers with fewer images are left out.
        test_share: Share of a writer's images for testing.
        validation_share: Share of the training images for validation.
    """
    (x, y), writer = load_images(), load_source(WRITERS)
    if parties is not None:
        require_integer("mnist-writers' parties", parties)
        number, count = np.unique(writer, return_counts=True)
        eligible = number[count >= least]
        require(
            1 <= parties <= len(eligible), "mnist-writers' parties", parties,
            f"from 1 to {len(eligible)}, the number of writers with {least} images or more",
        )  # fmt: skip
        chosen = eligible[np.linspace(0, len(eligible) - 1, parties).round().astype(int)]
        is_used = np.isin(writer, chosen)
        x, y, writer = x[is_used], y[is_used], writer[is_used]
    federation = Federation.from_partition(
        standardise(x), y, by_column(writer), seed=seed, least=least, small="drop",
        test_share=test_share, validation_share=validation_share,
    )  # fmt: skip
    return federation._replace(info=INFO)


SET = DataSet(
    "mnist-writers", make, "MNIST by writer: real silos, about a hundred images each",
    f"{SOURCE}; writers from QMNIST (Yadav and Bottou 2019)", f"{LICENCE}; labels BSD",
    "Not in the paper: its parties are real ones.", (MNIST, WRITERS),
)  # fmt: skip
