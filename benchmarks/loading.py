"""Measure how long each federation takes to load from local files: FEDPLUS_DATA=folder.

    FEDPLUS_DATA=... python benchmarks/loading.py      # writes benchmarks/results/loading-cpu.json

The time includes reading, checksums, partitioning and splitting, but not the import of fedplus.
"""

import json
import subprocess
import sys
from pathlib import Path

ONE = """
import sys, time
from fedplus.data import load
from fedplus.data.files import DataError
begun = time.perf_counter()
try:
    load(sys.argv[1])
except DataError as error:
    print("absent")
else:
    print(round(time.perf_counter() - begun, 2))
"""


def main():
    """Run the benchmark, print its results and write them."""
    from fedplus.data import SETS

    found = {}
    for name in SETS:
        tries = [
            subprocess.run(
                [sys.executable, "-c", ONE, name], capture_output=True, text=True, check=True
            ).stdout.strip()
            for _ in range(3)
        ]
        found[name] = None if "absent" in tries else min(map(float, tries))
        print(f"{name:22} {found[name]} s", flush=True)
    out = Path(__file__).parent / "results" / "loading-cpu.json"
    temporary = out.with_suffix(".tmp")
    temporary.write_text(json.dumps(found, indent=1) + "\n")
    temporary.replace(out)


if __name__ == "__main__":
    main()
