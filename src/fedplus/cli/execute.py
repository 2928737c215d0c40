"""What ``run`` and ``compare`` share: a folder, training, a table, a report."""

import datetime
import itertools
import json
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import typer

from fedplus.check import SettingError, require
from fedplus.cli.interrupt import InterruptedByUserError
from fedplus.data.tables import TASKS, UnclearTaskError
from fedplus.experiments.cli_spec import read_spec_file, spec_from_command
from fedplus.experiments.compilation_cache import enable_compilation_cache
from fedplus.experiments.defaults import describe_tuned_settings, fill_defaults
from fedplus.experiments.run_folder import REPORT, SPEC, RunFolder
from fedplus.experiments.runner import Progress, run_all, run_paths, slug
from fedplus.experiments.spec import Spec, parse_spec
from fedplus.experiments.toml_source import TomlSource
from fedplus.files import SHARED, make_folder, write_atomically

OUT = typer.Option(
    None, "--out", "-o", help="The folder to make; by default one in runs/, named by time."
)
TRACK = typer.Option([], help="Follow it in tensorboard or mlflow, too.")
RUNS = Path("runs")


class Output(NamedTuple):
    """How results are shown."""

    as_json: bool

    def __call__(self, folder: Path, runs: Sequence[RunFolder], spec: Spec) -> None:
        """Print the table, and where everything is."""
        from fedplus.report import table_formats
        from fedplus.report.groups import group_runs
        from fedplus.report.html import write_report
        from fedplus.report.run_data import read_run_data
        from fedplus.report.summary import verdict, warnings
        from fedplus.report.tables import compare_groups

        groups = group_runs([read_run_data(run) for run in runs])
        table = compare_groups(groups)
        warned = [text for text in warnings(groups, table.score) if " failed: " not in text]
        report = write_report(runs, folder / REPORT, title=spec.title or None)
        if len(runs) > 1:
            for suffix, made in (
                ("csv", table_formats.csv_table), ("md", table_formats.markdown_results),
                ("tex", table_formats.latex_table)
            ):  # fmt: skip
                write_atomically(folder / f"table.{suffix}", made(table).encode(), SHARED)
        if self.as_json:
            told = {
                "folder": str(folder), "report": str(report),
                "runs": [{"folder": str(run.path), **run.status} for run in runs],
                "table": table_formats.as_records(table), "warnings": warned,
            }  # fmt: skip
            print(json.dumps(told, indent=2, ensure_ascii=False))
        else:
            from rich.console import Console

            console = Console(highlight=False)
            console.print(table_formats.caption(table) + ".", markup=False)
            console.print(table_formats.terminal_table(table))
            for text in filter(None, (table_formats.footnote(table), verdict(groups, table.score))):
                console.print(text, markup=False)
            for text in warned:
                console.print(f"Warning: {text}", markup=False)
            if chosen := describe_tuned_settings(spec.data.name, spec.methods):
                print(f"Chosen for {spec.data.name} on validation samples: {chosen}.")
            print(f"Runs and models: {folder}")
            print(f"Report:          {report}")
        failed = [run for run in runs if run.status["state"] == "failed"]
        for run in failed:
            print(f"fedplus: {run.path}: {run.status['message']}", file=sys.stderr)
        if failed:
            raise typer.Exit(1)


def execute(
    target: str, methods: Sequence[str], settings: dict[str, Any], seed: int | None,
    seeds: int | None, out: Path | None, track: Sequence[str], output: Output,
) -> None:  # fmt: skip
    """Do what was asked for, from the beginning."""
    for name, value, least in (("--seed", seed, 0), ("--seeds", seeds, 1)):
        ok = value is None or least <= value < 2**31
        require(ok, name, value, f"a whole number ≥ {least}")
    chosen = None
    if seed is not None or seeds is not None:
        chosen = range(seed or 0, (seed or 0) + (seeds or 1))
    spec, source = spec_from_command(target, methods, settings, chosen)
    folder = _new_folder(spec, target, out)
    with _removed_if_empty(folder):
        _run(spec, source, folder, track, output, resume=False)


