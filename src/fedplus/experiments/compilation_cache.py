"""Keeps compiled JAX programs on disk for the next process, and limits their number in this one."""

import gc
import os
from pathlib import Path
from typing import Any

import jax

from fedplus.data.files import search_path

MAPS = Path("/proc/self/maps")
MAX_MAPS = Path("/proc/sys/vm/max_map_count")


def enable_compilation_cache() -> None:
    """Store compiled programs in the user's cache folder, so that a similar run starts faster.

    ``JAX_COMPILATION_CACHE_DIR`` takes precedence if it is set.
    """
    if not os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        update: Any = jax.config.update
        update("jax_compilation_cache_dir", str(search_path.cache_folder() / "compiled"))
        update("jax_persistent_cache_min_compile_time_secs", 0.2)


def limit_compiled_programs(share: float = 0.5) -> None:
    """Clear JAX's caches if compiled programs use more than this share of the allowed memory maps.

    Each compiled program creates hundreds of memory maps. Linux allows 65,530 per process, and XLA
    aborts the process beyond that. A process that trains many methods reaches this limit.

    Args:
        share: The allowed share of the limit of Linux; other systems are not checked.
    """
    is_linux = MAPS.exists() and MAX_MAPS.exists()
    if is_linux and len(MAPS.read_bytes().splitlines()) > share * int(MAX_MAPS.read_text()):
        jax.clear_caches()  # type: ignore[no-untyped-call]
        gc.collect()
