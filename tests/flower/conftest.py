"""Fixtures of the tests of deployments."""

import logging

import pytest


@pytest.fixture
def deployment(tmp_path):
    """Deploy the tests' app in real processes, which end with the test."""
    from app_deployment import AppDeployment

    deployment = AppDeployment(tmp_path)
    try:
        yield deployment
    finally:
        deployment.close()


@pytest.fixture
def log_lines():
    """Collect the lines of Flower's logger."""
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logging.getLogger("flwr").addHandler(handler)
    yield lines
    logging.getLogger("flwr").removeHandler(handler)
