"""What took long to extract from a large archive is kept beside the downloads."""

import contextlib
import io
from collections.abc import Callable

import numpy as np

from fedplus._types import Host
from fedplus._write import SHARED, write_atomically
from fedplus.data.files import place
from fedplus.data.files.file import DAMAGED
from fedplus.data.files.formats import npz


def prepared(name: str, build: Callable[[], dict[str, Host]]) -> dict[str, Host]:
    """The arrays of ``build()``, from the cache the second time.

    Args:
        name: Says what they were made from and how: another name, another cache.
        build: Reads the archive.
    """
    path = place.cache() / "prepared" / f"{name}.npz"
    if path.is_file():
        with contextlib.suppress(*DAMAGED):  # Then it is made anew.
            return npz(path)
    arrays = build()
    path.parent.mkdir(parents=True, exist_ok=True)
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **arrays)
    write_atomically(path, content.getvalue(), SHARED)
    return arrays
