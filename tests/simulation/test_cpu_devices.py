"""CPU cores share the parties of a round: results do not change, and the user can set the devices."""

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
ON_ONE_CORE = ["taskset", "--cpu-list", "0"]


def output_of(command, **env):
    """Return the output of a process that has no setting for devices except those in ``env``."""
    base = {k: v for k, v in os.environ.items() if k not in ("XLA_FLAGS", "JAX_NUM_CPU_DEVICES")}
    base |= {"PYTHONPATH": f"{HERE.parent}:{os.environ.get('PYTHONPATH', '')}"}
    base |= {"JAX_PLATFORMS": "cpu"} | env
    process = subprocess.run(command, env=base, capture_output=True, text=True, timeout=600)
    assert process.returncode == 0, process.stderr
    return process.stdout


def results_of(folder, cores, script="multicore_run.py", **env):
    """Return the arrays that a script saves when it runs on this many cores."""
    out = folder / f"{cores}.npz"
    output_of([sys.executable, str(HERE / script), str(out), str(cores)], **env)
    with np.load(out) as arrays:
        return dict(arrays)


def test_every_method_has_the_same_result_on_several_cores(tmp_path):
    one_core = results_of(tmp_path, 1)
    shared = results_of(tmp_path, 3, JAX_NUM_CPU_DEVICES="3")
    assert shared.pop("devices") == 3
    np.testing.assert_array_equal(shared["resumed"], shared["fedavg"])
    assert shared.keys() == one_core.keys() - {"devices"}
    for name, values in shared.items():
        np.testing.assert_allclose(values, one_core[name], rtol=1e-4, atol=1e-6, err_msg=name)


def test_shared_passes_over_a_large_matrix_have_the_same_result(tmp_path):
    script = "multicore_aggregation.py"
    one_core = results_of(tmp_path, 1, script)
    shared = results_of(tmp_path, 3, script, JAX_NUM_CPU_DEVICES="3")
    assert shared.keys() == one_core.keys()
    for name, values in shared.items():
        atol = 1e-5 * np.abs(one_core[name]).max()
        np.testing.assert_allclose(values, one_core[name], rtol=0, atol=atol, err_msg=name)
        if name.endswith(", resumed"):
            np.testing.assert_array_equal(values, shared[name.removesuffix(", resumed")])


GATHER = """
import jax, jax.numpy as jnp, numpy as np
from fedplus.simulation.cpu_devices import make_cpu_mesh, map_in_shards, run_on_all_cores

def all_results(x):
    row = jnp.where(x == 2, jnp.nan, x * jnp.ones(SIZE))
    return {"row": row, "flag": x > 3, "count": x.astype(jnp.int32) - 4, "half": x.astype(jnp.bfloat16)}

def results(x):
    return {name: value for name, value in all_results(x).items() if name in names}

mesh, x = make_cpu_mesh(3, 7), jnp.arange(7.0)
names = ["row", "flag", "count"] if SHORT else ["row", "flag", "count", "half"]
program = jax.jit(run_on_all_cores(mesh, map_in_shards(mesh, jax.vmap)(results)))
expected = jax.tree.leaves(jax.vmap(results)(x))
for (path, gathered), values in zip(jax.tree.leaves_with_path(program(x)), expected):
    assert gathered.dtype == values.dtype, path
    np.testing.assert_array_equal(np.asarray(gathered, np.float32), np.asarray(values, np.float32))
print(program.lower(x).as_text().count("stablehlo.all_gather"))
"""


@pytest.mark.parametrize(
    ("size", "short", "exchanges"), [(50, True, 1), (50, False, 1), (60_000, True, 3)]
)
def test_results_of_all_dtypes_are_gathered_and_small_ones_in_one_exchange(size, short, exchanges):
    code = GATHER.replace("SIZE", str(size)).replace("SHORT", str(short))
    output = output_of([sys.executable, "-c", code], JAX_NUM_CPU_DEVICES="3")
    assert int(output) == exchanges


