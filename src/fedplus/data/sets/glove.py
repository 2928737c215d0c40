"""GloVe's word vectors, restricted to the words of a corpus."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from fedplus._types import NumpyArray
from fedplus.check import require
from fedplus.data.files import DataError, File, Source, load_source
from fedplus.data.files.extracted_cache import cached_arrays
from fedplus.data.files.formats import read_npz, read_zip_member

ARCHIVE = File(
    "glove/glove.6B.zip",
    "sha256:617afb2fe6cbd085c235baf7a465b96f4112bd7f7ccb2b2cbd649fed9cbcf2fb",
    (
        "https://nlp.stanford.edu/data/glove.6B.zip",
        "https://huggingface.co/stanfordnlp/glove/resolve/main/glove.6B.zip",
    ),
)
SUBSETS = {
    50: "9898f0c8ce8175c4ab67d2ccd6001d5429a3a1ceb214e3eff487c6d9ef018c83",
    100: "80376c133281e9ec88b2a77a3670dac537b49d53391e4ce4b2ba36d94ec9aa9e",
}
SIZES = (50, 100, 200, 300)
SOURCE = "GloVe 6B (Pennington, Socher and Manning 2014)"
LICENCE = "PDDL 1.0"


def sources(features: int, words: Iterable[str] = ()) -> tuple[Source, ...]:
    """Return the sources of the vectors: a small subset if there is one, and Stanford's archive.

    Args:
        features: Number of entries of a vector.
        words: Words to read from the archive.
    """
    require(features in SIZES, "features", features, f"one of {', '.join(map(str, SIZES))}")
    vocabulary = frozenset(words)
    archive = Source((ARCHIVE,), lambda path: _read_archive(path, features, vocabulary))
    if features not in SUBSETS:
        return (archive,)
    name = f"glove/glove_6B_{features}d_subset.npz"
    return (Source((File(name, f"sha256:{SUBSETS[features]}"),), _read_subset), archive)


def word_vectors(words: Iterable[str], features: int) -> tuple[list[str], NumpyArray]:
    """Return the words that GloVe knows, in alphabetical order, and their vectors."""
    vocabulary = set(words)
    available, vectors = load_source(sources(features, vocabulary))
    row_of_word = {word: i for i, word in enumerate(available)}
    known = sorted(word for word in vocabulary if word in row_of_word)
    return known, vectors[[row_of_word[word] for word in known]].astype(np.float32)


def _read_subset(path: Path) -> tuple[list[str], NumpyArray]:
    arrays = read_npz(path)
    return arrays["words"].tobytes().decode("utf-8").split("\n"), arrays["vectors"]


def _read_archive(
    path: Path, features: int, vocabulary: frozenset[str]
) -> tuple[list[str], NumpyArray]:
    """Return words and vectors; the text file of 400,000 lines is read once per vocabulary."""
    key = "\n".join(sorted(vocabulary)).encode()

    def build() -> dict[str, NumpyArray]:
        words, rows = [], []
        with read_zip_member(path, f"glove.6B.{features}d.txt") as lines:
            for line in lines:
                word, _, numbers = line.partition(b" ")
                if word.decode("utf-8") in vocabulary:
                    words.append(word)
                    rows.append(np.array(numbers.split(), dtype=np.float32))
        if not rows or any(len(row) != features for row in rows):
            raise DataError(f"{path} must hold vectors of {features} numbers for these words.")
        return {"words": np.frombuffer(b"\n".join(words), np.uint8), "vectors": np.stack(rows)}

    name = f"glove-{features}d-{hashlib.sha256(key).hexdigest()[:16]}"
    arrays = cached_arrays(name, build)
    return arrays["words"].tobytes().decode("utf-8").split("\n"), arrays["vectors"]
