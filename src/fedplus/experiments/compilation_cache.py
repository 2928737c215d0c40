"""Programs that were compiled once: kept for the next process, forgotten before they are too many."""

import gc
import os
from pathlib import Path
from typing import Any

import jax

from fedplus.data.files import search_path

MAPS = Path("/proc/self/maps")
MOST_MAPS = Path("/proc/sys/vm/max_map_count")


def enable_compilation_cache() -> None:
    """Keep compiled programs in the user's cache folder: a second run of a kind starts at once."""
    if not os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        update: Any = jax.config.update
        update("jax_compilation_cache_dir", str(search_path.cache_folder() / "compiled"))
        update("jax_persistent_cache_min_compile_time_secs", 0.2)


def limit_compiled_programs(share: float = 0.5) -> None:
    """Let go of this process's programs once they take up this share of the maps that it may have.

    Each program maps memory, hundreds of pieces; Linux allows a process 65,530, and XLA ends the
    process that has no more. A process that trains one method after the other gets there.
    """
    known = MAPS.exists() and MOST_MAPS.exists()
    if known and len(MAPS.read_bytes().splitlines()) > share * int(MOST_MAPS.read_text()):
        jax.clear_caches()  # type: ignore[no-untyped-call]
        gc.collect()