PRINT_DEVICES = """
import os
# BEGIN
from fedplus.simulation.cpu_devices import create_cpu_devices, make_cpu_mesh
create_cpu_devices()
import jax
mesh = make_cpu_mesh("auto", 10)
has_timeouts = "terminate" in os.environ.get("XLA_FLAGS", "")
print(len(jax.devices()), 1 if mesh is None else mesh.size, has_timeouts)
"""


def devices_of(prefix=(), code=PRINT_DEVICES, **env):
    """Return the number of devices, the number that a run uses, and whether timeouts are set."""
    return output_of([*prefix, sys.executable, "-c", code], **env).split()


def test_every_core_that_the_process_may_use_becomes_a_device():
    count = len(os.sched_getaffinity(0))
    assert devices_of() == [str(count), str(min(count, 10)), "True"]
    assert devices_of(ON_ONE_CORE) == ["1", "1", "True"]


def test_nothing_changes_if_jax_is_already_initialised():
    code = PRINT_DEVICES.replace("# BEGIN", "import jax; jax.numpy.ones(1)")
    assert devices_of(code=code) == ["1", "1", "False"]


def test_the_users_device_settings_are_kept():
    """Without longer timeouts XLA may end the process, so the cores do not share work by default."""
    for env in (
        {"XLA_FLAGS": "--xla_force_host_platform_device_count=3"},
        {"JAX_NUM_CPU_DEVICES": "3"},
    ):
        assert devices_of(**env) == ["3", "1", "False"]


SLOW = """
import time
import jax, jax.numpy as jnp
from fedplus.simulation import cpu_devices
cpu_devices.create_cpu_devices()
mesh = cpu_devices.make_cpu_mesh("auto", 2)

def party(k):
    def wait(x):
        time.sleep(75 * int(x))
        return x
    shape = jax.ShapeDtypeStruct((), jnp.int32)
    return jax.pure_callback(wait, shape, k, vmap_method="sequential")

def program(parties):
    return cpu_devices.map_in_shards(mesh, jax.vmap)(lambda k: party(k))(parties)

shared = jax.jit(cpu_devices.run_on_all_cores(mesh, program))
print(shared(jnp.arange(2, dtype=jnp.int32)))
"""


@pytest.mark.long
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core")
def test_a_core_waits_for_another_for_longer_than_a_minute():
    """XLA's own timeout is 60 seconds."""
    begin = time.monotonic()
    assert output_of([sys.executable, "-c", SLOW]).strip() == "[0 1]"
    assert time.monotonic() - begin > 70


@given(st.integers(1, 300), st.integers(1, 64))
def test_fewest_devices_is_the_least_number_with_the_same_largest_share(parties, most):
    def largest_share(devices):
        return math.ceil(parties / devices)

    fewest = fewest_devices(parties, most)
    assert 1 <= fewest <= most
    assert largest_share(fewest) == largest_share(most)
    assert fewest == 1 or largest_share(fewest - 1) > largest_share(most)


@pytest.mark.parametrize("cores", [0, -1, 1.5, "all", True, 10_000])
def test_invalid_numbers_of_cores_are_rejected(cores):
    with pytest.raises(fp.SettingError, match=r"^cores must be (a whole number ≥ 1|at most)"):
        fp.simulate(
            fp.presets.fedavg(eta=0.1), federation(), CLASSIFIER, rounds=1, steps=1, cores=cores
        )


def test_cores_together_with_a_mesh_or_a_store_are_rejected(tmp_path):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("parties",))
    method = fp.presets.fedavg(eta=0.1)
    for more in ({"mesh": mesh}, {"store": tmp_path}):
        with pytest.raises(fp.SettingError, match=r"^(cores|store) must be"):
            fp.simulate(method, federation(), CLASSIFIER, rounds=1, steps=1, cores=2, **more)
