import pytest
from browser import launched


@pytest.fixture(scope="session")
def browser():
    """One Chromium for all tests of pages."""
    with launched() as chromium:
        yield chromium
