"""Build hook that compiles the optional C++ kernels of `csrc/kernels.cc`.

Hatchling runs it for every wheel, so `pip install`, `pip install -e .`, `python -m build` and
`make wheel` all compile. `make kernels` runs the hook alone. The library is
`fedplus/aggregation/_kernels.so`. It uses no Python API, so one wheel serves all Python versions.

Environment variables:
    FEDPLUS_KERNELS: `auto` (the default) installs without kernels if they cannot be compiled,
        `off` does not compile them, `require` makes a failure an error.
    CXX: The compiler command; by default the first of `c++`, `g++` and `clang++` on PATH.
"""

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import platform_tags

LIBRARY = Path("fedplus", "aggregation", "_kernels.so")
FLAGS = ["-std=c++17", "-O3", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread"]
CONSEQUENCE = (
    "installing without compiled kernels. Results are the same; aggregation on a CPU is slower."
)


class KernelsHook(BuildHookInterface[Any]):
    """Adds the compiled kernels to a wheel, or puts them beside the sources of an editable install."""

    def dependencies(self) -> list[str]:
        """Returns further build requirements: jaxlib, for its headers, if there is a compiler."""
        return ["jaxlib>=0.10"] if kernels_mode() != "off" and find_compiler() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compiles the kernels before the wheel is built.

        Args:
            version: `standard` for a wheel with the package, `editable` for a link to it.
            build_data: Hatchling's settings for this wheel; gets the library and the tag.
        """
        if version == "editable":
            try_compiling(Path(self.root), Path(self.root, "src", LIBRARY))
            return
        self.folder = tempfile.TemporaryDirectory(prefix="fedplus-kernels-")
        library = Path(self.folder.name, LIBRARY.name)
        if try_compiling(Path(self.root), library):
            build_data["force_include"][str(library)] = LIBRARY.as_posix()
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform_tag()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Deletes the temporary folder once the wheel is written."""
        if version != "editable":
            self.folder.cleanup()


def try_compiling(root: Path, library: Path) -> bool:
    """Compiles the kernels into `library`, or prints one line that says why there are none.

    Returns:
        Whether there are kernels. If not, `library` does not exist: one from older sources is deleted.

    Raises:
        SystemExit: With FEDPLUS_KERNELS=require, if the kernels cannot be compiled.
    """
    mode = kernels_mode()
    library.unlink(missing_ok=True)
    problem = None if mode == "off" else compile_kernels(root, library)
    if problem and mode == "require":
        sys.exit(f"fedplus: {problem}, and FEDPLUS_KERNELS=require needs compiled kernels.")
    if problem:
        print(f"fedplus: {problem}; {CONSEQUENCE}", file=sys.stderr)
    return library.exists()


def compile_kernels(root: Path, library: Path) -> str | None:
    """Compiles into a temporary file and renames it. Returns what went wrong, or None."""
    compiler = find_compiler()
    if not compiler:
        given = os.environ.get("CXX")
        return f"no C++ compiler found (CXX={given})" if given else "no C++ compiler found"
    jaxlib = importlib.util.find_spec("jaxlib")
    if not jaxlib or not jaxlib.submodule_search_locations:
        return "jaxlib, whose headers the kernels need, not found"
    headers = f"{jaxlib.submodule_search_locations[0]}/include"  # As jax.ffi.include_dir().
    source = f"{root}/csrc/kernels.cc"
    partial = library.with_name(f".{library.name}.{os.getpid()}")
    try:
        command = [*compiler, *FLAGS, "-isystem", headers, source, "-o", str(partial)]
        if subprocess.run(command).returncode != 0:
            return f"{shlex.join(compiler)} could not compile csrc/kernels.cc"
        partial.replace(library)
    finally:
        partial.unlink(missing_ok=True)
    return None


def kernels_mode() -> str:
    """Returns the value of FEDPLUS_KERNELS: `auto`, `off` or `require`."""
    mode = os.environ.get("FEDPLUS_KERNELS") or "auto"
    if mode not in ("auto", "off", "require"):
        sys.exit(f"fedplus: FEDPLUS_KERNELS must be auto, off or require, got {mode!r}.")
    return mode


def find_compiler() -> list[str] | None:
    """Returns the command of the C++ compiler, or None if there is none."""
    names = [os.environ["CXX"]] if os.environ.get("CXX") else ["c++", "g++", "clang++"]
    commands = (shlex.split(name) for name in names)
    return next((command for command in commands if shutil.which(command[0])), None)


def platform_tag() -> str:
    """Returns this platform's wheel tag: `linux_*` on Linux, where auditwheel finds manylinux."""
    return next(tag for tag in platform_tags() if not tag.startswith(("manylinux", "musllinux")))
