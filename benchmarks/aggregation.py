"""Measure the speed of the aggregators, and compare it with that of their peers in the same run.

    make bench                                      # writes benchmarks/results/aggregation-cpu.json
    python benchmarks/aggregation.py --quick        # small sizes only
    python benchmarks/aggregation.py --no-peers     # without byzfl (on a GPU machine, say)

The contenders of a comparison are timed alternately, several times, so that a busy machine disturbs
all alike; the median counts. Memory is the peak of a separate process, minus its memory before the
aggregation, when W is loaded.
"""

import argparse
import itertools
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import fedplus as fp

HERE = Path(__file__).parent
SIZES = [(n, d) for d in (7_850, 100_000, 1_000_000) for n in (10, 50, 200, 1000)]
BYTES_AT_MOST = 2**30
DELTA = 0.1


def timed(contenders, repeats=21, least=0.5, seconds=6.0):
    """Return the median milliseconds of each function; the functions alternate in random order.

    A few calls of a tenth of a millisecond would measure how long idle cores take to wake up, so each
    function is called at least ``repeats`` times, and for at least ``least`` seconds in all. After
    ``seconds`` seconds, three calls are enough.
    """
    times = {name: [] for name in contenders}
    for call in contenders.values():
        jax.block_until_ready(call())
    begun, order, rng = time.perf_counter(), list(contenders.items()), random.Random(0)
    for repeat in itertools.count(1):
        rng.shuffle(order)  # So that the contender after one that fills the caches varies.
        for name, call in order:
            start = time.perf_counter()
            jax.block_until_ready(call())
            times[name].append(1e3 * (time.perf_counter() - start))
        took = time.perf_counter() - begun
        if (repeat >= repeats and took > least) or (repeat >= 3 and took > seconds):
            break
    return {name: float(np.median(t)) for name, t in times.items()}


def models(n, d, outliers=0.1, scale=1e6, seed=0):
    """Return models spread around a common one, as after training, and a few identical outliers."""
    rng = np.random.default_rng(seed)
    made = rng.standard_normal((n, d), dtype=np.float32) + rng.standard_normal(d, dtype=np.float32)
    far = round(outliers * n)
    made[rng.permutation(n)[:far]] += np.float32(scale) * rng.standard_normal(d, dtype=np.float32)
    return made


