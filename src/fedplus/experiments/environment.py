"""Where a run was made: versions, device, commit."""

import functools
import importlib.metadata
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax

PACKAGES = ("fedplus", "jax", "jaxlib", "numpy", "optax", "scikit-learn")


@functools.cache
def describe_environment() -> dict[str, Any]:
    """For ``env.json``."""
    device = jax.devices()[0]
    return {
        "commit": commit(Path(__file__).parents[1]),
        "python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
        "device": f"{device.platform}: {device.device_kind}",
        "devices": len(jax.devices()),
        "float64": jax.dtypes.canonicalize_dtype(float).itemsize == 8,
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
    }


def _version(package: str) -> str | None:
    """Of what is installed; a source tree that is not has none."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def commit(folder: Path) -> str | None:
    """Of the code, if it runs from a git checkout; with "+" if files were changed since."""
    try:
        if not _git(folder, "ls-files", "__init__.py"):
            return None  # Installed somewhere inside of somebody else's checkout.
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", ".")
        return _git(folder, "rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *arguments: str) -> str:
    asked = ["git", "-C", str(folder), *arguments]
    return subprocess.run(
        asked, capture_output=True, text=True, timeout=10, check=True
    ).stdout.strip()
