"""The built wheel and sdist: tags, contents, and installations with and without a C++ compiler.

The real backend builds everything and pip installs it into new environments, without a network.
`make wheel` sets FEDPLUS_DIST to its folder, and the same tests check the files in it.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from ast import literal_eval
from pathlib import Path

import pytest
from packaging.tags import Tag, platform_tags
from packaging.utils import parse_wheel_filename

ROOT = Path(__file__).parents[2]
LIBRARY = "fedplus/aggregation/_kernels.so"
NO_COMPILER = (
    "fedplus: no C++ compiler found; installing without compiled kernels. "
    "Results are the same; aggregation on a CPU is slower."
)

# Calls a kernel of the installed library as NumPy arrays do, through ctypes. It runs in any Python.
CALL_BY_CTYPES = f"""
import ctypes, sysconfig
library = ctypes.CDLL(sysconfig.get_path("platlib") + "/{LIBRARY}")
library.fedplus_sum_f64.restype = ctypes.c_double
print(library.fedplus_sum_f64((ctypes.c_double * 3)(1, 2, 4), ctypes.c_int64(3)))
"""
# The same kernel as XLA calls it.
CALL_BY_XLA = f"""
import ctypes, sysconfig
import jax, numpy as np
library = ctypes.CDLL(sysconfig.get_path("platlib") + "/{LIBRARY}")
jax.ffi.register_ffi_target("fedplus_sum", jax.ffi.pycapsule(library.fedplus_sum), platform="cpu")
call = jax.ffi.ffi_call("fedplus_sum", jax.ShapeDtypeStruct((), np.float32))
print(jax.jit(call)(np.float32([1, 2, 4])))
"""
# Aggregates with the installed package, and tells where it is.
AGGREGATE = """
import numpy as np
import fedplus as fp
print(fp.__file__)
print(fp.Mean()(np.array([[1.0], [2.0], [6.0]])).w.tolist())
"""


def run(*command, path=None, kernels="", cxx="", cwd=ROOT):
    """Runs a command with the given PATH, FEDPLUS_KERNELS and CXX, and without a network."""
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "PYTHONPATH")}
    environment |= {
        "PIP_NO_INDEX": "1",
        "JAX_PLATFORMS": "cpu",
        "PATH": str(path or os.environ["PATH"]),
    }
    environment |= {"FEDPLUS_KERNELS": kernels, "CXX": cxx}
    words = [str(part) for part in command]
    options = {"capture_output": True, "text": True, "timeout": 300}
    return subprocess.run(words, env=environment, cwd=cwd, **options)


def succeed(*command, **settings):
    """Runs a command that must succeed, and returns its standard output."""
    done = run(*command, **settings)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build_wheel(source, folder, **settings):
    """Builds a wheel with pip; `-v` shows what the build hook prints."""
    build = [sys.executable, "-m", "pip", "wheel", "-v", "--no-build-isolation", "--no-deps"]
    return run(*build, "--wheel-dir", folder, source, **settings)


def only(folder, pattern):
    """Returns the single file in a folder that matches a pattern."""
    (found,) = Path(folder).glob(pattern)
    return found


def new_environment(folder, python=sys.executable):
    """Creates a virtual environment that can import the packages of this one, but not fedplus.

    A .pth file adds folders without reading their .pth files, so an editable fedplus is not found.
    """
    succeed(python, "-m", "venv", "--without-pip", folder)
    if python == sys.executable:
        packages = [entry for entry in sys.path if entry.endswith("site-packages")]
        site = only(folder, "lib/python*/site-packages")
        (site / "packages_of_the_tests.pth").write_text("\n".join(packages))
    return folder / "bin" / "python"


def install(python, package, *options, **settings):
    """Installs a wheel or an sdist, without dependencies, for another interpreter."""
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", *options]
    succeed(*pip, package, **settings)


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """A folder with the wheel and the sdist of this checkout."""
    if os.environ.get("FEDPLUS_DIST"):
        return ROOT / os.environ["FEDPLUS_DIST"]
    folder = tmp_path_factory.mktemp("dist")
    built = build_wheel(ROOT, folder, kernels="require")
    assert built.returncode == 0, built.stdout + built.stderr
    succeed(sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", folder)
    return folder


@pytest.fixture
def no_compiler(tmp_path):
    """A PATH on which there is nothing."""
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


@pytest.fixture
def checkout(tmp_path):
    """A copy of what the build needs, with a tiny kernel and a library from older sources."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in ("pyproject.toml", "hatch_build.py", "constraints.txt", "Makefile", "README.md"):
        shutil.copy(ROOT / name, folder)
    package = folder / "src" / "fedplus"
    (package / "aggregation").mkdir(parents=True)
    shutil.copy(ROOT / "src" / "fedplus" / "__init__.py", package)
    (folder / "csrc").mkdir()
    (folder / "csrc" / "kernels.cc").write_text('extern "C" int answer() { return 42; }\n')
    (folder / "src" / LIBRARY).write_text("a library from older sources")
    return folder


