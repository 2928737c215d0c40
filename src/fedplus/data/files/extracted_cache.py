"""What took long to extract from a large archive is kept beside the downloads."""

import contextlib
import io
from collections.abc import Callable

import numpy as np

from fedplus._types import Host
from fedplus.data.files import search_path
from fedplus.data.files.formats import read_npz
from fedplus.data.files.source import DAMAGED
from fedplus.files import SHARED, write_atomically


def cached_arrays(name: str, build: Callable[[], dict[str, Host]]) -> dict[str, Host]:
    """The arrays of ``build()``, from the cache the second time.

    Args:
        name: Says what they were made from and how: another name, another cache.
        build: Reads the archive.
    """
    path = search_path.cache_folder() / "prepared" / f"{name}.npz"
    if path.is_file():
        with contextlib.suppress(*DAMAGED):  # Then it is made anew.
            return read_npz(path)
    arrays = build()
    path.parent.mkdir(parents=True, exist_ok=True)
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **arrays)
    write_atomically(path, content.getvalue(), SHARED)
    return arrays
