"""``femnist``: lower-case letters a to j of EMNIST, five letters per party."""

from pathlib import Path

import numpy as np

from fedplus._types import NumpyArray
from fedplus.data.federation import Federation
from fedplus.data.files import DataError, File, Source, load_source
from fedplus.data.files.extracted_cache import cached_arrays
from fedplus.data.files.formats import read_idx, read_zip_member
from fedplus.data.sets import letters as letter_sets
from fedplus.data.sets.base import DataSet

LABEL_OF_A = 36
"""EMNIST's label of "a" in its split "byclass": digits, capital letters, small letters."""
ARCHIVE = File(
    "emnist/gzip.zip", "md5:58c8d27c78d21e728a6bc7b3cc06412e",
    ("https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",),
)  # fmt: skip


def read_emnist(path: Path) -> tuple[NumpyArray, NumpyArray]:
    """Return upright images (n, 784) and labels 0 to 9 of the letters a to j."""
    return _read_both_parts(path, "images"), _read_both_parts(path, "labels").astype(np.int32)


def _read_both_parts(path: Path, kind: str) -> NumpyArray:
    """Return the images or the labels of the letters a to j, training part first."""
    parts = []
    for part in ("train", "test"):
        labels = _read_idx_member(path, part, "labels-idx1")
        is_used = (labels >= LABEL_OF_A) & (labels < LABEL_OF_A + 10)
        if kind == "labels":
            parts.append(labels[is_used] - LABEL_OF_A)
            continue
        images = _read_idx_member(path, part, "images-idx3")
        if images.shape[1:] != (28, 28) or len(images) != len(labels):
            raise DataError(f"{path} must hold a 28 × 28 image per label, got {images.shape}.")
        # EMNIST stores images transposed.
        parts.append(images[is_used].transpose(0, 2, 1).reshape(-1, 784))
    return np.concatenate(parts)


def _read_idx_member(path: Path, part: str, kind: str) -> NumpyArray:
    name = f"gzip/emnist-byclass-{part}-{kind}-ubyte.gz"
    with read_zip_member(path, name) as member:
        return read_idx(member.read(), name)


def _read(path: Path) -> tuple[NumpyArray, NumpyArray]:
    """Return images and labels, from the cache if they were extracted before."""

    def build() -> dict[str, NumpyArray]:
        x, y = read_emnist(path)
        return {"x": x, "y": y}

    arrays = cached_arrays(f"emnist-a-to-j-{path.stat().st_size}", build)
    return arrays["x"], arrays["y"]


EMNIST = (Source((ARCHIVE,), _read),)


def make(
    *, seed: int, parties: int = 200, letters: int = 5, test_share: float = 0.2,
    validation_share: float = 0.0,
) -> Federation:  # fmt: skip
    """Build ``femnist``; see ``letters.build_federation``."""
    x, y = load_source(EMNIST)
    return letter_sets.build_federation(
        x.astype(np.float32) / 255, y, seed=seed, parties=parties, letters=letters,
        test_share=test_share, validation_share=validation_share,
    )  # fmt: skip


SET = DataSet(
    "femnist", make, "letters a to j of EMNIST over 200 parties, five letters each",
    "EMNIST by class (Cohen et al. 2017), from NIST Special Database 19", "US government work",
    "Five letters per party, as the paper says; FedProx's code gives three: letters=3. No two "
    "parties share an image; in FedProx's code they do. FedProx counts 18,345 images.",
    (EMNIST,),
)  # fmt: skip