def run_hook(checkout, **settings):
    """Runs the build hook alone, as `make kernels` does."""
    target = ["--target", "wheel:editable", "--hooks-only"]
    return run(sys.executable, "-m", "hatchling", "build", *target, cwd=checkout, **settings)


def test_wheel_serves_all_python_versions_of_one_platform(dist):
    wheel = only(dist, "*.whl")
    (tag,) = parse_wheel_filename(wheel.name)[3]
    assert tag in {Tag("py3", "none", platform) for platform in platform_tags()}
    with zipfile.ZipFile(wheel) as archive:
        assert LIBRARY in archive.namelist()
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/WHEEL"))
        assert "Root-Is-Purelib: false" in archive.read(metadata).decode()


def test_sdist_has_the_sources_of_the_kernels_and_no_library(dist):
    with tarfile.open(only(dist, "*.tar.gz")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"csrc/kernels.cc", "hatch_build.py", "pyproject.toml"} <= names
    assert not [name for name in names if name.endswith(".so")]


def test_wheel_works_without_a_compiler(dist, tmp_path, no_compiler):
    python = new_environment(tmp_path / "environment")
    install(python, only(dist, "*.whl"), path=no_compiler)
    assert succeed(python, "-c", CALL_BY_CTYPES, path=no_compiler).strip() == "7.0"
    assert succeed(python, "-c", CALL_BY_XLA, path=no_compiler).strip() == "7.0"
    file, mean = succeed(python, "-c", AGGREGATE, path=no_compiler).splitlines()
    assert Path(file).is_relative_to(tmp_path)
    assert mean == "[3.0]"


def other_pythons():
    """Interpreters of other versions that work; a shim of pyenv may not."""
    folders = [*os.environ["PATH"].split(os.pathsep), *Path.home().glob(".pyenv/versions/*/bin")]
    found = {}
    for minor in {*range(11, 20)} - {sys.version_info.minor}:
        for python in (Path(folder, f"python3.{minor}") for folder in folders):
            if python.exists() and run(python, "-c", "").returncode == 0:
                found[minor] = python
    return found


def test_wheel_serves_other_python_versions(dist, tmp_path, no_compiler):
    for minor, python in (other_pythons() or {"same": sys.executable}).items():
        environment = new_environment(tmp_path / f"{minor}", python)
        install(environment, only(dist, "*.whl"), path=no_compiler)
        assert succeed(environment, "-c", CALL_BY_CTYPES, path=no_compiler).strip() == "7.0", python


def test_install_from_sdist(dist, tmp_path):
    python = new_environment(tmp_path / "environment")
    install(python, only(dist, "*.tar.gz"), "--no-build-isolation", kernels="require")
    assert succeed(python, "-c", CALL_BY_CTYPES).strip() == "7.0"


