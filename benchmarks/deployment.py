"""Compare a deployment with Flower's own FedAvg: seconds per round, message sizes, server memory.

    python benchmarks/deployment.py                 # writes benchmarks/results/deployment-cpu.json
    python benchmarks/deployment.py --quick         # one size, two runs of each

Rounds are measured in real processes on this machine, with TLS and node keys, and three parties that
take one step. All contenders run in the same deployment (Flower's own with a party that does not use
fedplus), one after the other, then in the opposite order, and so on. The median round counts; the first
one, in which programs are compiled, is reported separately. The server's own part of a round is also
measured alone, in CPU time.
Messages are measured as Flower serialises them. The server's memory is the peak of a separate process,
minus its memory before the first round.
"""

import argparse
import dataclasses
import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests" / "flower"))
CONTENDERS = ("Flower's FedAvg", "fedavg+", "fedgeomed+")
PARTIES, COHORT = 3, 10


def measure_rounds(d, repeats, rounds):
    """Return the seconds of the first round, and the median of the later rounds, of each strategy."""
    from app_deployment import AppDeployment

    first = {name: [] for name in CONTENDERS}
    later = {name: [] for name in CONTENDERS}
    with tempfile.TemporaryDirectory() as name:
        deployment = AppDeployment(Path(name) / "deployment", [HERE / "deployment_app"])
        try:
            deployment.start(PARTIES)
            for repeat in range(repeats):
                for contender in CONTENDERS[:: 1 if repeat % 2 == 0 else -1]:
                    folder = Path(name) / f"{repeat}-{len(first[contender])}-{abs(hash(contender))}"
                    folder.mkdir()
                    config = {
                        "contender": contender,
                        "d": d,
                        "rounds": rounds,
                        "folder": str(folder),
                    }
                    deployment.submit(HERE / "deployment_app", **config)
                    times = folder / "times.json"
                    deployment.wait_until(times.exists, contender, 900)
                    took = np.diff(json.loads(times.read_text()))
                    first[contender].append(took[0])
                    later[contender] += took[1:].tolist()
                    print(d, contender, np.round(took, 2), flush=True)
        finally:
            deployment.close()
    return {
        name: {"first": float(np.median(first[name])), "later": float(np.median(later[name]))}
        for name in CONTENDERS
    }


def echo(message, context):
    """Return the reply of a party, which is the model it received, slightly changed."""
    from flwr.app import Message, MetricRecord, RecordDict

    from fedplus.flower.records import from_record, to_record

    arrays = from_record(message.content["arrays"])
    moved = {name: a + np.float32(context.node_id % 7) for name, a in arrays.items()}
    content = RecordDict({"arrays": to_record(moved), "metrics": MetricRecord({"num-examples": 1})})
    return Message(content, reply_to=message)


def measure_messages(d):
    """Return the bytes of the server's message and of the party's reply, as Flower sends them."""
    from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

    import fedplus as fp
    from fedplus.flower import FedPlus, InProcessGrid

    found = []

    def weigh(message):
        found.append(sum(len(o.deflate()) for o in get_all_nested_objects(message).values()))
        return message

    grid = InProcessGrid(lambda m, c: weigh(echo(weigh(m), c)), 1)
    method = fp.presets.fedgeomed_plus(eta=0.1, sigma=0.5)
    FedPlus(method, rounds=1).run(grid, {"w": np.zeros(d, np.float32)})
    return {"d": d, "to the party": found[0], "to the server": found[1]}


