import pytest


@pytest.fixture
def deployment(tmp_path):
    """Of real processes, ended with the test."""
    from deployment import Deployment

    made = Deployment(tmp_path)
    try:
        yield made
    finally:
        made.close()
