"""A run on eight devices, or on two processes of two devices each, equals the run on one device."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import fedplus as fp
from small_federation import CLASSIFIER, federation

HERE = Path(__file__).parent


def start(out, devices, *more):
    env = os.environ | {
        "PYTHONPATH": str(HERE.parent),
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": str(devices),
    }
    command = [sys.executable, str(HERE / "sharded_run.py"), str(out), *map(str, more)]
    return subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)


def finish(process, out=None):
    """Return the results of the run, which the first process writes."""
    _, stderr = process.communicate(timeout=600)
    assert process.returncode == 0, stderr
    if out is None:
        return None
    with np.load(out) as results:
        return dict(results)


@pytest.fixture(scope="module")
def one_device(tmp_path_factory):
    """Return the results of the run on one device."""
    out = tmp_path_factory.mktemp("one_device") / "out.npz"
    return finish(start(out, 1), out)


def assert_same(results, expected, devices):
    assert results["devices"] == devices
    assert expected["devices"] == 1
    for name in set(results) - {"devices"}:
        np.testing.assert_allclose(
            results[name], expected[name], rtol=1e-4, atol=1e-6, err_msg=name
        )


def test_eight_devices_have_the_same_result(tmp_path, one_device):
    out = tmp_path / "out.npz"
    assert_same(finish(start(out, 8), out), one_device, 8)


def test_two_processes_have_the_same_result(tmp_path, one_device):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    out = tmp_path / "out.npz"
    with start(out, 2, f"127.0.0.1:{port}", 2, 0) as first:
        with start(out, 2, f"127.0.0.1:{port}", 2, 1) as second:
            _, stderr = second.communicate(timeout=600)
        results = finish(first, out)  # Checked first: a failure here makes the second fail, too.
    assert second.returncode == 0, stderr
    assert_same(results, one_device, 4)


def test_a_mesh_of_two_axes_is_rejected():
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]).reshape(1, 1), ("a", "b"))
    with pytest.raises(fp.SettingError, match=r"mesh must be a jax\.sharding\.Mesh with one axis"):
        fp.simulate(
            fp.presets.fedavg(eta=0.1), federation(), CLASSIFIER, rounds=1, steps=1, mesh=mesh
        )
