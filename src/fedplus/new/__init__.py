"""Writes a new Flower app, which can run in process, in Flower's simulation, and deployed.

The templates are working code of a package called ``fedapp``: the folder ``common``, and one folder per
framework.
"""

import importlib.util
import keyword
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from fedplus.check import lookup, require
from fedplus.files import SHARED, write_folder_atomically

TEMPLATES = Path(__file__).parent / "templates"
PACKAGE = "fedapp"
RESERVED = (
    "build", "certificates", "deploy", "deployment", "dist", "env", "lib", "parts", "runs", "services",
    "tests", "venv",
)  # fmt: skip
"""Names that the templates use themselves, or that Flower leaves out of an app."""


class Framework(NamedTuple):
    """A framework with which parties can train."""

    title: str
    dependencies: tuple[str, ...]


FRAMEWORKS: Mapping[str, Framework] = {
    "torch": Framework("PyTorch", ("fedplus[flower,torch]",)),
    "jax": Framework("JAX and Equinox", ("fedplus[flower,equinox]",)),
    "numpy": Framework("NumPy", ("fedplus[flower]",)),
}


def write_app(folder: Path, framework: str) -> str:
    """Write a new app and return the name of its package.

    Args:
        folder: The folder to write. The package is named after it, with ``_`` for ``-``.
        framework: A key of ``FRAMEWORKS``.

    Raises:
        SettingError: The framework is unknown, the folder exists, or its name cannot be a package's.
    """
    chosen = lookup(framework, FRAMEWORKS, "framework")
    package = folder.name.replace("-", "_").lower()
    require(not folder.exists(), "FOLDER", f"{folder}, which exists", "a new folder")
    require(
        re.fullmatch("[a-z][a-z0-9_]{0,31}", package) is not None, "name", repr(folder.name),
        "at most 32 letters, digits, - and _, a letter first",
    )  # fmt: skip
    is_taken = (
        package in RESERVED
        or keyword.iskeyword(package)
        or package in sys.stdlib_module_names
        or importlib.util.find_spec(package) is not None
    )
    allowed = "one that Python, its packages, Flower and the app itself do not use"
    require(not is_taken, "name", repr(folder.name), allowed)
    replacements = {
        "fed-app": package.replace("_", "-"), PACKAGE: package, "FRAMEWORK": chosen.title,
        '"DEPENDENCIES"': ", ".join(f'"{name}"' for name in chosen.dependencies),
    }  # fmt: skip
    folder.parent.mkdir(parents=True, exist_ok=True)
    write_folder_atomically(folder, _fill_templates(framework, replacements), SHARED)
    return package


def _fill_templates(framework: str, replacements: Mapping[str, str]) -> list[tuple[str, bytes]]:
    """Return the path and content of each file of an app."""
    placeholder = re.compile("|".join(map(re.escape, replacements)))

    def fill(text: str) -> str:
        return placeholder.sub(lambda match: replacements[match.group()], text)

    files = []
    for top in (TEMPLATES / "common", TEMPLATES / framework):
        for path in sorted(p for p in top.rglob("*") if p.is_file() and p.suffix != ".pyc"):
            content = fill(path.read_text(encoding="utf-8")).encode()
            files.append((fill(path.relative_to(top).as_posix()), content))
    return files
