"""``parkinsons``: voice recordings of 42 patients, one party per patient."""

from pathlib import Path
from typing import Literal

import numpy as np

from fedplus._types import NumpyArray
from fedplus.check import require
from fedplus.data.federation import Federation
from fedplus.data.files import File, Source, load_source
from fedplus.data.files.formats import columns_by_name, parse_floats, read_csv_rows
from fedplus.data.partition import by_column
from fedplus.data.sets.base import DataSet

SCORES = ("motor_UPDRS", "total_UPDRS")
COMMIT = "deb237cac5ac21f2254f96077e53ec90f401a4c5"


def _read_csv(path: Path, delimiter: str = ",") -> dict[str, NumpyArray]:
    table = columns_by_name(read_csv_rows(path, delimiter=delimiter))
    return {name: parse_floats(cells) for name, cells in table.items()}


RECORDINGS = (
    Source(
        (
            File(
                "tabular/parkinsons_telemonitoring_42patients.csv.gz",
                "sha256:5f3fe3a524b1ece8fad87741b36bdd47f77043517e3b04abd834570d9ac1f3f9",
            ),
        ),
        _read_csv,
    ),
    Source(
        (
            File(
                "parkinsons/parkinsons_updrs.data",
                "sha256:52229b3075c2109a2c144f5584d88cc5ea99022a9a9eaa6d978b2e8e7c6bc501",
                (
                    "https://raw.githubusercontent.com/shikashyam/ParkinsonsTelemonitoring/"
                    f"{COMMIT}/parkinsons_updrs.data",
                ),
            ),
        ),
        lambda path: _read_csv(path, "\t"),
    ),
)


def make(
    *, seed: int, target: Literal["motor_UPDRS", "total_UPDRS"] = "motor_UPDRS",
    test_share: float = 0.2, validation_share: float = 0.0,
) -> Federation:  # fmt: skip
    """Build the federation; the label is a physician's score of the disease.

    The inputs are voice measures, age, sex and time, standardised.

    Args:
        seed: Seed of the choice of test samples.
        target: The score to predict.
        test_share: Share of a patient's recordings for testing.
        validation_share: Share of the training recordings for validation.
    """
    require(target in SCORES, "target", repr(target), " or ".join(SCORES))
    table = dict(load_source(RECORDINGS))
    patient = table.pop("subject#").astype(int)
    y = table[target].astype(np.float32)
    x = np.stack([table[name] for name in table if name not in SCORES], axis=1)
    federation = Federation.from_partition(
        x.astype(np.float32), y, by_column(patient), seed=seed, test_share=test_share,
        validation_share=validation_share,
    )  # fmt: skip
    return federation.standardise()


SET = DataSet(
    "parkinsons", make, "voice recordings of 42 patients: how ill is the patient?",
    "UCI Parkinsons Telemonitoring (Tsanas, Little, McSharry and Ramig 2009)", "CC BY 4.0",
    "Not in the paper: its parties are real ones.", (RECORDINGS,),
)  # fmt: skip
