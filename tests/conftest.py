"""Settings and fixtures of all tests."""

import os
import tempfile
from pathlib import Path

# Each test and the processes that it starts use one core, because there is one worker per core already
# and because runs are compared bit by bit.
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "1")
# Workers, the processes that tests start and later runs share compiled programs. JAX finds a program by
# its code, the compiler's version and its options, so a changed program is compiled anew.
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "jax")
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")

import hypothesis
import jax
import pytest

hypothesis.settings.register_profile("ci", deadline=None, max_examples=40, derandomize=True)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=300)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes seconds; `make test` leaves it out")
    config.addinivalue_line("markers", "long: takes minutes, and runs with `make test-long` only")


def pytest_collection_modifyitems(items):
    if not os.environ.get("FEDPLUS_LONG"):
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason="long: `make test-long` runs it"))


@pytest.fixture
def x64():
    """Enable float64 for one test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def x64_throughout():
    """Enable float64 for a whole file, including its module-scoped fixtures."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="session", autouse=True)
def own_cache():
    """Give the tests an empty cache folder of their own, and no network."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", folder)
        patch.setenv("FEDPLUS_OFFLINE", "1")
        yield


@pytest.fixture(scope="module", autouse=True)
def few_programs():
    """Free a test file's compiled programs: a process is limited to 65,530 memory maps."""
    yield
    jax.clear_caches()


@pytest.fixture
def real_data():
    """Skip a test that needs published data sets if FEDPLUS_DATA is not set."""
    if not os.environ.get("FEDPLUS_DATA"):
        pytest.skip("FEDPLUS_DATA names no folder with the published files")


@pytest.fixture(scope="session")
def browser():
    """Return a Chromium that all tests share, because Playwright starts only once per process."""
    from report.browser import launch_chromium

    with launch_chromium() as chromium:
        yield chromium
