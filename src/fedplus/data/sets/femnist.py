"""``femnist``: lower-case letters a to j of EMNIST, five a party."""

from pathlib import Path

import numpy as np

from fedplus._types import Host
from fedplus.data.federation import Federation
from fedplus.data.files import DataError, File, Source, load_source
from fedplus.data.files.extracted_cache import cached_arrays
from fedplus.data.files.formats import read_idx, read_zip_member
from fedplus.data.sets import letters as recipe
from fedplus.data.sets.base import DataSet

FIRST = 36
"""EMNIST's label of a in its split "byclass": digits, then capitals, then small letters."""
ARCHIVE = File(
    "emnist/gzip.zip", "md5:58c8d27c78d21e728a6bc7b3cc06412e",
    ("https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",),
)  # fmt: skip


def read_emnist(path: Path) -> tuple[Host, Host]:
    """Images (n, 784) and labels 0 to 9 of the letters a to j, upright."""
    return _parts(path, "images"), _parts(path, "labels").astype(np.int32)


def _parts(path: Path, what: str) -> Host:
    both = []
    for part in ("train", "test"):
        labels = _idx(path, part, "labels-idx1")
        wanted = (labels >= FIRST) & (labels < FIRST + 10)
        if what == "labels":
            both.append(labels[wanted] - FIRST)
            continue
        images = _idx(path, part, "images-idx3")
        if images.shape[1:] != (28, 28) or len(images) != len(labels):
            raise DataError(f"{path} must hold a 28 × 28 image a label, got {images.shape}.")
        both.append(images[wanted].transpose(0, 2, 1).reshape(-1, 784))  # Stored on their side.
    return np.concatenate(both)


def _idx(path: Path, part: str, kind: str) -> Host:
    name = f"gzip/emnist-byclass-{part}-{kind}-ubyte.gz"
    with read_zip_member(path, name) as packed:
        return read_idx(packed.read(), name)


def _read(path: Path) -> tuple[Host, Host]:
    def build() -> dict[str, Host]:
        x, y = read_emnist(path)
        return {"x": x, "y": y}

    arrays = cached_arrays(f"emnist-a-to-j-{path.stat().st_size}", build)
    return arrays["x"], arrays["y"]


EMNIST = (Source((ARCHIVE,), _read),)


def make(
    *, seed: int, parties: int = 200, letters: int = 5, test_share: float = 0.2,
    validation_share: float = 0.0,
) -> Federation:  # fmt: skip
    """See ``letters.federation``."""
    x, y = load_source(EMNIST)
    return recipe.federation(
        x.astype(np.float32) / 255, y, seed=seed, parties=parties, letters=letters,
        test_share=test_share, validation_share=validation_share,
    )  # fmt: skip


SET = DataSet(
    "femnist", make, "letters a to j of EMNIST over 200 parties, five letters each",
    "EMNIST by class (Cohen et al. 2017), from NIST Special Database 19", "US government work",
    "Five letters a party, as the paper says; FedProx's code gives three: letters=3. No two "
    "parties share an image; in FedProx's code they do. FedProx counts 18,345 images.",
    (EMNIST,),
)  # fmt: skip
