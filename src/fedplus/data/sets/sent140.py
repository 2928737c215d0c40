"""``sent140``: tweets with their sentiment, one party per account."""

import csv
import io
from pathlib import Path

import numpy as np

from fedplus._types import NumpyArray
from fedplus.data.federation import Federation
from fedplus.data.files import DataError, File, Source, load_source
from fedplus.data.files.formats import read_zip_member
from fedplus.data.sets import glove, tweets
from fedplus.data.sets.base import DataSet

SOURCE = "Sentiment140 (Go, Bhayani and Huang 2009)"
LICENCE = "none stated; research use"
ARCHIVE = File(
    "sent140/trainingandtestdata.zip",
    "sha256:004a3772c8a7ff9bbfeb875880f47f0679d93fc63e5cf9cff72d54a8a6162e57",
    tuple(
        f"{scheme}://cs.stanford.edu/people/alecmgo/trainingandtestdata.zip"
        for scheme in ("https", "http")
    ),
)


def read_archive(path: Path) -> tuple[list[str], NumpyArray, NumpyArray]:
    """Return texts, labels 0 and 1, and accounts of the training file, without neutral tweets."""
    name = "training.1600000.processed.noemoticon.csv"
    texts, labels, accounts = [], [], []
    with read_zip_member(path, name) as member:
        lines = io.TextIOWrapper(member, encoding="latin-1", newline="")
        for row in csv.reader(lines):
            if len(row) != 6 or row[0] not in ("0", "2", "4"):
                raise DataError(
                    f"{name} must have rows of 6 cells with polarity 0, 2 or 4, got {row}."
                )
            if row[0] != "2":
                texts.append(row[5])
                labels.append(row[0] == "4")
                accounts.append(row[4])
    return texts, np.array(labels, dtype=np.int32), np.array(accounts)


TWEETS = (Source((ARCHIVE,), read_archive),)


def make(
    *, seed: int, least: int = 31, length: int = 25, features: int = 300, test_share: float = 0.2,
    validation_share: float = 0.0,
) -> Federation:  # fmt: skip
    """Build ``sent140``; see ``tweets.build_federation``."""
    texts, labels, accounts = load_source(TWEETS)
    return tweets.build_federation(
        texts, labels, accounts, seed=seed, least=least, length=length, features=features,
        test_share=test_share, validation_share=validation_share,
    )  # fmt: skip


SET = DataSet(
    "sent140", make, "tweets with their sentiment, one party per account",
    f"{SOURCE}; {glove.SOURCE}", f"{LICENCE}; vectors {glove.LICENCE}",
    "25 words, as in FedProx's code; the paper says 25 characters. Accounts with more than "
    "30 tweets (FedProx counts 772, with 40,783 tweets). Shorter tweets are padded in front.",
    (TWEETS, glove.sources(300)),
)  # fmt: skip
