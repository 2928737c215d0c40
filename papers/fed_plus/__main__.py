"""``python -m papers.fed_plus``: the paper's experiments."""

import os
from pathlib import Path
from typing import Any

import click

from fedplus.check import lookup, require
from fedplus.cli.app import run_app
from fedplus.cli.interrupt import InterruptedByUserError
from fedplus.files import SHARED, write_atomically
from fedplus.methods import lookup_method

FOLDER = click.Path(path_type=Path)


@click.command("papers.fed_plus", context_settings={"show_default": True})
@click.argument("name", metavar="STUDY", default="")
@click.option("--list", "list_", is_flag=True, show_default=False, help="List the studies.")
@click.option("--quick", is_flag=True, show_default=False, help="Trial: few rounds, one seed.")
@click.option("--seeds", type=int, default=5, help="Number of seeds; a --quick trial has one.")
@click.option("--device", help="cpu or gpu; the default is what JAX finds.")
@click.option("--jobs", type=int, help="Processes; the default is one per core, or one on a GPU.")
@click.option(
    "--only",
    default="",
    show_default=False,
    help="Only specifications whose names contain this text.",
)
@click.option(
    "--methods", default="", show_default=False, help="Only these methods, separated by commas."
)
@click.option("--train/--no-train", default=True, help="Train, or only report finished runs.")
@click.option("--out", "-o", type=FOLDER, default=Path("runs/paper"), help="Folder for the runs.")
@click.option(
    "--results",
    type=FOLDER,
    help="Also write the result files (CSV, JSON, figures) to this folder.",
)
def main(
    name: str,
    list_: bool,
    quick: bool,
    seeds: int,
    device: str | None,
    jobs: int | None,
    only: str,
    methods: str,
    train: bool,
    out: Path,
    results: Path | None,
) -> None:
    """Repeat the paper's experiments: STUDY is one of --list, or all.

    Each study trains runs, summarises them as small files, and draws figures.

    Finished runs are not trained again. The specifications are TOML files that fedplus run accepts.

    \b
    python -m papers.fed_plus --list
    python -m papers.fed_plus table2 --quick
    python -m papers.fed_plus all --seeds 5
    """  # noqa: D301
    from papers.fed_plus.registry import STUDIES
    from papers.fed_plus.specs import spec_names
    from papers.fed_plus.study import StudyOptions

    if list_:
        for study in STUDIES.values():
            print(f"{study.name:<12} {study.summary}")
        return
    require(name != "", "STUDY", "none", f"all or one of: {', '.join(STUDIES)}")
    studies = list(STUDIES.values()) if name == "all" else [lookup(name, STUDIES, "study")]
    require(1 <= seeds < 2**31, "--seeds", seeds, "a whole number ≥ 1")
    require(device in (None, "cpu", "gpu"), "--device", device, "cpu or gpu")
    require(jobs is None or jobs >= 1, "--jobs", jobs, "a whole number ≥ 1")
    known = spec_names()
    is_known = any(only in spec for spec in known)
    require(is_known, "--only", only, "part of a specification's name", f"E.g. {known[0]}.")
    method_names = tuple(part.strip() for part in methods.split(",") if part.strip())
    for method in method_names:
        lookup_method(method)  # Rejects an unknown name.
    processes = jobs or (1 if device == "gpu" else os.cpu_count() or 1)
    for study in studies:
        folder = (out / "quick" if quick else out) / study.name
        folder.mkdir(parents=True, exist_ok=True)
        seed_range = tuple(range(1 if quick else seeds))
        options = StudyOptions(folder, seed_range, quick, processes, device, only, method_names)
        try:
            if train:
                study.train(options)
        except KeyboardInterrupt as stop:
            raise InterruptedByUserError("The same command resumes it.") from stop
        _write_results(study, options, results)


def _write_results(study: Any, options: Any, extra: Path | None) -> None:
    """Write the small files and figures next to the runs and, if given, to a second folder."""
    from papers.fed_plus.plot import write_figures

    own = options.folder / "results"
    folders = [own, *([extra] if extra else [])]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    for name, content in study.collect(options).items():
        for folder in folders:
            write_atomically(folder / name, content.encode(), SHARED)
    for folder in folders:
        write_figures(study, folder)
    for text in study.blocks(own).values():
        print(f"{text}\n")
    print(f"Results: {own}")


if __name__ == "__main__":
    run_app(main)
