"""Compare the speed of this checkout with that of another one, in one run.

    git worktree add /tmp/before COMMIT && make -C /tmp/before .venv/.test
    python benchmarks/against.py /tmp/before            # writes benchmarks/results/against-cpu.json
    python benchmarks/against.py /tmp/before --quick    # small sizes and the shortest workloads

Each contender runs in processes and an environment of its own: the other checkout, this one, and the
other one again, whose two runs are averaged. A share above 1 means that this checkout is faster.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
SIZES = [(n, d) for d in (7_850, 100_000, 1_000_000) for n in (10, 50, 200, 1000)]
ENTRIES_AT_MOST = 2**28
PLUS = ("fedavg+", "fedgeomed+", "fedcomed+")
WORKLOADS = {
    "A10": ("fedavg", *PLUS),
    "A50": ("fedavg", *PLUS),
    "B": ("fedavg", *PLUS, *(f"{name}@active" for name in PLUS)),
    "C": ("fedavg", "fedgeomed+@active"),
}


def worker(n, d):
    """Print the milliseconds of each aggregator at one size; at 1000 × 7,850 also of warm starts."""
    sys.path.insert(0, str(HERE))
    import numpy as np

    import aggregation
    import fedplus as fp

    w, many = aggregation.models(n, d), aggregation.models(n, d, 0.3)
    layout = (("body", d // 2), ("head", d - d // 2))
    by_l1, by_l2 = fp.Moreau(fp.L1(0.1)), fp.Moreau(fp.L2(0.1))
    blocks = fp.Moreau(fp.Blocks({"head": fp.L1(0.1), "*": fp.L2(0.1)}, layout))
    contenders = {
        "mean": lambda: fp.Mean()(w).w, "coordinate median": lambda: fp.CoordinateMedian()(w).w,
        "Moreau(L1)": lambda: by_l1(w).w, "geometric median": lambda: fp.GeometricMedian()(w).w,
        "Moreau(L2)": lambda: by_l2(w).w, "Moreau(L2), 30% far": lambda: by_l2(many).w,
        "Blocks": lambda: blocks(w).w,
    }  # fmt: skip
    if (n, d) == (1000, 7850):
        before = aggregation.models(n, d, 0.0)
        after = before.copy()
        after[:10] += 0.01 * np.random.default_rng(1).standard_normal((10, d), dtype=np.float32)
        for name, one in {
            "coordinate median": fp.CoordinateMedian(), "Moreau(L1(0.1))": by_l1,
            "Moreau(L1(0.001))": fp.Moreau(fp.L1(0.001)), "Moreau(L2(0.1))": by_l2,
        }.items():  # fmt: skip
            start = one(before).w
            contenders[f"{name}, from w̃"] = lambda one=one, start=start: one(after, start=start).w
    print(json.dumps(aggregation.timed(contenders, repeats=15, least=0.3, seconds=3.0)))


def run(checkout, *args, **environment):
    """Return the JSON that a script of this checkout prints in the environment of another one."""
    python = Path(checkout) / ".venv" / "bin" / "python"
    done = subprocess.run(
        [str(python), *args], capture_output=True, text=True, check=True,
        env=os.environ | environment,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def run_alternately(other, *args):
    """Run a script for the other checkout, for this one, and for the other one again.

    Returns:
        The first and second result of the other checkout, and the result of this one.
    """
    first = run(other, *args)
    mine = run(HERE.parent, *args)
    return first, run(other, *args), mine


def aggregation_shares(other, sizes):
    """Return the times of all aggregators at all sizes, and each share of the other's speed."""
    rows = {}
    for n, d in sizes:
        args = [str(HERE / "against.py"), other, "--worker", str(n), str(d)]
        first, second, mine = run_alternately(other, *args)
        rows[f"{n} × {d:,}"] = {
            name: {"ms": [first[name], second[name], ms],
                   "share": round((first[name] + second[name]) / 2 / ms, 2)}
            for name, ms in mine.items()
        }  # fmt: skip
        print(n, d, {name: row["share"] for name, row in rows[f"{n} × {d:,}"].items()}, flush=True)
    return rows


def simulation_shares(other, workloads, seconds):
    """Return rounds per second, memory and the time to the first round of both checkouts."""
    rows = {}
    for workload in workloads:
        for method in WORKLOADS[workload]:
            script = [str(HERE / "ours.py"), "--workload", workload, "--method", method]
            first, second, mine = run_alternately(other, *script, "--seconds", str(seconds))
            before = (first["rounds_per_second"] + second["rounds_per_second"]) / 2
            rows[f"{workload} {method}"] = row = {
                "rounds a second": [round(before, 2), mine["rounds_per_second"]],
                "share": round(mine["rounds_per_second"] / before, 2),
                "peak MB": [min(first["peak_rss_mb"], second["peak_rss_mb"]), mine["peak_rss_mb"]],
                "import and compile s": [
                    second["import_and_compile_seconds"], mine["import_and_compile_seconds"]
                ],
            }  # fmt: skip
            print(workload, method, row, flush=True)
    return rows


def first_process(other, repeats=3):
    """Return the seconds to the end of the first round with empty caches, for both checkouts."""
    script = [str(HERE / "ours.py"), "--workload", "B", "--method", "fedgeomed+", "--seconds", "1"]
    times = {"other": [], "this": []}
    for _ in range(repeats):
        for name, checkout in (("other", other), ("this", HERE.parent)):
            with tempfile.TemporaryDirectory() as empty:
                caches = dict.fromkeys(("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"), empty)
                times[name].append(run(checkout, *script, **caches)["first_round_seconds"])
    row = {"seconds": times, "share": round(min(times["other"]) / min(times["this"]), 2)}
    print("first process", row, flush=True)
    return row


def main():
    """Run the benchmark, print its results and write them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("other", help="folder of the other checkout, with its .venv")
    parser.add_argument("--name", help="name of the other version in tables; by default its commit")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--workloads", default="A10,A50,B,C", help="workloads of the simulation")
    parser.add_argument(
        "--seconds", type=float, default=4.0, help="seconds of timed rounds per simulation"
    )
    parser.add_argument("--no-aggregation", action="store_true", help="only the simulations")
    parser.add_argument("--worker", nargs=2, type=int, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "against-cpu.json")
    options = parser.parse_args()
    if options.worker:
        return worker(*options.worker)
    sizes = [s for s in SIZES if s[0] * s[1] <= (10**7 if options.quick else ENTRIES_AT_MOST)]
    commit = subprocess.run(
        ["git", "-C", options.other, "rev-parse", "--short", "HEAD"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    report = {"other": options.name or commit, "date": time.strftime("%Y-%m-%d")}
    if options.out.exists():
        report = json.loads(options.out.read_text()) | report
    if not options.no_aggregation:
        report["aggregation"] = aggregation_shares(options.other, sizes)
    names = options.workloads.split(",") if options.workloads else []
    report["simulation"] = report.get("simulation", {}) | simulation_shares(
        options.other, names[:1] if options.quick else names, options.seconds
    )
    if "B" in names:
        report["first round with empty caches, B fedgeomed+"] = first_process(options.other)
    temporary = options.out.with_suffix(".tmp")
    temporary.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    temporary.replace(options.out)
    return None


if __name__ == "__main__":
    main()
