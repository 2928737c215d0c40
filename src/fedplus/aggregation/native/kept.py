"""Where loops are kept, once they are compiled, for the next process."""

import os
from functools import cache
from pathlib import Path
from zlib import crc32


@cache
def folder() -> Path:
    """For what these files become: another one whenever one of them changes.

    Numba itself looks at the file of the function alone, not at those of the functions that it calls.
    """
    here = Path(__file__).parent
    files = sorted(
        [*here.glob("*.py"), *here.parent.glob("*.py")]
    )  # Which have some of the numbers.
    made_of = crc32(b"".join(file.read_bytes() for file in files))
    home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(os.environ.get("NUMBA_CACHE_DIR") or Path(home, "fedplus")) / f"loops-{made_of:08x}"
