"""One device, eight devices, and two processes of two devices each: the same run."""

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
    """What the run found; the first process writes it."""
    _, told = process.communicate(timeout=600)
    assert process.returncode == 0, told
    if out is None:
        return None
    with np.load(out) as found:
        return dict(found)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    out = tmp_path_factory.mktemp("alone") / "out.npz"
    return finish(start(out, 1), out)


def assert_same(found, alone, devices):
    assert found["devices"] == devices
    assert alone["devices"] == 1
    for name in set(found) - {"devices"}:
        np.testing.assert_allclose(found[name], alone[name], rtol=1e-4, atol=1e-6, err_msg=name)


def test_eight_devices(tmp_path, alone):
    out = tmp_path / "out.npz"
    assert_same(finish(start(out, 8), out), alone, 8)


def test_two_processes(tmp_path, alone):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    out = tmp_path / "out.npz"
    with start(out, 2, f"127.0.0.1:{port}", 2, 0) as first:
        with start(out, 2, f"127.0.0.1:{port}", 2, 1) as second:
            _, told = second.communicate(timeout=600)
        found = finish(first, out)  # If it has failed, the other one has by that.
    assert second.returncode == 0, told
    assert_same(found, alone, 4)


def test_a_mesh_of_two_axes_is_refused():
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]).reshape(1, 1), ("a", "b"))
    with pytest.raises(fp.SettingError, match=r"mesh must be a jax\.sharding\.Mesh with one axis"):
        fp.simulate(
            fp.presets.fedavg(eta=0.1), federation(), CLASSIFIER, rounds=1, steps=1, mesh=mesh
        )
