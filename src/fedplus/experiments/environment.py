"""Describes the software and the machine of a run, for ``env.json``."""

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
    """Return the versions, the device, the git commit and the command, as ``env.json`` has them."""
    device = jax.devices()[0]
    return {
        "commit": find_commit(Path(__file__).parents[1]),
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
    """Return the version of an installed package, or None."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def find_commit(folder: Path) -> str | None:
    """Return the git commit of the code in a folder, with "+" if tracked files have changed.

    Returns None if the folder is not part of a git checkout.
    """
    try:
        if not _git(folder, "ls-files", "__init__.py"):
            return None  # The code is installed inside another project's checkout.
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", ".")
        return _git(folder, "rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=10, check=True
    ).stdout.strip()
