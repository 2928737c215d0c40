"""What ``sent140`` and its stand-in share: tweets by account, as tokens with frozen vectors."""

import re

import numpy as np

from fedplus._types import Host
from fedplus.data.federation import Federation
from fedplus.data.metadata import Metadata
from fedplus.data.partition import by_column
from fedplus.data.sets import glove

TOKEN = re.compile(r"[\w']+|[.,!?;]")
PADDING, UNKNOWN = 0, 1


def tokenise(text: str, length: int) -> list[str]:
    """The first ``length`` words and marks, in lower case: GloVe knows no capitals."""
    return TOKEN.findall(text.lower())[:length]


def federation(
    texts: list[str], labels: Host, accounts: Host, *, seed: int, least: int, length: int,
    features: int, test_share: float, validation_share: float,
) -> Federation:  # fmt: skip
    """Each account with at least ``least`` tweets is a party; x is (n, length) tokens.

    Token 0 fills up in front, so that the last token read is the tweet's last; 1 is a word that GloVe
    does not know. Both have a vector of zeros. ``info.embedding`` has all vectors.
    """
    names, which, count = np.unique(accounts, return_inverse=True, return_counts=True)
    wanted = np.flatnonzero(count[which] >= least)
    split = [tokenise(texts[i], length) for i in wanted]
    words, vectors = glove.word_vectors((w for tweet in split for w in tweet), features)
    number = {word: i + 2 for i, word in enumerate(words)}
    x = np.full((len(split), length), PADDING, dtype=np.int32)
    for row, tweet in zip(x, split, strict=True):
        if tweet:
            row[-len(tweet) :] = [number.get(word, UNKNOWN) for word in tweet]
    made = Federation.from_partition(
        x, labels[wanted].astype(np.int32), by_column(names[which[wanted]]), seed=seed,
        test_share=test_share, validation_share=validation_share,
    )  # fmt: skip
    info = Metadata(
        classes=("negative", "positive"), words=("", "?", *words),
        embedding=np.concatenate([np.zeros((2, features), np.float32), vectors]),
    )  # fmt: skip
    return made._replace(info=info)
