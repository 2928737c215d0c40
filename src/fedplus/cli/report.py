"""``fedplus report``: one HTML file of one run or several."""

import json
from pathlib import Path

import typer

from fedplus.check import require
from fedplus.cli.settings import JSON
from fedplus.experiments.run_folder import REPORT, run_folders

RUN = typer.Argument(help="Run folders, or folders of runs.", metavar="RUN...")
OUT = typer.Option(None, "--out", "-o", help="The file; by default report.html in the RUN.")


def report(
    runs: list[Path] = RUN,
    out: Path = OUT,
    title: str = typer.Option(None, help="What stands at the top."),
    as_json: bool = JSON,
) -> None:  # fmt: skip
    """One HTML file that shows one run, or several beside each other; it needs no network.

    \b
    fedplus report runs/20261115-093000-digits-robust-fedgeomed+
    fedplus report runs/monday runs/tuesday --out both.html
    """  # noqa: D301
    from fedplus.report.html import write_report

    found = run_folders(runs)
    if out is None:
        require(len(runs) == 1, "--out", "none", "given with several RUNs", "E.g. --out both.html.")
        out = runs[0] / REPORT
    require(not out.is_dir(), "--out", str(out), "a file", f"E.g. --out {out / REPORT}.")
    require(out.parent.is_dir(), "--out", str(out), "in a folder that is there")
    path = write_report(found, out, title=title)
    if as_json:
        print(json.dumps({"report": str(path), "runs": [str(run.path) for run in found]}, indent=2))
    else:
        print(path)
