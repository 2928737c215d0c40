"""The wheel and the sdist: tags, contents, and installation with and without a C++ compiler.

The real build backend builds them, and pip installs them into new environments, without a network.
`make wheel` sets FEDPLUS_DIST to its folder, so that the same tests check the files in it.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import zipfile
from ast import literal_eval
from pathlib import Path

import numpy as np
import pytest
from packaging.tags import Tag, platform_tags
from packaging.utils import parse_wheel_filename

import fedplus

pytestmark = pytest.mark.xdist_group("packaging")  # One worker builds the wheel, for all tests.

ROOT = Path(__file__).parents[2]
PACKAGE = "fedplus/aggregation"
LIBRARIES = ["_kernels.so"]
if platform.machine().lower() in ("x86_64", "amd64"):
    LIBRARIES += ["_kernels_v3.so", "_kernels_v4.so"]
NO_COMPILER = (
    "fedplus: no C++ compiler found; installing without compiled kernels. "
    "Results are the same; aggregation on a CPU is slower."
)
SUITE = "tests/aggregation/test_convergence.py"
"""The part of the suite that runs in an environment installed without a compiler."""

# Loads the installed libraries that this processor can run, without JAX. It runs in any Python.
LOAD = f"""
import ctypes, sysconfig
folder = sysconfig.get_path("platlib") + "/{PACKAGE}/"
level = ctypes.CDLL(folder + "_kernels.so").fedplus_level()
for name in {LIBRARIES[1:]}:
    if int(name[-4]) <= level:
        assert ctypes.CDLL(folder + name).fedplus_level() == level
print(level)
"""


def run(*command, path=None, kernels="auto", cxx="", cwd=ROOT):
    """Run a command with the given PATH, FEDPLUS_KERNELS and CXX, and without a network."""
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "PYTHONPATH")}
    environment |= {
        "PIP_NO_INDEX": "1",
        "JAX_PLATFORMS": "cpu",
        "PATH": str(path or os.environ["PATH"]),
    }
    environment |= {"FEDPLUS_KERNELS": kernels, "CXX": cxx}
    arguments = [str(part) for part in command]
    options = {"capture_output": True, "text": True, "timeout": 300}
    return subprocess.run(arguments, env=environment, cwd=cwd, **options)


def succeed(*command, **settings):
    """Run a command that must succeed, and return its standard output."""
    done = run(*command, **settings)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build_wheel(source, folder, **settings):
    """Build a wheel with pip; `-v` shows the output of the build hook."""
    build = [sys.executable, "-m", "pip", "wheel", "-v", "--no-build-isolation", "--no-deps"]
    return run(*build, "--wheel-dir", folder, source, **settings)


def aggregate(python, **settings):
    """Run print_aggregates.py in an environment, and return its results."""
    report = json.loads(
        succeed(python, ROOT / "tests" / "packaging" / "print_aggregates.py", **settings)
    )
    assert Path(report["file"]).is_relative_to(Path(python).parents[1])
    assert report["warnings"] == []
    return report


def only(folder, pattern):
    """Return the single file in a folder that matches a pattern."""
    (found,) = Path(folder).glob(pattern)
    return found


def new_environment(folder, python=sys.executable):
    """Create a virtual environment that can import the packages of this one, but not fedplus.

    A .pth file adds folders without reading their .pth files, so an editable fedplus is not found.
    """
    succeed(python, "-m", "venv", "--without-pip", folder)
    if python == sys.executable:
        packages = [entry for entry in sys.path if entry.endswith("site-packages")]
        site = only(folder, "lib/python*/site-packages")
        (site / "packages_of_the_tests.pth").write_text("\n".join(packages))
    return folder / "bin" / "python"


def install(python, package, *options, **settings):
    """Install a wheel or an sdist, without dependencies, for another interpreter."""
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", *options]
    succeed(*pip, package, **settings)


@pytest.fixture(scope="module")
def compiler():
    """Skip tests that compile if there is no compiler; in CI that is an error."""
    found = os.environ.get("CXX") or any(map(shutil.which, ("c++", "g++", "clang++")))
    if not found and os.environ.get("FEDPLUS_KERNELS") != "require":
        pytest.skip("no C++ compiler")


@pytest.fixture(scope="module")
def dist(tmp_path_factory, compiler):
    """Return a folder with the sdist of this checkout and the wheel built from it."""
    if os.environ.get("FEDPLUS_DIST"):
        return ROOT / os.environ["FEDPLUS_DIST"]
    folder = tmp_path_factory.mktemp("dist")
    succeed(sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", folder)
    built = build_wheel(only(folder, "*.tar.gz"), folder, kernels="require")
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.fixture(scope="module")
def no_compiler(tmp_path_factory):
    """Return a PATH without any program."""
    return tmp_path_factory.mktemp("empty")


@pytest.fixture(scope="module")
def installed(dist, tmp_path_factory, no_compiler):
    """Return the Python of an environment in which the wheel was installed without a compiler."""
    python = new_environment(tmp_path_factory.mktemp("installed") / "environment")
    install(python, only(dist, "*.whl"), path=no_compiler)
    return python


@pytest.fixture
def checkout(tmp_path, compiler):
    """Return a copy of the build's inputs, with a tiny kernel and libraries from older sources."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in ("pyproject.toml", "hatch_build.py", "constraints.txt", "Makefile", "README.md"):
        shutil.copy(ROOT / name, folder)
    package = folder / "src" / "fedplus"
    (package / "aggregation").mkdir(parents=True)
    shutil.copy(ROOT / "src" / "fedplus" / "__init__.py", package)
    (folder / "csrc").mkdir()
    (folder / "csrc" / "kernels.cc").write_text('extern "C" int answer() { return 42; }\n')
    for name in LIBRARIES:
        (package / "aggregation" / name).write_text("a library from older sources")
    return folder


