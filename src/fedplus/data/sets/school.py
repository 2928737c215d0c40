"""``school``: exam scores of pupils of 139 London schools, one party per school."""

from pathlib import Path
from typing import Any

import numpy as np

from fedplus._types import NumpyArray
from fedplus.data.federation import Federation
from fedplus.data.files import File, Source, load_source
from fedplus.data.files.formats import read_npz
from fedplus.data.partition import by_column
from fedplus.data.sets.base import DataSet

COMMIT = "fb9751594983df020ddc4f7e4a40520ee7c37989"


def _read_npz(path: Path) -> tuple[NumpyArray, NumpyArray, NumpyArray]:
    arrays = read_npz(path)
    return arrays["X"], arrays["y"], arrays["school"]


def _read_mat(path: Path) -> tuple[NumpyArray, NumpyArray, NumpyArray]:
    """Read MALSAR's file: cells X and Y, one per school. A bias column is left to the model."""
    from scipy.io import loadmat

    cells: Any = loadmat(path)
    xs, ys = cells["X"].ravel(), cells["Y"].ravel()
    school = np.repeat(np.arange(len(xs)), [len(x) for x in xs])
    return np.concatenate(xs), np.concatenate([y.ravel() for y in ys]), school


PUPILS = (
    Source(
        (
            File(
                "tabular/school_139schools.npz",
                "sha256:682b0926f75c7913af39020dcbb3e4b9cbeb19a2a04e535ded2725c462b3bc7a",
            ),
        ),
        _read_npz,
    ),
    Source(
        (
            File(
                "school/school.mat",
                "sha256:57fb3238fdd03a9aa17276e2ce18d9bbb5d128c3261e794fe6233b58b6909068",
                tuple(
                    f"https://raw.githubusercontent.com/jiayuzhou/MALSAR/{version}/data/school.mat"
                    for version in (COMMIT, "master")
                ),
            ),
        ),
        _read_mat,
    ),
)


def make(*, seed: int, test_share: float = 0.2, validation_share: float = 0.0) -> Federation:
    """Build the federation; the label is a pupil's exam score.

    The inputs are year, sex, group and other facts, standardised.

    Args:
        seed: Seed of the choice of test samples.
        test_share: Share of a school's pupils for testing.
        validation_share: Share of the training pupils for validation.
    """
    x, y, school = load_source(PUPILS)
    federation = Federation.from_partition(
        x.astype(np.float32), y.astype(np.float32), by_column(school), seed=seed,
        test_share=test_share, validation_share=validation_share,
    )  # fmt: skip
    return federation.standardise()


SET = DataSet(
    "school", make, "exam scores of pupils of 139 London schools",
    "Inner London Education Authority (Mortimore et al. 1988; Goldstein 1991), in MALSAR",
    "none stated; academic use", "Not in the paper: its parties are real ones.",
    (PUPILS,),
)  # fmt: skip
