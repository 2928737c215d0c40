"""What ``femnist`` and its stand-in share: letters a to j, a few of them a party."""

import numpy as np

from fedplus._types import Host
from fedplus.check import require
from fedplus.data.federation import Federation
from fedplus.data.metadata import Metadata
from fedplus.data.partition import class_holders, draw_rows

LETTERS = "abcdefghij"
INFO = Metadata(classes=tuple(LETTERS), image=(28, 28))
MOST = 4000
"""Images of a letter that are used at most, as in FedProx's code."""


def federation(
    x: Host, y: Host, *, seed: int, parties: int, letters: int, test_share: float,
    validation_share: float,
) -> Federation:  # fmt: skip
    """Sizes 5 + ⌊lognormal(4, 1)⌋, in equal parts over a party's letters; no image twice.

    Where all parties together want more of a letter than there is, each gets one image and its part of
    what is left.
    """
    require(1 <= letters <= 10, "letters", letters, "from 1 to 10")

    def how(y: Host, rng: np.random.Generator) -> dict[str, Host]:
        sizes = 5 + np.floor(rng.lognormal(4, 1, parties)).astype(np.int64)
        wanted = np.zeros((parties, len(LETTERS)), dtype=np.int64)
        for mine, held, size in zip(
            wanted, class_holders(parties, letters, 10), sizes, strict=True
        ):
            mine[held] = np.diff(np.arange(letters + 1) * size // letters)
        there, holders_of = np.minimum(np.bincount(y, minlength=10), MOST), (wanted > 0).sum(0)
        enough = bool((there >= holders_of).all())
        require(enough, "parties", parties, "fewer: some letter has not an image for each of them")
        spare = np.maximum(wanted.sum(0) - holders_of, 1)
        share = np.minimum(1, (there - holders_of) / spare)
        more = np.floor(np.maximum(wanted - 1, 0) * share).astype(np.int64)
        return draw_rows(y, (wanted > 0) + more, rng)

    made = Federation.from_partition(
        x, y, how, seed=seed, test_share=test_share, validation_share=validation_share
    )
    return made._replace(info=INFO)
