"""The parties of a round over a CPU's cores: the same run, whatever the method; and who decides."""

import math
import os
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedplus as fp
from fedplus.simulation.cpu_devices import fewest_devices
from small_federation import CLASSIFIER, federation

HERE = Path(__file__).parent
ALONE = ["taskset", "--cpu-list", "0"]


def ran(command, **env):
    """The output of a process that knows nothing of devices but what ``env`` says."""
    known = {k: v for k, v in os.environ.items() if k not in ("XLA_FLAGS", "JAX_NUM_CPU_DEVICES")}
    known |= {"PYTHONPATH": f"{HERE.parent}:{os.environ.get('PYTHONPATH', '')}"}
    known |= {"JAX_PLATFORMS": "cpu"} | env
    done = subprocess.run(command, env=known, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def runs(folder, cores, script="cores_run.py", **env):
    out = folder / f"{cores}.npz"
    ran([sys.executable, str(HERE / script), str(out), str(cores)], **env)
    with np.load(out) as found:
        return dict(found)


def test_every_method_finds_the_same(tmp_path):
    alone, shared = runs(tmp_path, 1), runs(tmp_path, 3, JAX_NUM_CPU_DEVICES="3")
    assert shared.pop("devices") == 3
    np.testing.assert_array_equal(shared["resumed"], shared["fedavg"])
    assert shared.keys() == alone.keys() - {"devices"}
    for name, values in shared.items():
        np.testing.assert_allclose(values, alone[name], rtol=1e-4, atol=1e-6, err_msg=name)


def test_passes_over_a_large_matrix_are_shared_and_find_the_same(tmp_path):
    alone = runs(tmp_path, 1, "shared_passes.py")
    shared = runs(tmp_path, 3, "shared_passes.py", JAX_NUM_CPU_DEVICES="3")
    assert shared.keys() == alone.keys()
    for name, values in shared.items():
        size = np.abs(alone[name]).max()
        np.testing.assert_allclose(values, alone[name], rtol=0, atol=1e-5 * size, err_msg=name)
        if name.endswith(", resumed"):
            np.testing.assert_array_equal(values, shared[name.removesuffix(", resumed")])


TO_ALL = """
import jax, jax.numpy as jnp, numpy as np
from fedplus.simulation.cpu_devices import devices_for, map_in_shards, run_on_all

def first_replica(x):
    far = jnp.where(x == 2, jnp.nan, x * jnp.ones(SIZE))
    return {"row": far, "flag": x > 3, "count": x.astype(jnp.int32) - 4, "half": x.astype(jnp.bfloat16)}

mesh, x = devices_for(3, 7), jnp.arange(7.0)
kinds = ["row", "flag", "count"] if SHORT else ["row", "flag", "count", "half"]
chosen = lambda x: {k: v for k, v in first_replica(x).items() if k in kinds}
shared = jax.jit(run_on_all(mesh, map_in_shards(mesh, jax.vmap)(chosen)))(x)
for (path, one), all_ in zip(jax.tree.leaves_with_path(shared), jax.tree.leaves(jax.vmap(chosen)(x))):
    assert one.dtype == all_.dtype, path
    np.testing.assert_array_equal(np.asarray(one, np.float32), np.asarray(all_, np.float32))
told = jax.jit(run_on_all(mesh, map_in_shards(mesh, jax.vmap)(chosen))).lower(x).as_text()
print(told.count("stablehlo.all_gather"))
"""


@pytest.mark.parametrize(
    ("size", "short", "exchanges"), [(50, True, 1), (50, False, 1), (60_000, True, 3)]
)
def test_what_cores_found_arrives_whatever_kind_it_is(size, short, exchanges):
    """At once, where it is small."""
    code = TO_ALL.replace("SIZE", str(size)).replace("SHORT", str(short))
    found = ran([sys.executable, "-c", code], JAX_NUM_CPU_DEVICES="3")
    assert int(found) == exchanges


TOLD = """
import os
# BEGIN
from fedplus.simulation.cpu_devices import devices_for, create_cpu_devices
create_cpu_devices()
import jax
mesh = devices_for("auto", 10)
patient = "terminate" in os.environ.get("XLA_FLAGS", "")
print(len(jax.devices()), 1 if mesh is None else mesh.size, patient)
"""


def test_every_core_that_the_process_may_use_becomes_a_device():
    count = len(os.sched_getaffinity(0))
    assert ran([sys.executable, "-c", TOLD]).split() == [str(count), str(min(count, 10)), "True"]
    assert ran([*ALONE, sys.executable, "-c", TOLD]).split() == ["1", "1", "True"]


def test_jax_that_has_begun_is_left_alone():
    begun = TOLD.replace("# BEGIN", "import jax; jax.numpy.ones(1)")
    assert ran([sys.executable, "-c", begun]).split() == ["1", "1", "False"]


def test_what_the_user_has_said_of_devices_stands():
    """And then a process that XLA may end after a minute does not share by itself."""
    for env in (
        {"XLA_FLAGS": "--xla_force_host_platform_device_count=3"},
        {"JAX_NUM_CPU_DEVICES": "3"},
    ):
        assert ran([sys.executable, "-c", TOLD], **env).split() == ["3", "1", "False"]


SLOW = """
import time
import jax, jax.numpy as jnp
from fedplus.simulation.cpu_devices import devices_for, map_in_shards, create_cpu_devices, run_on_all
create_cpu_devices()
mesh = devices_for("auto", 2)

def party(k):
    def wait(x):
        time.sleep(75 * int(x))
        return x
    like = jax.ShapeDtypeStruct((), jnp.int32)
    return jax.pure_callback(wait, like, k, vmap_method="sequential")

def program(parties):
    return map_in_shards(mesh, jax.vmap)(lambda k: party(k))(parties)

print(jax.jit(run_on_all(mesh, program))(jnp.arange(2, dtype=jnp.int32)))
"""


@pytest.mark.long
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core")
def test_a_core_waits_for_another_for_longer_than_a_minute():
    """XLA's own patience is 60 seconds."""
    begun = time.monotonic()
    assert ran([sys.executable, "-c", SLOW]).strip() == "[0 1]"
    assert time.monotonic() - begun > 70


@given(st.integers(1, 300), st.integers(1, 64))
def test_as_few_cores_as_need_be(parties, most):
    def longest(cores):
        return math.ceil(parties / cores)

    found = fewest_devices(parties, most)
    assert 1 <= found <= most
    assert longest(found) == longest(most)
    assert found == 1 or longest(found - 1) > longest(most)


@pytest.mark.parametrize("cores", [0, -1, 1.5, "all", True, 10_000])
def test_numbers_that_are_none_are_refused(cores):
    with pytest.raises(fp.SettingError, match=r"^cores must be (a whole number ≥ 1|at most)"):
        fp.simulate(
            fp.presets.fedavg(eta=0.1), federation(), CLASSIFIER, rounds=1, steps=1, cores=cores
        )


def test_cores_beside_a_mesh_or_a_store_are_refused(tmp_path):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("parties",))
    method = fp.presets.fedavg(eta=0.1)
    for more in ({"mesh": mesh}, {"store": tmp_path}):
        with pytest.raises(fp.SettingError, match=r"^(cores|store) must be"):
            fp.simulate(method, federation(), CLASSIFIER, rounds=1, steps=1, cores=2, **more)
