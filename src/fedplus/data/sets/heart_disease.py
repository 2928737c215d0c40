"""``heart-disease``: patients of four hospitals."""

from pathlib import Path

import numpy as np

from fedplus._types import Host
from fedplus.data.federation import Federation
from fedplus.data.files import DataError, File, Source, load_source
from fedplus.data.files.formats import columns_by_name, parse_floats, read_csv_rows
from fedplus.data.metadata import Metadata
from fedplus.data.partition import by_column
from fedplus.data.sets.base import DataSet
from fedplus.data.tables import federation_with_missing_values

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
KINDS = {"cp": (1, 2, 3, 4), "restecg": (0, 1, 2), "slope": (1, 2, 3), "thal": (3, 6, 7)}
"""Measures whose numbers name kinds: each kind becomes an input of its own."""
ZERO_IS_MISSING = ("trestbps", "chol")


def _from_uci(*paths: Path) -> tuple[Host, Host]:
    rows, whose = [], []
    for name, path in zip(HOSPITALS, paths, strict=True):
        mine = [row for row in read_csv_rows(path) if row]
        if any(len(row) != len(MEASURES) + 1 for row in mine):
            raise DataError(f"{path} must have 14 numbers a patient.")
        rows += mine
        whose += [name] * len(mine)
    return np.stack([parse_floats(row) for row in rows]), np.array(whose)


def _from_csv(path: Path) -> tuple[Host, Host]:
    table = columns_by_name(read_csv_rows(path))
    whose = np.array(table["hospital"])
    return np.stack([parse_floats(table[name]) for name in (*MEASURES, "num")], axis=1), whose


PATIENTS = (
    Source(
        (
            File(
                "tabular/heart_disease_4hospitals.csv.gz",
                "sha256:e86c1d4a588c1da88037222f421cbfca1e30a0a8a845112fa5b22bcd5e839216",
            ),
        ),
        _from_csv,
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
        _from_uci,
    ),
)


def make(*, seed: int, test_share: float = 0.2, validation_share: float = 0.0) -> Federation:
    """Y says whether there is a disease. Gaps become training means, with an input that says so."""
    table, whose = load_source(PATIENTS)
    x = _inputs(table[:, :-1])
    y = (table[:, -1] > 0).astype(np.int32)
    rows = by_column(whose)(y, np.random.default_rng(0))
    made = federation_with_missing_values(
        x, y, rows, {"seed": seed, "test_share": test_share, "validation_share": validation_share}
    )
    return made.standardise()._replace(info=Metadata(classes=("healthy", "disease")))


def _inputs(table: Host) -> Host:
    """Numbers as they are, kinds as 0 and 1, and for what is missing anywhere whether it is."""
    made = []
    for name, column in zip(MEASURES, table.T, strict=True):
        gone = np.isnan(column) | ((column == 0) & (name in ZERO_IS_MISSING))
        if name in KINDS:
            made += [(column == kind).astype(float) for kind in KINDS[name]]
        else:
            made.append(np.where(gone, np.nan, column))
        if gone.any():
            made.append(gone.astype(float))
    return np.stack(made, axis=1)


SET = DataSet(
    "heart-disease", make, "patients of four hospitals: is there a heart disease?",
    "UCI Heart Disease (Janosi, Steinbrunn, Pfisterer and Detrano 1989)", "CC BY 4.0",
    "Not in the paper: a federation that is one by nature.", (PATIENTS,),
)  # fmt: skip
