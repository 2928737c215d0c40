"""``femnist-standin``: letters of another collection, for users who cannot get EMNIST."""

from pathlib import Path

import numpy as np

from fedplus._types import NumpyArray
from fedplus.data.federation import Federation
from fedplus.data.files import File, Source, load_source
from fedplus.data.files.formats import read_npz
from fedplus.data.sets import letters as letter_sets
from fedplus.data.sets.base import DataSet


def _read(path: Path) -> tuple[NumpyArray, NumpyArray]:
    """Return images (n, 784) in {0, 1} and labels.

    The published 16 × 8 pixels are doubled in width and centred in 28 × 28.
    """
    arrays = read_npz(path)
    is_used = arrays["label"] < len(letter_sets.LETTERS)
    small = np.unpackbits(arrays["images16x8_bits"][is_used], axis=1).reshape(-1, 16, 8)
    x = np.zeros((len(small), 28, 28), dtype=np.float32)
    x[:, 6:22, 6:22] = np.repeat(small, 2, axis=2)
    return x.reshape(-1, 784), arrays["label"][is_used].astype(np.int32)


LETTERS = (
    Source(
        (
            File(
                "handwriting/stanford_ocr_letters_52152.npz",
                "sha256:835fe074a1e0fb909ff88b4c11a047168a32d1fd335e2cb599e76136cc8d1cca",
                origin="the OCR letters at ai.stanford.edu/~btaskar/ocr, packed as "
                "images16x8_bits (n, 16) bytes and label (n,) from 0 for a",
            ),
        ),
        _read,
    ),
)


def make(
    *, seed: int, parties: int = 200, letters: int = 5, test_share: float = 0.2,
    validation_share: float = 0.0,
) -> Federation:  # fmt: skip
    """Build ``femnist-standin``; see ``letters.build_federation``."""
    x, y = load_source(LETTERS)
    return letter_sets.build_federation(
        x, y, seed=seed, parties=parties, letters=letters, test_share=test_share,
        validation_share=validation_share,
    )  # fmt: skip


SET = DataSet(
    "femnist-standin", make, "letters a to j of the Stanford OCR set, divided as femnist",
    "OCR letters (Kassel 1995; Taskar et al. 2003)", "none stated; research use",
    "A stand-in: other letters than EMNIST's, cut from words, with 16 × 8 black-and-white pixels "
    "instead of 28 × 28 grey ones; f, h and j are rare. Its results are not the paper's.",
    (LETTERS,), "femnist",
)  # fmt: skip
