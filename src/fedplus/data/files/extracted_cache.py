"""Caches arrays that take long to extract from a large archive, next to the downloads."""

import contextlib
import io
from collections.abc import Callable

import numpy as np

from fedplus._types import NumpyArray
from fedplus.data.files import search_path
from fedplus.data.files.formats import read_npz
from fedplus.data.files.source import READ_ERRORS
from fedplus.files import SHARED, write_atomically


def cached_arrays(name: str, build: Callable[[], dict[str, NumpyArray]]) -> dict[str, NumpyArray]:
    """Return the arrays of ``build()``, which is called only if the cache does not have them.

    Args:
        name: Identifies the archive and how it was read; each name has its own cache file.
        build: Reads the archive and returns the arrays by name.
    """
    path = search_path.cache_folder() / "prepared" / f"{name}.npz"
    if path.is_file():
        with contextlib.suppress(*READ_ERRORS):  # A damaged cache file is rebuilt.
            return read_npz(path)
    arrays = build()
    path.parent.mkdir(parents=True, exist_ok=True)
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **arrays)
    write_atomically(path, content.getvalue(), SHARED)
    return arrays