def run_hook(checkout, **settings):
    """Run the build hook alone, as `make kernels` does."""
    target = ["--target", "wheel:editable", "--hooks-only"]
    return run(sys.executable, "-m", "hatchling", "build", *target, cwd=checkout, **settings)


def test_one_wheel_is_for_all_python_versions_of_a_platform(dist):
    wheel = only(dist, "*.whl")
    (tag,) = parse_wheel_filename(wheel.name)[3]
    assert tag in {Tag("py3", "none", platform) for platform in platform_tags()}
    with zipfile.ZipFile(wheel) as archive:
        expected = {f"{PACKAGE}/{name}" for name in LIBRARIES} | {"fedplus/py.typed"}
        assert expected <= set(archive.namelist())
        top = {name.partition("/")[0] for name in archive.namelist()}
        assert {name for name in top if not name.endswith(".dist-info")} == {
            "fedplus"
        }  # No papers/.
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/WHEEL"))
        assert "Root-Is-Purelib: false" in archive.read(metadata).decode()


def test_the_sdist_contains_what_a_checkout_needs_and_no_library(dist):
    with tarfile.open(only(dist, "*.tar.gz")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"csrc/kernels.cc", "hatch_build.py", "pyproject.toml"} <= names
    assert {"CITATION.cff", "CONTRIBUTING.md", "Makefile", "constraints.txt"} <= names
    assert not [name for name in names if name.endswith(".so")]


def test_the_citation_has_the_version_of_the_package():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8").splitlines()
    assert f"version: {fedplus.__version__}" in citation


def test_the_wheel_works_without_a_compiler(installed, no_compiler):
    with_kernels = aggregate(installed, path=no_compiler, kernels="require")
    without = aggregate(installed, path=no_compiler, kernels="off")
    assert (with_kernels["kernels"], without["kernels"]) == (True, False)
    assert np.allclose(with_kernels["w"], without["w"], rtol=1e-5, atol=1e-6)


def test_an_unknown_kernel_mode_is_rejected_when_aggregating(installed):
    done = run(installed, ROOT / "tests" / "packaging" / "print_aggregates.py", kernels="on")
    assert done.returncode != 0
    error = done.stderr.splitlines()[-1]
    assert "SettingError" in error
    assert all(word in error for word in ("FEDPLUS_KERNELS", "on", "auto, off or require"))


def other_pythons():
    """Return working interpreters of other Python versions; a pyenv shim may not work."""
    folders = [*os.environ["PATH"].split(os.pathsep), *Path.home().glob(".pyenv/versions/*/bin")]
    found = {}
    for minor in {*range(11, 20)} - {sys.version_info.minor}:
        for python in (Path(folder, f"python3.{minor}") for folder in folders):
            if python.exists() and run(python, "-c", "").returncode == 0:
                found[minor] = python
    return found


def test_the_wheel_works_with_other_python_versions(dist, tmp_path, no_compiler):
    for minor, python in (other_pythons() or {"same": sys.executable}).items():
        environment = new_environment(tmp_path / f"{minor}", python)
        install(environment, only(dist, "*.whl"), path=no_compiler)
        level = succeed(environment, "-c", LOAD, path=no_compiler).strip()
        assert level in ("1", "3", "4"), python