def test_without_a_compiler_the_wheel_is_pure_python(tmp_path, no_compiler):
    built = build_wheel(ROOT, tmp_path, path=no_compiler)
    assert built.returncode == 0, built.stdout + built.stderr
    assert (built.stdout + built.stderr).count(NO_COMPILER) == 1
    wheel = only(tmp_path, "*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    python = new_environment(tmp_path / "environment")
    install(python, wheel)
    assert not list((tmp_path / "environment").rglob("_kernels.so"))
    assert succeed(python, "-c", AGGREGATE).splitlines()[1] == "[3.0]"


def test_required_kernels_without_a_compiler_are_an_error(tmp_path, no_compiler):
    built = build_wheel(ROOT, tmp_path, path=no_compiler, kernels="require")
    assert built.returncode != 0
    line = "fedplus: no C++ compiler found, and FEDPLUS_KERNELS=require needs compiled kernels."
    assert (built.stdout + built.stderr).count(line) == 1
    assert "Traceback" not in built.stdout + built.stderr
    assert not list(tmp_path.glob("*.whl"))


@pytest.mark.parametrize(("kernels", "headers"), [("auto", ["jaxlib>=0.10"]), ("off", [])])
def test_isolated_builds_install_jaxlib_only_to_compile(kernels, headers, no_compiler):
    asked = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--show-dynamic-deps"]
    assert literal_eval(succeed(*asked, kernels=kernels)) == headers
    assert literal_eval(succeed(*asked, kernels=kernels, path=no_compiler)) == []


def test_editable_install_replaces_the_library(checkout):
    done = run_hook(checkout)
    assert done.returncode == 0, done.stderr
    library = checkout / "src" / LIBRARY
    assert library.read_bytes().startswith(b"\x7fELF" if sys.platform == "linux" else b"")
    assert [file.name for file in library.parent.iterdir()] == ["_kernels.so"]


@pytest.mark.parametrize("kernels", ["auto", "off", "require"])
def test_no_library_from_older_sources_stays(checkout, kernels):
    (checkout / "csrc" / "kernels.cc").write_text("This is not C++.\n")
    done = run_hook(checkout, kernels=kernels)
    assert (done.returncode == 0) == (kernels != "require"), done.stderr
    problem = "could not compile csrc/kernels.cc"
    error = f"{problem}, and FEDPLUS_KERNELS=require needs compiled kernels."
    notice = f"{problem}; installing without compiled kernels."
    assert (error in done.stderr, notice in done.stderr) == (
        kernels == "require",
        kernels == "auto",
    )
    assert not list((checkout / "src" / LIBRARY).parent.iterdir())


def test_unknown_mode_is_rejected(checkout):
    done = run_hook(checkout, kernels="on")
    assert done.returncode != 0
    line = "fedplus: FEDPLUS_KERNELS must be auto, off or require, got 'on'."
    assert line in done.stderr.splitlines()


def test_missing_cxx_is_named(checkout):
    done = run_hook(checkout, cxx="no-such-compiler -x")
    assert done.returncode == 0
    line = "fedplus: no C++ compiler found (CXX=no-such-compiler -x); installing without"
    assert line in done.stderr


def test_make_compiles_changed_kernels_only(checkout, tmp_path):
    new_environment(tmp_path / "environment")
    for name in (".ready", ".ready-dev"):
        (tmp_path / "environment" / name).touch()
    make = ["make", "kernels", f"VENV={tmp_path / 'environment'}"]
    library, source = checkout / "src" / LIBRARY, checkout / "csrc" / "kernels.cc"
    os.utime(library, (0, 0))
    succeed(*make, cwd=checkout)
    first = library.stat().st_mtime_ns
    succeed(*make, cwd=checkout)
    assert library.stat().st_mtime_ns == first
    source.write_text("This is not C++.\n")
    os.utime(source, ns=(first + 10**9, first + 10**9))
    done = run(*make, cwd=checkout)
    assert done.returncode != 0
    assert "could not compile csrc/kernels.cc" in done.stderr
