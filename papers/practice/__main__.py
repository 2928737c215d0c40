"""``python -m papers.practice`` runs the study, or a part of it, and skips finished pieces."""

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path

PIECES = Path(__file__).with_name(".pieces")


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the arguments and run the jobs that they select."""
    parser = argparse.ArgumentParser("papers.practice", description=__doc__)
    parser.add_argument("--only", default="", help="parts of federations' names, with commas")
    parser.add_argument("--methods", default="", help="families of methods, with commas")
    parser.add_argument(
        "--quick", action="store_true", help="trial: 4 rounds, 2 candidates, 1 seed"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--minutes", type=float, default=10_000, help="stop after this time")
    parser.add_argument("--out", type=Path, default=PIECES, help="folder of the pieces")
    parser.add_argument("--list", action="store_true", help="show the missing jobs only")
    options = parser.parse_args(arguments)
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    from papers.practice.jobs import run_jobs
    from papers.practice.study import all_jobs

    folder = options.out / "quick" if options.quick else options.out
    folder.mkdir(parents=True, exist_ok=True)
    jobs = all_jobs(folder, _texts(options.only), _texts(options.methods), options.quick)
    if options.list:
        for job in jobs:
            print(job.federation, job.family, *job.missing)
        return
    begin = time.monotonic()
    end = begin + 60 * options.minutes
    for number, (name, seconds) in enumerate(run_jobs(jobs, options.jobs, end), 1):
        spent = time.monotonic() - begin
        print(f"{spent:6.0f} s, {number} of {len(jobs)}: {name}, {seconds:.0f} s", flush=True)


def _texts(option: str) -> list[str]:
    return [text for text in option.split(",") if text]


if __name__ == "__main__":
    main()