def resume_run(folder: Path, track: Sequence[str], output: Output) -> None:
    """Go on with a run, or with a study of several."""
    require(
        (folder / SPEC).is_file(), "--resume", str(folder), f"a run folder, with its {SPEC}",
    )  # fmt: skip
    content, source = read_spec_file(folder / SPEC)
    _run(fill_defaults(parse_spec(content, source)), source, folder, track, output, resume=True)


def _run(
    spec: Spec,
    source: TomlSource,
    folder: Path,
    track: Sequence[str],
    output: Output,
    *,
    resume: bool,
) -> None:
    enable_compilation_cache()
    try:
        runs = _trained(spec, source, folder, track, resume=resume)
    except UnclearTaskError as error:
        data = {**spec.data.model_dump(exclude_none=True), "task": _chosen_task(error, source)}
        spec = spec.model_copy(update={"data": type(spec.data).model_validate(data)})
        runs = _trained(spec, source, folder, track, resume=resume)
    output(folder, runs, spec)


def _trained(
    spec: Spec, source: TomlSource, folder: Path, track: Sequence[str], *, resume: bool
) -> list[RunFolder]:
    several = len(run_paths(spec, folder))
    with _shown(spec, several) if several > 1 else nullcontext() as on_progress:
        try:
            return run_all(
                spec, folder, source, resume=resume, trackers=track, on_progress=on_progress
            )
        except KeyboardInterrupt as stop:
            again = f"Go on with: fedplus run --resume {shlex.quote(str(folder))}"
            raise InterruptedByUserError(again if (folder / SPEC).exists() else "") from stop


def _chosen_task(error: UnclearTaskError, source: TomlSource) -> str:
    """Ask at a terminal whether the target is an amount or a class; elsewhere refuse."""
    about = f"{source.where(('data',))}target {error.target!r}: {error.reason}"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise SettingError(
            f"{about}. Add --set task=regression if they are amounts such as an age or a price, "
            "--set task=classification if each is a class (in a TOML file: "
            'task = "regression" in [data]).'
        ) from error
    typer.echo(f"{about}. Are they amounts (regression) or classes (classification)?", err=True)
    while True:
        given = typer.prompt("Task [classification/regression]", err=True).strip().lower()
        found = [task for task in TASKS if given and task.startswith(given)]
        if found:
            return found[0]


@contextmanager
def _shown(spec: Spec, runs: int) -> Iterator[Progress]:
    """One bar for all runs."""
    from fedplus.simulation.progress import progress

    rounds = spec.train.rounds or 1
    before = {"run": -1, "round": rounds}
    with progress(runs * rounds, 0, None) as show:

        def told(label: str, round_: int, score: float) -> None:
            if round_ <= before["round"]:
                before["run"] += 1
            before["round"] = round_
            show(before["run"] * rounds + round_, f"{label}: {score:.4g}")

        yield told


def _new_folder(spec: Spec, target: str, out: Path | None) -> Path:
    """Make the folder: a name that is free, or the one that was asked for, if nothing is there."""
    if out is None:
        stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
        methods = spec.methods[0].name if len(spec.methods) == 1 else "compare"
        name = f"{stamp}-{slug(Path(target).stem or target)}-{slug(methods)}"
        tries = (RUNS / (name if i == 1 else f"{name}-{i}") for i in itertools.count(1))
        out = next(path for path in tries if not path.exists())
    try:
        require(
            not out.exists() or (out.is_dir() and not any(out.iterdir())), "--out", str(out),
            "a folder that is new or empty",
            "Give another, or go on with --resume." if (out / SPEC).is_file() else "Give another.",
        )  # fmt: skip
        make_folder(out)
        if not os.access(out, os.W_OK):
            raise PermissionError("it cannot be written")
    except OSError as error:
        reason = error.strerror or str(error)
        raise SettingError(
            f"--out must be a folder that can be written, got {out} ({reason}). Give another."
        ) from error
    return out


@contextmanager
def _removed_if_empty(folder: Path) -> Iterator[None]:
    """Leave no empty folder behind where nothing was begun."""
    try:
        yield
    finally:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
