"""``sent140-standin``: a public subset of tweets, for users who cannot get Sentiment140."""

from pathlib import Path

import numpy as np

from fedplus._types import NumpyArray
from fedplus.data.federation import Federation
from fedplus.data.files import File, Source, load_source
from fedplus.data.files.formats import columns_by_name, read_csv_rows
from fedplus.data.sets import glove, tweets
from fedplus.data.sets.base import DataSet
from fedplus.data.sets.sent140 import LICENCE, SOURCE


def _read(path: Path) -> tuple[list[str], NumpyArray, NumpyArray]:
    table = columns_by_name(read_csv_rows(path))
    labels = np.array(table["label"], dtype=np.int32)
    return table["text"], labels, np.array(table["user"], dtype=np.int32)


TWEETS = (
    Source(
        (
            File(
                "text/sent140_users_subset.csv.gz",
                "sha256:ab342d785c3afe55de6c2097edd15ce1051aa47273c5348ee24527e007b84de4",
                origin="public samples of Sentiment140, joined, with the columns "
                "user, label, date, text",
            ),
        ),
        _read,
    ),
)


def make(
    *, seed: int, least: int = 3, length: int = 25, features: int = 50, test_share: float = 0.2,
    validation_share: float = 0.0,
) -> Federation:  # fmt: skip
    """Build ``sent140-standin``; see ``tweets.build_federation``."""
    texts, labels, accounts = load_source(TWEETS)
    return tweets.build_federation(
        texts, labels, accounts, seed=seed, least=least, length=length, features=features,
        test_share=test_share, validation_share=validation_share,
    )  # fmt: skip


SET = DataSet(
    "sent140-standin", make, "a small part of Sentiment140: accounts with three tweets or more",
    f"{SOURCE}, public samples of it; {glove.SOURCE}", f"{LICENCE}; vectors {glove.LICENCE}",
    "A stand-in: 837 accounts with 3 to 17 tweets instead of 772 with more than 30, and vectors "
    "of 50 entries instead of 300. Its results are not the paper's.",
    (TWEETS, glove.sources(50)), "sent140",
)  # fmt: skip
