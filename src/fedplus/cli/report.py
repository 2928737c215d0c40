"""``fedplus report``: one HTML file of one run or several."""

import json
from pathlib import Path

import click

from fedplus.check import require
from fedplus.cli.settings import json_option
from fedplus.experiments.run_folder import REPORT, find_run_folders
from fedplus.extras import import_extra


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out",
    "-o",
    type=click.Path(path_type=Path),
    help="File to write; by default report.html in RUN.",
)
@click.option("--title", help="Heading of the report.")
@json_option
def report(runs: tuple[Path, ...], out: Path | None, title: str | None, as_json: bool) -> None:
    """Write one HTML file that shows one run, or several side by side; it needs no network.

    RUN is a run folder, or a folder of runs.

    \b
    fedplus report runs/20261115-093000-digits-robust-fedgeomed+
    fedplus report runs/monday runs/tuesday --out both.html
    """  # noqa: D301
    import_extra("plotly", "report", "fedplus report")
    from fedplus.report.html import write_report

    folders = find_run_folders(list(runs))
    if out is None:
        require(len(runs) == 1, "--out", "none", "given with several RUNs", "E.g. --out both.html.")
        out = runs[0] / REPORT
    require(not out.is_dir(), "--out", str(out), "a file", f"E.g. --out {out / REPORT}.")
    require(out.parent.is_dir(), "--out", str(out), "in a folder that exists")
    path = write_report(folders, out, title=title)
    if as_json:
        written = {"report": str(path), "runs": [str(run.path) for run in folders]}
        print(json.dumps(written, indent=2))
    else:
        print(path)
