"""Kernel libraries that cannot be loaded: JAX replaces them, with one warning."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
COMPILER = os.environ.get("CXX") or next(filter(shutil.which, ("c++", "g++", "clang++")), None)


def aggregate(source, mode):
    """Run print_aggregates.py in a new process with the package in `source`."""
    environment = os.environ | {"PYTHONPATH": str(source), "FEDPLUS_KERNELS": mode}
    script = [sys.executable, ROOT / "tests" / "packaging" / "print_aggregates.py"]
    return subprocess.run(
        script, env=environment, cwd=source, capture_output=True, text=True, timeout=300
    )


def compile_library(source, library, headers):
    """Compile a kernel source without optimisation, which takes a few seconds."""
    flags = ["-std=c++17", "-O0", "-w", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread"]
    command = [*COMPILER.split(), *flags, "-isystem", headers, source, "-o", library]
    subprocess.run(command, check=True, capture_output=True)


def headers_of_version(folder, major, minor):
    """Copy XLA's headers and change the FFI version in them."""
    shutil.copytree(jax.ffi.include_dir(), folder)
    header = folder / "xla" / "ffi" / "api" / "c_api.h"
    text = header.read_text()
    for name, number in (("MAJOR", major), ("MINOR", minor)):
        text, found = re.subn(rf"(#define XLA_FFI_API_{name}) \d+", rf"\1 {number}", text)
        assert found == 1
    header.write_text(text)
    return folder


@pytest.fixture
def source(tmp_path):
    """Return the folder of a copy of the package without compiled kernels."""
    shutil.copytree(
        ROOT / "src" / "fedplus",
        tmp_path / "src" / "fedplus",
        ignore=shutil.ignore_patterns("_kernels*.so", ".kernels-*", "templates"),
    )
    return tmp_path / "src"


def other_ffi_version(library):
    compile_library(
        ROOT / "csrc" / "kernels.cc",
        library,
        headers_of_version(library.with_name("headers"), 99, 7),
    )
    return "99.7"


def missing_symbols(library):
    source = library.with_name("nearly_empty.cc")
    source.write_text(
        'extern "C" __attribute__((visibility("default"))) int fedplus_level() { return 1; }\n'
    )
    compile_library(source, library, jax.ffi.include_dir())
    return "undefined symbol" if sys.platform == "linux" else "symbol"


def no_library(library):
    library.write_text("This is not a library.\n")
    return library.name


@pytest.mark.parametrize("fault", [other_ffi_version, missing_symbols, no_library])
def test_jax_replaces_kernels_that_cannot_be_loaded_with_one_warning(source, fault):
    if fault is not no_library and not COMPILER:
        pytest.skip("no C++ compiler")
    reason = fault(source / "fedplus" / "aggregation" / "_kernels.so")
    done, expected = (aggregate(source, mode) for mode in ("auto", "off"))
    assert done.returncode == expected.returncode == 0, done.stderr + expected.stderr
    found, expected = json.loads(done.stdout), json.loads(expected.stdout)
    assert Path(found["file"]).is_relative_to(source)
    (message,) = found["warnings"]
    assert reason in message
    assert expected["warnings"] == []
    assert np.allclose(found["w"], expected["w"], rtol=1e-5, atol=1e-6)

    required = aggregate(source, "require")
    assert required.returncode != 0
    errors = [line for line in required.stderr.splitlines() if "SettingError:" in line]
    assert errors
    assert reason in errors[0]
