"""The work of ``run`` and ``compare``: make a folder, train, print a table, write a report."""

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

import click

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
from fedplus.extras import import_extra
from fedplus.files import SHARED, make_folder, write_atomically

out_option = click.option(
    "--out", "-o", type=click.Path(path_type=Path),
    help="Folder to make; by default a new one in runs/, named by date and time.",
)  # fmt: skip
track_option = click.option(
    "--track", multiple=True, metavar="TRACKER", help="Also log to tensorboard or mlflow."
)
RUNS = Path("runs")


class Output(NamedTuple):
    """Writes the report and the tables of runs, and prints the results as a table or as JSON."""

    as_json: bool

    def __call__(self, folder: Path, runs: Sequence[RunFolder], spec: Spec) -> None:
        """Write the report and the tables into ``folder``, print the results, and exit if a run failed.

        Raises:
            click.exceptions.Exit: A run failed (status 1).
        """
        from fedplus.report import table_formats
        from fedplus.report.groups import group_runs
        from fedplus.report.run_data import read_run_data
        from fedplus.report.summary import verdict, warnings
        from fedplus.report.tables import compare_groups

        groups = group_runs([read_run_data(run) for run in runs])
        table = compare_groups(groups)
        shown_warnings = [text for text in warnings(groups, table.score) if " failed: " not in text]
        report, reason = _write_report(runs, folder, spec)
        if len(runs) > 1:
            formats = {
                "csv": table_formats.csv_table,
                "md": table_formats.markdown_results,
                "tex": table_formats.latex_table,
            }
            for suffix, format_table in formats.items():
                content = format_table(table).encode()
                write_atomically(folder / f"table.{suffix}", content, SHARED)
        if self.as_json:
            results = {
                "folder": str(folder),
                "report": None if report is None else str(report),
                "runs": [{"folder": str(run.path), **run.status} for run in runs],
                "table": table_formats.as_records(table),
                "warnings": shown_warnings,
            }
            print(json.dumps(results, indent=2, ensure_ascii=False))
        else:
            from rich.console import Console

            console = Console(highlight=False)
            console.print(table_formats.caption(table) + ".", markup=False)
            console.print(table_formats.terminal_table(table))
            for text in filter(None, (table_formats.footnote(table), verdict(groups, table.score))):
                console.print(text, markup=False)
            for text in shown_warnings:
                console.print(f"Warning: {text}", markup=False)
            if tuned := describe_tuned_settings(spec.data.name, spec.methods):
                print(f"Chosen for {spec.data.name} on validation samples: {tuned}.")
            for inputs in dict.fromkeys(run.parties.get("inputs") for run in runs):
                if inputs:
                    print(f"Data: {inputs}.")
            print(f"Runs and models: {folder}")
            print(f"Report:          {report or reason}")
        failed = [run for run in runs if run.status["state"] == "failed"]
        for run in failed:
            print(f"fedplus: {run.path}: {run.status['message']}", file=sys.stderr)
        if failed:
            raise click.exceptions.Exit(1)


def _write_report(runs: Sequence[RunFolder], folder: Path, spec: Spec) -> tuple[Path | None, str]:
    """Return the report's path, or None and the reason if the extra for it is not installed."""
    try:
        import_extra("plotly", "report", "the report")
    except SettingError as error:
        return None, f"not written: {error}"
    from fedplus.report.html import write_report

    return write_report(runs, folder / REPORT, title=spec.title or None), ""


def execute(
    target: str, methods: Sequence[str], settings: dict[str, Any], seed: int | None,
    seeds: int | None, out: Path | None, track: Sequence[str], output: Output,
) -> None:  # fmt: skip
    """Train methods on data, or what a TOML file specifies, in a new folder."""
    for name, value, least in (("--seed", seed, 0), ("--seeds", seeds, 1)):
        is_valid = value is None or least <= value < 2**31
        require(is_valid, name, value, f"a whole number ≥ {least}")
    chosen_seeds = None
    if seed is not None or seeds is not None:
        chosen_seeds = range(seed or 0, (seed or 0) + (seeds or 1))
    spec, source = spec_from_command(target, methods, settings, chosen_seeds)
    folder = _new_folder(spec, target, out)
    with _remove_if_empty(folder):
        _run(spec, source, folder, track, output, resume=False)