def measure_server_cpu(d, rounds=9):
    """Return the server's CPU seconds between the replies of a round and the next messages."""
    import time

    from flwr.app import Array, ArrayRecord
    from flwr.serverapp.strategy import FedAvg

    from fedplus import presets
    from fedplus.flower import FedPlus, InProcessGrid

    class Clocked(InProcessGrid):
        def send_and_receive(self, messages, *, timeout=None):
            messages = list(messages)
            if not messages:  # Flower sends an empty list if no party evaluates.
                return []
            clock.append(time.process_time())
            replies = super().send_and_receive(messages, timeout=timeout)
            clock.append(time.process_time())
            return replies

    first, found = np.zeros(d, np.float32), {}
    for name in CONTENDERS:
        clock, grid = [], Clocked(echo, PARTIES)
        with tempfile.TemporaryDirectory() as folder:
            if name == CONTENDERS[0]:
                strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=3, min_available_nodes=3)
                strategy.start(grid, ArrayRecord({"w": Array(first)}), num_rounds=rounds)
            else:
                method = getattr(presets, name.replace("+", "_plus"))(eta=0.1, sigma=0.5)
                FedPlus(method, rounds=rounds, folder=folder).run(grid, {"w": first})
        took = np.subtract(clock[2::2], clock[1:-1:2])
        found[name] = {"first": float(took[0]), "later": float(np.median(took[1:]))}
    return found


def measure_server_memory(n, d, over, rounds=12):
    """Return the megabytes that a server with n parties, ten per round, uses beyond its start."""
    command = [sys.executable, __file__, "--server-memory", str(n), str(d), over, str(rounds)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return {"n": n, "d": d, "over": over, "MB": float(done.stdout.split()[-1])}


def run_server(n, d, over, rounds):
    """Run a server with n parties in this process, and print the megabytes it uses beyond its start."""
    import fedplus as fp
    from fedplus.flower import FedPlus, InProcessGrid

    method = dataclasses.replace(fp.presets.fedgeomed_plus(eta=0.1, sigma=0.5), over=over)
    grid = InProcessGrid(echo, n)
    before = peak()
    FedPlus(method, rounds=rounds, cohort=COHORT).run(grid, {"w": np.zeros(d, np.float32)})
    print(peak() - before)


def peak():
    """Return the peak megabytes of this process; getrusage would include those of its parent."""
    (line,) = [x for x in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in x]
    return int(line.split()[1]) / 1024


def table(head, rows):
    """Print a Markdown table; the first column is text."""
    for line in (head, ["---", *["---:"] * (len(head) - 1)], *rows):
        print("| " + " | ".join(map(str, line)) + " |")
    print(flush=True)


def main():
    """Run the benchmark, print its results and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one size, two runs of each")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "deployment-cpu.json")
    parser.add_argument("--server-memory", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.server_memory:
        n, d, over, rounds = options.server_memory
        run_server(int(n), int(d), over, int(rounds))
        return
    report = {"machine": platform.platform(), "server": {}, "rounds": {}}
    report["messages"] = [measure_messages(d) for d in (1_000, 100_000, 1_000_000)]
    rows = [[f"{m['d']:,}", f"{m['to the party']:,}", f"{m['to the server']:,}",
             f"{m['to the server'] - 4 * m['d']:,}"] for m in report["messages"]]  # fmt: skip
    table(["d", "bytes to a party", "bytes to the server", "beyond 4 d"], rows)
    for d in (100_000, 1_000_000):
        report["server"][str(d)] = found = measure_server_cpu(d)
        rows = [[name, *(f"{1e3 * f[key]:.0f}" for key in ("first", "later"))]
                for name, f in found.items()]  # fmt: skip
        table([f"the server's CPU, d = {d:,}", "first round, ms", "median round, ms"], rows)
    sizes = (10, 100, 1000)
    report["memory"] = [
        measure_server_memory(n, 20_000, over) for over in ("active", "all") for n in sizes
    ]
    rows = [[f"over={over!r}", *(f"{m['MB']:.0f}" for m in report["memory"] if m["over"] == over)]
            for over in ("active", "all")]  # fmt: skip
    table(["MB, d = 20,000", *(f"N = {n:,}" for n in sizes)], rows)
    for d in (100_000,) if options.quick else (100_000, 1_000_000):
        found = measure_rounds(d, 2 if options.quick else 4, 4)
        report["rounds"][str(d)] = found
        base = found[CONTENDERS[0]]["later"]
        rows = [[name, f"{f['first']:.2f}", f"{f['later']:.2f}", f"{f['later'] / base:.2f}"]
                for name, f in found.items()]  # fmt: skip
        table([f"d = {d:,}", "first round, s", "median round, s", "in Flower's FedAvg"], rows)
        options.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
