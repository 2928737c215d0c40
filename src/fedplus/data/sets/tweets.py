"""The shared part of ``sent140`` and its stand-in: tweets by account, as tokens with frozen vectors."""

import re

import numpy as np

from fedplus._types import NumpyArray
from fedplus.data.federation import Federation
from fedplus.data.metadata import Metadata
from fedplus.data.partition import by_column
from fedplus.data.sets import glove

TOKEN = re.compile(r"[\w']+|[.,!?;]")
PADDING, UNKNOWN = 0, 1


def tokenise(text: str, length: int) -> list[str]:
    """Return the first ``length`` words and punctuation marks in lower case, as GloVe has them."""
    return TOKEN.findall(text.lower())[:length]


def build_federation(
    texts: list[str], labels: NumpyArray, accounts: NumpyArray, *, seed: int, least: int, length: int,
    features: int, test_share: float, validation_share: float,
) -> Federation:  # fmt: skip
    """Build a federation with one party per account; x is (n, length) tokens.

    Token 0 pads in front, so that the last token is the tweet's last; token 1 is a word that GloVe does
    not know. Both have a vector of zeros. ``info.embedding`` has the vectors of all tokens.

    Args:
        texts: The tweets.
        labels: 0 for negative, 1 for positive.
        accounts: The account of each tweet.
        seed: Seed of the choice of test samples.
        least: Accounts with fewer tweets are left out.
        length: Number of tokens of a sample.
        features: Number of entries of a vector.
        test_share: Share of an account's tweets for testing.
        validation_share: Share of the training tweets for validation.
    """
    names, account, count = np.unique(accounts, return_inverse=True, return_counts=True)
    used = np.flatnonzero(count[account] >= least)
    tweets = [tokenise(texts[i], length) for i in used]
    words, vectors = glove.word_vectors((w for tweet in tweets for w in tweet), features)
    token_of = {word: i + 2 for i, word in enumerate(words)}
    x = np.full((len(tweets), length), PADDING, dtype=np.int32)
    for row, tweet in zip(x, tweets, strict=True):
        if tweet:
            row[-len(tweet) :] = [token_of.get(word, UNKNOWN) for word in tweet]
    federation = Federation.from_partition(
        x, labels[used].astype(np.int32), by_column(names[account[used]]), seed=seed,
        test_share=test_share, validation_share=validation_share,
    )  # fmt: skip
    info = Metadata(
        classes=("negative", "positive"), vocabulary=("", "?", *words),
        embedding=np.concatenate([np.zeros((2, features), np.float32), vectors]),
    )  # fmt: skip
    return federation._replace(info=info)
