"""Federations: the samples of all parties, loaded by name or built from your own data.

Where the user's own data become a ``Federation``:

- ``folders.py`` reads a folder with one CSV, Parquet or npz file per party.
- ``tables.py`` turns named columns (data frames, CSV, Parquet) into inputs and labels.
- ``hugging_face.py`` reads a Hugging Face data set.
- ``holdout.py`` sets test and validation samples aside; ``partition.py`` divides one data set.

``files/`` reads, downloads and checks files; ``sets/`` has the data sets that ``load`` knows by name.
"""

from fedplus.data import corrupt, partition
from fedplus.data.federation import Federation
from fedplus.data.files import DataError
from fedplus.data.holdout import Splitting
from fedplus.data.load import load
from fedplus.data.metadata import Metadata
from fedplus.data.sets import SETS
from fedplus.data.split import Split

__all__ = [
    "SETS",
    "DataError",
    "Federation",
    "Metadata",
    "Split",
    "Splitting",
    "corrupt",
    "load",
    "partition",
]