def resume_run(folder: Path, rounds: int | None, track: Sequence[str], output: Output) -> None:
    """Continue the run, or the study of several runs, in a folder; ``rounds`` extends it."""
    require(
        (folder / SPEC).is_file(), "--resume", str(folder), f"a run or study folder, with its {SPEC}",
    )  # fmt: skip
    content, source = read_spec_file(folder / SPEC)
    spec = fill_defaults(parse_spec(content, source))
    if rounds is not None:
        spec = _extend(spec, rounds)
    _run(spec, source, folder, track, output, resume=True)


def _extend(spec: Spec, rounds: int) -> Spec:
    """Return the specification with more rounds, evaluated as often as before."""
    before = spec.train.rounds or 1
    require(
        rounds >= before, "--rounds", rounds, f"at least {before}, the rounds of the run so far"
    )
    every = spec.train.evaluate_every or max(1, before // 20)
    train = spec.train.model_copy(update={"rounds": rounds, "evaluate_every": every})
    return spec.model_copy(update={"train": train})


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
        runs = _train(spec, source, folder, track, resume=resume)
    except UnclearTaskError as error:
        data = {**spec.data.model_dump(exclude_none=True), "task": _chosen_task(error, source)}
        spec = spec.model_copy(update={"data": type(spec.data).model_validate(data)})
        runs = _train(spec, source, folder, track, resume=resume)
    output(folder, runs, spec)


def _train(
    spec: Spec, source: TomlSource, folder: Path, track: Sequence[str], *, resume: bool
) -> list[RunFolder]:
    count = len(run_paths(spec, folder))
    with _progress_bar(spec, count) if count > 1 else nullcontext() as on_progress:
        try:
            return run_all(
                spec, folder, source, resume=resume, trackers=track, on_progress=on_progress
            )
        except KeyboardInterrupt as stop:
            advice = f"Continue with: fedplus run --resume {shlex.quote(str(folder))}"
            raise InterruptedByUserError(advice if (folder / SPEC).exists() else "") from stop


def _chosen_task(error: UnclearTaskError, source: TomlSource) -> str:
    """Ask at a terminal whether the target is an amount or a class; elsewhere refuse."""
    about = f"{source.location(('data',))}target {error.target!r}: {error.reason}"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise SettingError(
            f"{about}. Add --set task=regression if they are amounts such as an age or a price, "
            "--set task=classification if each is a class (in a TOML file: "
            'task = "regression" in [data]).'
        ) from error
    click.echo(f"{about}. Are they amounts (regression) or classes (classification)?", err=True)
    while True:
        answer = click.prompt("Task [classification/regression]", err=True).strip().lower()
        matches = [task for task in TASKS if answer and task.startswith(answer)]
        if matches:
            return matches[0]


@contextmanager
def _progress_bar(spec: Spec, runs: int) -> Iterator[Progress]:
    """Show one progress bar for all runs."""
    from fedplus.simulation.progress import progress_bar

    rounds = spec.train.rounds or 1
    before = {"run": -1, "round": rounds}
    with progress_bar(runs * rounds, 0, None) as show:

        def update(label: str, round_: int, score: float) -> None:
            if round_ <= before["round"]:
                before["run"] += 1
            before["round"] = round_
            show(before["run"] * rounds + round_, f"{label}: {score:.4g}")

        yield update


def _new_folder(spec: Spec, target: str, out: Path | None) -> Path:
    """Make the folder of the runs: ``out`` if it is new or empty, else a free name in runs/."""
    if out is None:
        stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
        methods = spec.methods[0].name if len(spec.methods) == 1 else "compare"
        name = f"{stamp}-{slug(Path(target).stem or target)}-{slug(methods)}"
        candidates = (RUNS / (name if i == 1 else f"{name}-{i}") for i in itertools.count(1))
        out = next(path for path in candidates if not path.exists())
    try:
        is_free = not out.exists() or (out.is_dir() and not any(out.iterdir()))
        has_run = (out / SPEC).is_file()
        advice = f"Give another{', or continue it with --resume' if has_run else ''}."
        require(is_free, "--out", str(out), "a folder that is new or empty", advice)
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
def _remove_if_empty(folder: Path) -> Iterator[None]:
    """Remove the folder if nothing was written into it."""
    try:
        yield
    finally:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
