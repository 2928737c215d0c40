"""Compare the rounds per second of SCAFFOLD, Ditto, APFL and pFedMe with peers, on workload A10.

    python benchmarks/methods.py                       # writes benchmarks/results/methods-cpu.json

Each contender runs in a separate process. fedplus runs before and after the peers, and the mean of its
two rates counts.
"""

import argparse
import json
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "peers"))

from run import PEERS, environment, requirements_of, run_one  # noqa: E402

from simulation import average_runs, ours  # noqa: E402

METHODS = ("scaffold", "ditto", "apfl", "pfedme")


def main():
    """Run the benchmark, print its results and write them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="seconds of timed rounds per run"
    )
    options = parser.parse_args()
    report = {"cores": os.cpu_count(), "load before": round(os.getloadavg()[0], 1), "methods": {}}
    for method in METHODS:
        repeats = [ours("A10", method, options.seconds)]
        peers = []
        for name, peer in PEERS.items():
            if method in peer.methods:
                python = environment(peer.environment, requirements_of(peer))
                entry = {"peer": name, "method": method}
                found = {"error": "cannot be installed"}
                if python is not None:
                    found = run_one(python, peer, "A10", method, options.seconds, 600)
                peers.append(entry | found)
                print(json.dumps(peers[-1]), flush=True)
        repeats.append(ours("A10", method, options.seconds))
        mine = average_runs(repeats)
        rates = {p["peer"]: p["rounds_per_second"] for p in peers if "error" not in p}
        times = {name: round(mine["rounds_per_second"] / rate, 1) for name, rate in rates.items()}
        report["methods"][method] = {"fedplus": mine, "peers": peers, "times": times}
        print(method, mine["rounds_per_second"], times, flush=True)
    out = HERE / "results" / "methods-cpu.json"
    temporary = out.with_suffix(".tmp")
    temporary.write_text(json.dumps(report, indent=1) + "\n")
    temporary.replace(out)


if __name__ == "__main__":
    main()
