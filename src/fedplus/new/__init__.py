"""A new app: server, party, certificates, a test, to run in process, simulated and deployed.

The templates are real code, of a package called ``fedapp``: ``common``, and one folder a framework.
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
"""Names of the template's own files, and of what Flower leaves out of an app."""


class Framework(NamedTuple):
    """What a party trains with."""

    title: str
    dependencies: tuple[str, ...]


FRAMEWORKS: Mapping[str, Framework] = {
    "torch": Framework("PyTorch", ("fedplus[flower,torch]",)),
    "jax": Framework("JAX and Equinox", ("fedplus[flower,equinox]",)),
    "numpy": Framework("NumPy", ("fedplus[flower]",)),
}


def write_app(folder: Path, framework: str) -> str:
    """Write a new app; the name of its package, which is the folder's.

    Raises:
        SettingError: The framework is not known, the folder is there, or its name is no package's.
    """
    chosen = lookup(framework, FRAMEWORKS, "framework")
    package = folder.name.replace("-", "_").lower()
    require(not folder.exists(), "name", f"{folder}, which is there", "that of a new folder")
    require(
        re.fullmatch("[a-z][a-z0-9_]{0,31}", package) is not None, "name", repr(folder.name),
        "at most 32 letters, digits, - and _, a letter first",
    )  # fmt: skip
    taken = (
        package in RESERVED
        or keyword.iskeyword(package)
        or package in sys.stdlib_module_names
        or importlib.util.find_spec(package) is not None
    )
    require(
        not taken,
        "name",
        repr(folder.name),
        "one that Python, its packages, Flower and the app itself do not use",
    )
    words = {
        "fed-app": package.replace("_", "-"), PACKAGE: package, "FRAMEWORK": chosen.title,
        '"DEPENDENCIES"': ", ".join(f'"{one}"' for one in chosen.dependencies),
    }  # fmt: skip
    folder.parent.mkdir(parents=True, exist_ok=True)
    write_folder_atomically(folder, _files(framework, words), SHARED)
    return package


def _files(framework: str, words: Mapping[str, str]) -> list[tuple[str, bytes]]:
    every = re.compile("|".join(map(re.escape, words)))

    def said(text: str) -> str:
        return every.sub(lambda found: words[found.group()], text)

    found = []
    for top in (TEMPLATES / "common", TEMPLATES / framework):
        for path in sorted(p for p in top.rglob("*") if p.is_file() and p.suffix != ".pyc"):
            text = path.read_text(encoding="utf-8")
            found.append((said(path.relative_to(top).as_posix()), said(text).encode()))
    return found