def numpy_sorted_median(w):
    """Return NumPy's fastest median: contiguous blocks of columns, sorted by its SIMD sort."""
    n, d = w.shape
    out = np.empty(d, w.dtype)
    for i in range(0, d, 4096):
        block = np.ascontiguousarray(w[:, i : i + 4096].T)
        block.sort(axis=1)
        out[i : i + 4096] = (block[:, (n - 1) // 2] + block[:, n // 2]) / 2
    return out


def peer(python, w, iterations):
    """Return the milliseconds of byzfl's aggregators on the same W, in its own environment.

    Its geometric median runs a given number of iterations, ``iterations``. With None it runs the least
    number that reaches an accuracy of 1e-6.
    """
    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        np.save(file.name, w)
        command = [
            python,
            str(HERE / "peer_byzfl.py"),
            file.name,
            json.dumps(iterations),
            str(DELTA),
        ]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def accuracy(w, point):
    """Return the distance from the exact δ-geometric median of W, relative to the typical distance."""
    exact = w.astype(np.float64)
    centre = np.asarray(point, np.float64)
    for _ in range(100):
        r = np.maximum(np.linalg.norm(exact - centre, axis=1), DELTA)
        centre = (1 / r) @ exact / np.sum(1 / r)
    return float(np.linalg.norm(np.asarray(point) - centre) / np.median(r))


def compare(n, d, byzfl, iterations):
    """Return all comparisons at one size."""
    w = models(n, d)
    j = jnp.asarray(w)
    on_gpu = jax.default_backend() != "cpu"
    layout = (("body", d // 2), ("head", d - d // 2))
    mean, median, geometric = fp.Mean(), fp.CoordinateMedian(), fp.GeometricMedian()
    by_l1, by_l2 = fp.Moreau(fp.L1(DELTA)), fp.Moreau(fp.L2(DELTA))
    blocks = fp.Moreau(fp.Blocks({"head": fp.L1(DELTA), "*": fp.L2(DELTA)}, layout))
    given = j if on_gpu else w  # The peers get NumPy arrays, too.
    cut = jnp.array if on_gpu else np.ascontiguousarray
    body, head = cut(given[:, : d // 2]), cut(given[:, d // 2 :])
    sort = jax.jit(lambda w: jnp.sort(w, axis=0)[n // 2])
    ours = {
        "mean": lambda: mean(given).w,
        "coordinate median": lambda: median(given).w,
        "Moreau(L1)": lambda: by_l1(given).w,
        "geometric median": lambda: geometric(given).w,
        "Moreau(L2)": lambda: by_l2(given).w,
        "Blocks": lambda: blocks(given).w,
        "its parts": lambda: (by_l2(body).w, by_l1(head).w),
    }
    others = {} if on_gpu else {
        "NumPy mean": lambda: w.mean(axis=0),
        "NumPy sort": lambda: numpy_sorted_median(w),
    }  # fmt: skip
    slow = {"jnp.sort": lambda: sort(j)}
    if not on_gpu:
        slow["NumPy median"] = lambda: np.median(w, axis=0)
    ms = timed(ours | others) | timed(slow, repeats=1, least=0.0)
    row = {"n": n, "d": d, "ms": ms}
    if byzfl:
        found = peer(byzfl, w, iterations.get(n))
        iterations.setdefault(n, found.pop("iterations"))
        row["iterations that byzfl needs"] = iterations[n]
        ms |= found
        ms |= timed({"Moreau(L2), alone": ours["Moreau(L2)"]})  # byzfl runs alone as well.
    many = jnp.asarray(models(n, d, 0.3)) if on_gpu else models(n, d, 0.3)
    ms |= timed({"Moreau(L2), 30% far": lambda: by_l2(many).w})
    if n * d <= 10_000_000:
        row["error of Moreau(L2)"] = accuracy(w, by_l2(given).w)
    return row


def warm(n=1000, d=7850, moved=10):
    """Return the times of warm and cold starts, after a few parties' models changed slightly."""
    w = models(n, d, 0.0)
    after = w.copy()
    after[:moved] += 0.01 * np.random.default_rng(1).standard_normal((moved, d), dtype=np.float32)
    if jax.default_backend() != "cpu":
        w, after = jnp.asarray(w), jnp.asarray(after)
    rows = {}
    for name, aggregate in {
        "coordinate median": fp.CoordinateMedian(), "Moreau(L1(0.1))": fp.Moreau(fp.L1(0.1)),
        "Moreau(L1(0.001))": fp.Moreau(fp.L1(0.001)), "geometric median": fp.GeometricMedian(),
        "Moreau(L2(0.1))": fp.Moreau(fp.L2(0.1)),
    }.items():  # fmt: skip
        start = aggregate(w).w
        rows[name] = timed({
            "cold": lambda a=aggregate: a(after).w,
            "warm": lambda a=aggregate, s=start: a(after, start=s).w,
        })  # fmt: skip
    return rows


def recursion(sizes=((10, 7850), (50, 7850), (200, 7850))):
    """Compare ``Moreau`` with the paper's recursion, whose final residual is no smaller."""
    rows = {}
    for n, d in sizes:
        w = jnp.asarray(models(n, d, 0.1, 30.0))
        for name, psi in {"L1": fp.L1(DELTA), "L2": fp.L2(DELTA)}.items():
            fast, slow = fp.Moreau(psi), fp.Recursion(psi, tolerance=1e-5)
            contenders = {"Moreau": lambda f=fast: f(w).w, "recursion": lambda s=slow: s(w).w}  # noqa: B023
            found = timed(contenders, seconds=3.0)
            found |= {"residuals": [float(fast(w).residual), float(slow(w).residual)],
                      "iterations": [int(fast(w).iterations), int(slow(w).iterations)]}  # fmt: skip
            rows[f"{name}, {n} × {d:,}"] = found
    return rows


WATCHED = (
    "fp.Mean()",
    "fp.CoordinateMedian()",
    "fp.GeometricMedian()",
    "fp.Moreau(fp.L1(0.1))",
    "fp.Moreau(fp.L2(0.1))",
    "fp.Moreau(fp.Blocks({'a': fp.L1(0.1), '*': fp.L2(0.1)}, (('a', 500000), ('b', 500000))))",
)


def memory(n=50, d=1_000_000):
    """Return the peak memory of one aggregation beyond W, including its program, in multiples of W."""
    rows = {}
    for name in WATCHED:
        command = [sys.executable, __file__, "--memory-of", name, str(n), str(d)]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        rows[name] = round(float(run.stdout), 2)
    return rows


def memory_of(expression, n, d):
    """Load W, aggregate while a thread watches this process's memory, and print the peak."""
    w = jnp.asarray(models(n, d))
    aggregate = eval(expression, {"fp": fp})
    page, peak, running = os.sysconf("SC_PAGE_SIZE"), 0, True

    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * page

    def watch():
        nonlocal peak
        while running:
            peak = max(peak, resident())
            time.sleep(0.001)

    before = resident()
    thread = threading.Thread(target=watch)
    thread.start()
    jax.block_until_ready(aggregate(w).w)
    running = False
    thread.join()
    print((peak - before) / w.nbytes)


def verdicts(sizes, extra):
    """Return the main ratios of each size. In ratios to a peer, fedplus is better above 1."""
    lines = []
    for row in sizes:
        ms, at = row["ms"], f"{row['n']} × {row['d']:,}"
        medians = [ms[k] for k in ("NumPy median", "NumPy sort", "byzfl median") if k in ms]
        line = {"at": at}
        if "NumPy mean" in ms:
            line["NumPy mean / mean"] = ms["NumPy mean"] / ms["mean"]
        if medians:
            line["best peer / coordinate median"] = min(medians) / ms["coordinate median"]
            line["best peer / Moreau(L1)"] = min(medians) / ms["Moreau(L1)"]
        line["jnp.sort / Moreau(L1)"] = ms["jnp.sort"] / ms["Moreau(L1)"]
        line["Moreau(L2) in means"] = ms["Moreau(L2)"] / ms["mean"]
        line["30% far, in means"] = ms["Moreau(L2), 30% far"] / ms["mean"]
        line["geometric median in means"] = ms["geometric median"] / ms["mean"]
        if "byzfl geometric median" in ms:
            line["byzfl / Moreau(L2)"] = ms["byzfl geometric median"] / ms["Moreau(L2), alone"]
        line["parts / Blocks"] = ms["its parts"] / ms["Blocks"]
        if "bandwidth" in extra:
            gigabytes = row["n"] * row["d"] * 4 / 1e9
            line["mean, share of bandwidth"] = gigabytes / (ms["mean"] / 1e3) / extra["bandwidth"]
        lines.append({k: v if isinstance(v, str) else round(v, 2) for k, v in line.items()})
    return lines


def bandwidth():
    """Return the GB/s at which a large array is read and written; only for a GPU.

    On a CPU, page faults would dominate.
    """
    big = jnp.ones(2**28, jnp.float32)
    copy = jax.jit(lambda x: x + 1)
    return 2 * big.nbytes / 1e9 / (timed({"copy": lambda: copy(big)})["copy"] / 1e3)


def byzfl_environment():
    """Return the Python of an environment with byzfl and torch, which is created if it is missing."""
    python = HERE.parent / ".venv-byzfl" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(python.parent.parent)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet"]
        subprocess.run([*install, "torch==2.13.0", "numpy", "scipy"], check=True)
        subprocess.run([*install, "--no-deps", "byzfl==0.0.11"], check=True)
    return str(python)


def main():
    """Run the benchmark, print its results and write them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small sizes only")
    parser.add_argument("--no-peers", action="store_true", help="do not install or run byzfl")
    parser.add_argument(
        "--memory-of", nargs=3, metavar=("AGGREGATOR", "N", "D"), help=argparse.SUPPRESS
    )
    parser.add_argument("--out", type=Path, help="where to write the JSON")
    options = parser.parse_args()
    if options.memory_of:
        return memory_of(options.memory_of[0], *map(int, options.memory_of[1:]))
    on_gpu = jax.default_backend() != "cpu"
    byzfl = None if options.no_peers or on_gpu else byzfl_environment()
    sizes = [
        s
        for s in SIZES
        if s[0] * s[1] * 4 <= BYTES_AT_MOST and (not options.quick or s[1] < 10_000)
    ]
    rows, iterations = [], {}
    for n, d in sizes:
        rows.append(compare(n, d, byzfl, iterations))
        print(f"{n} × {d:,}:", {k: round(v, 2) for k, v in rows[-1]["ms"].items()}, flush=True)
    extra = {"warm start, 10 of 1000 moved": warm(), "against the recursion": recursion()}
    if on_gpu:
        extra["bandwidth"] = bandwidth()
    else:
        extra["peak extra memory in W"] = memory()
    table = verdicts(rows, extra)
    report = {
        "machine": platform.processor() or platform.machine(), "device": str(jax.devices()[0]),
        "cores": os.cpu_count(), "versions": {"jax": jax.__version__, "numpy": np.__version__},
        "ratios": table, "sizes": rows, **extra,
    }  # fmt: skip
    out = options.out or HERE / "results" / f"aggregation-{jax.default_backend()}.json"
    temporary = out.with_suffix(".tmp")
    temporary.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    temporary.replace(out)
    for line in table:
        print(line)
    print(json.dumps(extra, indent=1, ensure_ascii=False))
    return None


if __name__ == "__main__":
    main()
