"""Compare the simulation's rounds per second with those of peers, on the same work, in one run.

    make bench                                         # writes benchmarks/results/simulation-cpu.json
    python benchmarks/simulation.py --no-peers         # only fedplus (on a GPU machine, say)
    python benchmarks/simulation.py --peers fedjax,fedlab --workloads A10,B --seconds 10

Every contender runs in a separate process, and every peer in a separate environment. fedplus runs
before and after the peers, and the mean of its two rates counts. The workloads are in
``peers/workloads.py``.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "peers"))

from run import PEERS, measure  # noqa: E402
from run import WORKLOADS as WITH_PEERS  # noqa: E402
from workloads import HIDDEN, WORKLOADS, sizes  # noqa: E402

PLUS = ("fedavg+", "fedgeomed+", "fedcomed+")
METHODS = {
    "A10": ("fedavg", *PLUS),
    "A50": ("fedavg", *PLUS),
    "B": ("fedavg", *PLUS, *(f"{name}@active" for name in PLUS)),
    "C": ("fedavg", "fedgeomed+@active"),
    "A1000": ("fedavg",),
}


def ours(workload, method, seconds, active=None):
    """Return the result of one run of fedplus."""
    command = [sys.executable, str(HERE / "ours.py"), "--workload", workload, "--method", method]
    command += ["--seconds", str(seconds)] + (["--active", str(active)] if active else [])
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return {
            "peer": "fedplus",
            "workload": workload,
            "method": method,
            "error": done.stderr[-300:],
        }
    found = json.loads(done.stdout.splitlines()[-1])
    print(json.dumps(found), flush=True)
    return found


def average_runs(same):
    """Return the last run's entry with the mean rate of all runs of the same job."""
    rates = [entry["rounds_per_second"] for entry in same if "error" not in entry]
    mean = round(statistics.mean(rates), 2) if rates else 0.0
    return same[-1] | {"rounds_per_second": mean, "each": rates}


def floor(workload):
    """Return the gigaflops and gigabytes that a round of FedAvg needs at least."""
    work = WORKLOADS[workload]
    mean = float(np.mean(sizes(work)))
    steps = work.steps or work.epochs * np.ceil(mean / work.batch)
    rows = work.active * steps * work.batch
    if work.model == "logistic":
        a_row = 4 * 784 * 10  # Two products of 2·784·10 each: outputs and gradient.
    else:
        weights = 4 * HIDDEN * (300 + HIDDEN) + 4 * HIDDEN * 2 * HIDDEN
        a_row = 25 * 6 * weights - 25 * 2 * 4 * HIDDEN * 300  # The inputs' gradient is not needed.
    return {
        "gigaflops": rows * a_row / 1e9,
        "gigabytes": rows * 4 * np.prod(work.shape) / 1e9,
    }


def peaks():
    """Return this machine's peak rates: GFLOP/s of a large product, GB/s of reading random rows."""

    def fastest(call):
        jax.block_until_ready(call())
        times = []
        for _ in range(7):
            start = time.perf_counter()
            jax.block_until_ready(call())
            times.append(time.perf_counter() - start)
        return min(times)

    a = jnp.ones((2048, 2048), jnp.float32)
    product = jax.jit(lambda a: a @ a)
    rows = jnp.ones((60_000, 784), jnp.float32)
    chosen = jnp.asarray(np.random.default_rng(0).integers(0, 60_000, 20_000))
    gather = jax.jit(lambda rows, chosen: rows[chosen])
    return {
        "gigaflops a second": 2 * 2048**3 / 1e9 / fastest(lambda: product(a)),
        "gigabytes a second": 20_000 * 784 * 4 / 1e9 / fastest(lambda: gather(rows, chosen)),
    }


def verdicts(mine, theirs, machine):
    """Return the ratios of fedplus's rounds per second to the peers', by workload and method."""
    lines = []
    for entry in mine:
        same = [
            p for p in theirs
            if p["workload"] == entry["workload"] and p["method"] == "fedavg" and "error" not in p
        ]  # fmt: skip
        rate = entry["rounds_per_second"]
        line = {"workload": entry["workload"], "method": entry["method"], "rounds/s": rate}
        if entry.get("active") != WORKLOADS[entry["workload"]].active:
            line["active"] = entry["active"]
        for name, group in {
            "fastest of Flower, pfl, fluke, FedLab": ("flower", "pfl", "fluke", "fedlab"),
            "FedJAX": ("fedjax",), "PyTorch loop": ("torch_loop",),
        }.items():  # fmt: skip
            rates = [p["rounds_per_second"] for p in same if p["peer"] in group]
            if rates:
                line[f"times {name}"] = round(rate / max(rates), 2)
        if entry["method"] == "fedavg" and "active" not in line:
            least = floor(entry["workload"])
            line["share of peak flops"] = round(
                rate * least["gigaflops"] / machine["gigaflops a second"], 3
            )
            line["share of peak row reading"] = round(
                rate * least["gigabytes"] / machine["gigabytes a second"], 3
            )
        lines.append(line)
    return lines


def main():
    """Run the benchmark, print its results and write them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--workloads", help="by default all for the device")
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="seconds of timed rounds per run"
    )
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    on_gpu = jax.default_backend() != "cpu"
    report = {
        "machine": platform.processor() or platform.machine(), "device": str(jax.devices()[0]),
        "cores": os.cpu_count(), "load before": round(os.getloadavg()[0], 1),
        "versions": {"jax": jax.__version__, "numpy": np.__version__},
        "peaks": {name: round(value, 1) for name, value in peaks().items()},
        "verdicts": [], "fedplus": [], "peers": [],
    }  # fmt: skip
    out = options.out or HERE / "results" / f"simulation-{jax.default_backend()}.json"
    there = WORKLOADS if on_gpu else WITH_PEERS
    for workload in options.workloads.split(",") if options.workloads else there:
        jobs = [(method, None) for method in METHODS[workload]]
        if on_gpu and workload == "B":
            jobs.append(("fedavg", WORKLOADS["B"].parties))
        repeats = [[ours(workload, method, options.seconds, active) for method, active in jobs]]
        theirs = []
        if not (options.no_peers or on_gpu):
            theirs = measure(options.peers.split(","), [workload], options.seconds)
            repeats.append(
                [ours(workload, method, options.seconds, active) for method, active in jobs]
            )
        mine = [average_runs(same) for same in zip(*repeats, strict=True)]
        report["verdicts"] += verdicts(mine, theirs, report["peaks"])
        report["fedplus"] += mine
        report["peers"] += theirs
        temporary = out.with_suffix(".tmp")
        temporary.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
        temporary.replace(out)
    for line in report["verdicts"]:
        print(line)


if __name__ == "__main__":
    main()