def test_the_sdist_installs_and_works_without_a_compiler(dist, installed, tmp_path, no_compiler):
    built = build_wheel(only(dist, "*.tar.gz"), tmp_path, path=no_compiler)
    assert built.returncode == 0, built.stdout + built.stderr
    assert (built.stdout + built.stderr).count(NO_COMPILER) == 1
    wheel = only(tmp_path, "*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    python = new_environment(tmp_path / "environment")
    install(python, wheel, path=no_compiler)
    assert not list((tmp_path / "environment").rglob("_kernels*.so"))

    found = aggregate(python, path=no_compiler)
    assert not found["kernels"]
    assert found["w"] == aggregate(installed, kernels="off")["w"]
    suite = [python, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-q", SUITE]
    succeed(*suite, path=no_compiler)
    required = run(python, ROOT / "tests" / "packaging" / "print_aggregates.py", kernels="require")
    assert required.returncode != 0
    assert "SettingError" in required.stderr.splitlines()[-1]


def test_required_kernels_without_a_compiler_are_an_error(tmp_path, no_compiler):
    built = build_wheel(ROOT, tmp_path, path=no_compiler, kernels="require")
    assert built.returncode != 0
    line = "fedplus: no C++ compiler found, and FEDPLUS_KERNELS=require needs compiled kernels."
    assert (built.stdout + built.stderr).count(line) == 1
    assert "Traceback" not in built.stdout + built.stderr
    assert not list(tmp_path.glob("*.whl"))


@pytest.mark.parametrize(("kernels", "headers"), [("auto", ["jaxlib>=0.10"]), ("off", [])])
def test_isolated_builds_install_jaxlib_only_to_compile(kernels, headers, no_compiler):
    command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--target",
        "wheel",
        "--show-dynamic-deps",
    ]
    assert literal_eval(succeed(*command, kernels=kernels)) == headers
    assert literal_eval(succeed(*command, kernels=kernels, path=no_compiler)) == []


def test_an_editable_install_replaces_the_libraries(checkout):
    done = run_hook(checkout)
    assert done.returncode == 0, done.stderr
    folder = checkout / "src" / PACKAGE
    assert sorted(file.name for file in folder.iterdir()) == LIBRARIES
    for name in LIBRARIES:
        assert b"older sources" not in (folder / name).read_bytes()


def test_an_instruction_set_that_does_not_compile_is_left_out(checkout):
    (checkout / "csrc" / "kernels.cc").write_text("#ifdef __AVX512F__\n#error Too new.\n#endif\n")
    done = run_hook(checkout, kernels="require")
    assert done.returncode == 0, done.stderr
    left = [name for name in LIBRARIES if name != "_kernels_v4.so"]
    assert sorted(file.name for file in (checkout / "src" / PACKAGE).iterdir()) == left
    line = "could not compile _kernels_v4.so; slower kernels are installed."
    assert (done.stdout + done.stderr).count(line) == len(LIBRARIES) - len(left)


@pytest.mark.parametrize("kernels", ["auto", "off", "require"])
def test_no_library_from_older_sources_remains(checkout, kernels):
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
    assert not list((checkout / "src" / PACKAGE).iterdir())


def test_an_unknown_kernel_mode_is_rejected_when_building(checkout):
    done = run_hook(checkout, kernels="on")
    assert done.returncode != 0
    line = "fedplus: FEDPLUS_KERNELS must be auto, off or require, got 'on'."
    assert line in done.stderr.splitlines()


def test_a_missing_compiler_is_named(checkout):
    done = run_hook(checkout, cxx="no-such-compiler -x")
    assert done.returncode == 0
    line = "fedplus: no C++ compiler found (CXX=no-such-compiler -x); installing without"
    assert line in done.stderr


def test_make_compiles_only_changed_kernels(checkout, tmp_path):
    new_environment(tmp_path / "environment")
    for name in (".created", ".demo"):
        (tmp_path / "environment" / name).touch()
    make = ["make", "kernels", f"VENV={tmp_path / 'environment'}"]
    library, source = checkout / "src" / PACKAGE / "_kernels.so", checkout / "csrc" / "kernels.cc"
    os.utime(library, (0, 0))
    succeed(*make, cwd=checkout, kernels="")
    first = library.stat().st_mtime_ns
    succeed(*make, cwd=checkout, kernels="")
    assert library.stat().st_mtime_ns == first
    source.write_text("This is not C++.\n")
    os.utime(source, ns=(first + 10**9, first + 10**9))
    done = run(*make, cwd=checkout, kernels="")
    assert done.returncode != 0
    assert "could not compile csrc/kernels.cc" in done.stderr
