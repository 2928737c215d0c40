"""Measure the board with 5,000 runs: the first list, later lists, and the rounds of one run.

    python benchmarks/board.py [RUNS]

The run folders have just been written to a temporary folder, so the system's cache holds their files.
"""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from fedplus.board import index as board_index
from fedplus.board.events import EventStream
from fedplus.board.index import Index

PARTIES, LINES = 100, 200


def write_run(path, number, lines=0):
    """Write a finished run's folder, with this number of evaluated rounds."""
    path.mkdir(parents=True)
    status = {
        "format": "fedplus-run-1", "state": "finished", "label": "FedGeoMed+",
        "method": "fedgeomed+", "data": "digits-robust", "model": "logistic", "seed": number,
        "parties": PARTIES, "round": 150, "rounds": 150, "score_name": "accuracy",
        "better": "higher", "mean": number % 997 / 997, "worst": 0.5, "global_mean": 0.8,
        "started": "2026-11-15T13:30:00+00:00", "updated": "2026-11-15T13:30:04+00:00",
        "seconds": 4.1, "pid": 4711, "host": "atlas", "message": "",
    }  # fmt: skip
    (path / "status.json").write_text(json.dumps(status))
    names = ("personal_score", "personal_loss", "global_score", "global_loss", "v_norm")
    with (path / "rounds.jsonl").open("w") as file:
        for t in range(1, lines + 1):
            few = {"mean": 1 / t, "worst": 1 / t}
            lists = {name: [k / 7 + 1 / t for k in range(PARTIES)] for name in names}
            file.write(json.dumps({"round": t, "personal": few, "global": few} | lists) + "\n")


def milliseconds(act, times=1):
    """Return the median milliseconds of some calls of ``act``."""
    took = []
    for _ in range(times):
        begun = time.perf_counter()
        act()
        took.append(1000 * (time.perf_counter() - begun))
    return statistics.median(took)


def main():
    """Write the run folders, measure and print the times."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for i in range(count):
            write_run(folder / f"study-{i // 100:03}" / f"run-{i:05}", i)
        write_run(folder / "long", 0, LINES)
        size = (folder / "long" / "rounds.jsonl").stat().st_size / 1e6
        index = Index(folder)

        def page(search="", sort="mean"):
            index.page(search, sort, True, 0)

        def scan():
            index._next_scan = 0.0
            index.refresh()

        def rounds():
            stream = EventStream(index, [], "long", 3, "")
            while not (stream.new_messages() and stream.is_up_to_date):
                pass

        print(f"{count} runs, {board_index.PAGE_SIZE} a page; medians")
        print(f"first list                         {milliseconds(page):8.1f} ms")
        print(f"list again, sorted                 {milliseconds(page, 20):8.1f} ms")
        found = milliseconds(lambda: page("geomed 17", "updated"), 20)
        print(f"list again, searched and sorted    {found:8.1f} ms")
        print(f"look for new and changed runs      {milliseconds(scan, 20):8.1f} ms")
        what = f"{LINES} rounds, {PARTIES} parties, {size:.1f} MB"
        print(f"one run's rounds                   {milliseconds(rounds, 5):8.1f} ms  ({what})")


if __name__ == "__main__":
    main()
