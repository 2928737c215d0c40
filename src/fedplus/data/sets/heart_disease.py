"""``heart-disease``: patients of four hospitals, one party per hospital."""

from pathlib import Path

import numpy as np

from fedplus._types import NumpyArray
from fedplus.data.federation import Federation
from fedplus.data.files import DataError, File, Source, load_source
from fedplus.data.files.formats import columns_by_name, parse_floats, read_csv_rows
from fedplus.data.metadata import Metadata
from fedplus.data.partition import by_column
from fedplus.data.sets.base import DataSet
from fedplus.data.tables import federation_with_imputed_means

ADDRESS = "https://archive.ics.uci.edu/ml/machine-learning-databases/heart-disease/"
HOSPITALS = {
    "cleveland": "a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8",
    "hungarian": "d1ad108f785768cd3d7e82dc522e6f5a61eea93cccfb3a46ee8076f73fc3d796",
    "switzerland": "834a405ccf5b66ab4056bb77794adc8df0b7125186454c0a1d002d33c6c3b314",
    "va_long_beach": "e7c93d8d0d2acdadfa4c5e8de768e2191e7f618b952e29623f1f0d5949ff6b8f",
}
FILES = dict(zip(HOSPITALS, ("cleveland", "hungarian", "switzerland", "va"), strict=True))
MEASURES = (
    "age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak",
    "slope", "ca", "thal",
)  # fmt: skip
CATEGORIES = {"cp": (1, 2, 3, 4), "restecg": (0, 1, 2), "slope": (1, 2, 3), "thal": (3, 6, 7)}
"""Categorical measures and their values; each value becomes an input of 0 and 1."""
ZERO_IS_MISSING = ("trestbps", "chol")


def _read_uci(*paths: Path) -> tuple[NumpyArray, NumpyArray]:
    """Return the numbers (n, 14) and the hospital of each patient, from UCI's four files."""
    rows, hospitals = [], []
    for name, path in zip(HOSPITALS, paths, strict=True):
        patients = [row for row in read_csv_rows(path) if row]
        if any(len(row) != len(MEASURES) + 1 for row in patients):
            raise DataError(f"{path} must have 14 numbers per patient.")
        rows += patients
        hospitals += [name] * len(patients)
    return np.stack([parse_floats(row) for row in rows]), np.array(hospitals)


def _read_csv(path: Path) -> tuple[NumpyArray, NumpyArray]:
    table = columns_by_name(read_csv_rows(path))
    numbers = np.stack([parse_floats(table[name]) for name in (*MEASURES, "num")], axis=1)
    return numbers, np.array(table["hospital"])


PATIENTS = (
    Source(
        (
            File(
                "tabular/heart_disease_4hospitals.csv.gz",
                "sha256:e86c1d4a588c1da88037222f421cbfca1e30a0a8a845112fa5b22bcd5e839216",
            ),
        ),
        _read_csv,
    ),
    Source(
        tuple(
            File(
                f"heart-disease/processed.{file}.data",
                f"sha256:{HOSPITALS[name]}",
                (f"{ADDRESS}processed.{file}.data",),
            )
            for name, file in FILES.items()
        ),
        _read_uci,
    ),
)


def make(*, seed: int, test_share: float = 0.2, validation_share: float = 0.0) -> Federation:
    """Build the federation; the label is 1 if the patient has a heart disease.

    Missing values become training means, and an additional input of 0 and 1 marks them.

    Args:
        seed: Seed of the choice of test samples.
        test_share: Share of a hospital's patients for testing.
        validation_share: Share of the training patients for validation.
    """
    table, hospital = load_source(PATIENTS)
    x = _encode_inputs(table[:, :-1])
    y = (table[:, -1] > 0).astype(np.int32)
    rows = by_column(hospital)(y, np.random.default_rng(0))
    federation = federation_with_imputed_means(
        x, y, rows, {"seed": seed, "test_share": test_share, "validation_share": validation_share}
    )
    return federation.standardise()._replace(info=Metadata(classes=("healthy", "disease")))


def _encode_inputs(table: NumpyArray) -> NumpyArray:
    """Return the inputs: numbers as they are, and one input of 0 and 1 for each category.

    Each measure with missing values has an additional input, which is 1 where the value is missing.
    """
    inputs = []
    for name, column in zip(MEASURES, table.T, strict=True):
        is_missing = np.isnan(column) | ((column == 0) & (name in ZERO_IS_MISSING))
        if name in CATEGORIES:
            inputs += [(column == value).astype(float) for value in CATEGORIES[name]]
        else:
            inputs.append(np.where(is_missing, np.nan, column))
        if is_missing.any():
            inputs.append(is_missing.astype(float))
    return np.stack(inputs, axis=1)


SET = DataSet(
    "heart-disease", make, "patients of four hospitals: is there a heart disease?",
    "UCI Heart Disease (Janosi, Steinbrunn, Pfisterer and Detrano 1989)", "CC BY 4.0",
    "Not in the paper: its parties are real ones.", (PATIENTS,),
)  # fmt: skip
