"""Programs that were compiled once, kept."""

import os
from typing import Any

import jax

from fedplus.data.files import place


def keep_compiled() -> None:
    """Keep compiled programs in the user's cache folder: a second run of a kind starts at once."""
    if not os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        update: Any = jax.config.update
        update("jax_compilation_cache_dir", str(place.cache() / "compiled"))
        update("jax_persistent_cache_min_compile_time_secs", 0.2)
