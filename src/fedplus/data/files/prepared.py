"""What took long to extract from a large archive is kept beside the downloads."""

import contextlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fedplus.data.files import place
from fedplus.data.files.file import DAMAGED
from fedplus.data.files.formats import npz
from fedplus.data.split import Host


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
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as out:
        try:
            np.savez(out, allow_pickle=False, **arrays)
            out.flush()
            os.fsync(out.fileno())
            Path(out.name).replace(path)
        except BaseException:
            Path(out.name).unlink()
            raise
    return arrays
