import os

import hypothesis
import jax
import pytest

hypothesis.settings.register_profile("ci", deadline=None, max_examples=40, derandomize=True)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=300)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture
def x64():
    """Float64 for the length of a test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def x64_throughout():
    """Float64 for a whole file, whose fixtures of the module's scope need it too."""
    with jax.enable_x64(True):
        yield
