"""Build hook that compiles the optional C++ kernels of `csrc/kernels.cc`.

Hatchling runs it for every wheel, so `pip install`, `pip install -e .`, `python -m build` and
`make wheel` all compile. `make kernels` runs the hook alone. The libraries are
`fedplus/aggregation/_kernels.so` and, on x86-64, `_kernels_v3.so` (AVX2) and `_kernels_v4.so`
(AVX-512) from the same source; `kernels.py` loads the best one for the processor. They use no Python
API, so one wheel serves all Python versions.

Environment variables:
    FEDPLUS_KERNELS: `auto` (the default) installs without kernels if they cannot be compiled,
        `off` does not compile them, `require` makes a failure an error.
    CXX: The compiler command; by default the first of `c++`, `g++` and `clang++` on PATH.
"""

import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import platform_tags

PACKAGE = Path("fedplus", "aggregation")
LEVELS = {
    "_kernels.so": [],
    "_kernels_v3.so": ["-march=x86-64-v3"],
    "_kernels_v4.so": ["-march=x86-64-v4"],
}
"""Flags of each library's instruction set level. If the first cannot be compiled, none is installed."""
FLAGS = ["-std=c++17", "-O3", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread"]
# These flags allow vectorisation, and keep NaN and infinity correct.
FLAGS += ["-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math"]
CONSEQUENCE = (
    "installing without compiled kernels. Results are the same; aggregation on a CPU is slower."
)


class KernelsHook(BuildHookInterface[Any]):
    """Adds the compiled kernels to a wheel, or puts them next to the sources of an editable install."""

    def dependencies(self) -> list[str]:
        """Return further build requirements: jaxlib, for its headers, if there is a compiler."""
        return ["jaxlib>=0.10"] if kernels_mode() != "off" and find_compiler() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the kernels before the wheel is built.

        Args:
            version: `standard` for a wheel with the package, `editable` for a link to it.
            build_data: Hatchling's settings for this wheel; gets the libraries and the tag.
        """
        if version == "editable":
            try_compiling(Path(self.root), Path(self.root, "src", PACKAGE))
            return
        self.folder = tempfile.TemporaryDirectory(prefix="fedplus-kernels-")
        for library in try_compiling(Path(self.root), Path(self.folder.name)):
            build_data["force_include"][str(library)] = (PACKAGE / library.name).as_posix()
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform_tag()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Delete the temporary folder once the wheel is written."""
        if version != "editable":
            self.folder.cleanup()


def try_compiling(root: Path, folder: Path) -> list[Path]:
    """Compile the kernels into `folder`, or print one line that says why there are none.

    Returns:
        The libraries. Any others in `folder`, which are from older sources, are deleted.

    Raises:
        SystemExit: With FEDPLUS_KERNELS=require, if the kernels cannot be compiled.
    """
    mode = kernels_mode()
    with tempfile.TemporaryDirectory(prefix=".kernels-", dir=folder) as temporary:
        problem = None if mode == "off" else compile_kernels(root, Path(temporary))
        for name in reversed(LEVELS):  # `_kernels.so` comes last: `make` reads its time.
            compiled = Path(temporary, name)
            if compiled.exists() and not problem:
                compiled.replace(folder / name)
            else:
                (folder / name).unlink(missing_ok=True)
    if problem and mode == "require":
        sys.exit(f"fedplus: {problem}, and FEDPLUS_KERNELS=require needs compiled kernels.")
    if problem:
        print(f"fedplus: {problem}; {CONSEQUENCE}", file=sys.stderr)
    return [folder / name for name in LEVELS if (folder / name).exists()]


def compile_kernels(root: Path, folder: Path) -> str | None:
    """Compile all levels in parallel. Return a message if the first level fails, else None."""
    compiler = find_compiler()
    if not compiler:
        given = os.environ.get("CXX")
        return f"no C++ compiler found (CXX={given})" if given else "no C++ compiler found"
    jaxlib = importlib.util.find_spec("jaxlib")
    if not jaxlib or not jaxlib.submodule_search_locations:
        return "jaxlib, whose headers the kernels need, not found"
    # The same folder as jax.ffi.include_dir().
    headers = f"{jaxlib.submodule_search_locations[0]}/include"
    command = [*compiler, *FLAGS, "-isystem", headers, f"{root}/csrc/kernels.cc"]

    def compile_level(name: str) -> str | None:
        """Compile one library. Return the compiler's messages if it fails, else None."""
        options = [*LEVELS[name], "-o", str(folder / name)]
        done = subprocess.run([*command, *options], stderr=subprocess.PIPE, text=True)
        if done.returncode == 0:
            return None
        (folder / name).unlink(missing_ok=True)
        return done.stderr

    x86 = platform.machine().lower() in ("x86_64", "amd64")
    names = list(LEVELS) if x86 else list(LEVELS)[:1]
    with ThreadPoolExecutor() as pool:
        messages = zip(names, pool.map(compile_level, names), strict=True)
        failures = {name: text for name, text in messages if text is not None}
    command_name = shlex.join(compiler)
    if names[0] in failures:
        print(failures[names[0]], file=sys.stderr)
        return f"{command_name} could not compile csrc/kernels.cc"
    for name in failures:
        print(f"fedplus: {command_name} could not compile {name}; slower kernels are installed.")
    return None


def kernels_mode() -> str:
    """Return the value of FEDPLUS_KERNELS: `auto`, `off` or `require`."""
    mode = os.environ.get("FEDPLUS_KERNELS") or "auto"
    if mode not in ("auto", "off", "require"):
        sys.exit(f"fedplus: FEDPLUS_KERNELS must be auto, off or require, got {mode!r}.")
    return mode


def find_compiler() -> list[str] | None:
    """Return the command of the C++ compiler, or None if there is none."""
    names = [os.environ["CXX"]] if os.environ.get("CXX") else ["c++", "g++", "clang++"]
    commands = (shlex.split(name) for name in names)
    return next((command for command in commands if shutil.which(command[0])), None)


def platform_tag() -> str:
    """Return this platform's wheel tag: `linux_*` on Linux, where auditwheel finds manylinux."""
    return next(tag for tag in platform_tags() if not tag.startswith(("manylinux", "musllinux")))
