"""``python -m papers.fed_plus``: the paper's experiments."""

import os
from pathlib import Path
from typing import Any

import typer

from fedplus.check import lookup, require
from fedplus.cli.app import run_app
from fedplus.cli.interrupt import InterruptedByUserError
from fedplus.files import SHARED, write_atomically
from fedplus.methods import lookup_method

OUT = typer.Option(Path("runs/paper"), "--out", "-o", help="For runs and results.")
RESULTS = typer.Option(None, help="Write the small files of results here, too.")

app = typer.Typer(
    name="papers.fed_plus",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.command()
def paper(
    name: str = typer.Argument("", metavar="STUDY", help="By name, or all; --list has them."),
    list_: bool = typer.Option(False, "--list", help="The studies, a line each."),
    quick: bool = typer.Option(False, "--quick", help="A try: few rounds, one seed, same code."),
    seeds: int = typer.Option(5, help="How many, from 0 on; a --quick try has one."),
    device: str = typer.Option(None, help="cpu or gpu; by default what JAX finds."),
    jobs: int = typer.Option(None, help="Processes; by default one a core, on a GPU one."),
    only: str = typer.Option("", help="Only specifications with this in their name."),
    methods: str = typer.Option("", help="Only these, with commas between."),
    train: bool = typer.Option(
        True, "--train/--no-train", help="Without: only tell what is finished.", show_default=False
    ),
    out: Path = OUT,
    results: Path = RESULTS,
) -> None:
    """Repeat the paper's experiments: runs, small files of results, figures.

    What is finished is not trained again. The specifications are TOML files that fedplus run takes.

    \b
    python -m papers.fed_plus --list
    python -m papers.fed_plus table2 --quick
    python -m papers.fed_plus all --seeds 5
    """  # noqa: D301
    from papers.fed_plus.studies import STUDIES
    from papers.fed_plus.study import Asked

    from papers.fed_plus import specs

    if list_:
        for study in STUDIES.values():
            print(f"{study.name:<12} {study.summary}")
        return
    require(name != "", "STUDY", "none", f"all or one of: {', '.join(STUDIES)}")
    chosen = list(STUDIES.values()) if name == "all" else [lookup(name, STUDIES, "study")]
    require(1 <= seeds < 2**31, "--seeds", seeds, "a whole number ≥ 1")
    require(device in (None, "cpu", "gpu"), "--device", device, "cpu or gpu")
    require(jobs is None or jobs >= 1, "--jobs", jobs, "a whole number ≥ 1")
    fits = any(only in spec for spec in specs.names())
    require(fits, "--only", only, "part of a specification's name", f"E.g. {specs.names()[0]}.")
    named = tuple(part.strip() for part in methods.split(",") if part.strip())
    for one in named:
        lookup_method(one)  # A wrong name is refused.
    count = jobs or (1 if device == "gpu" else os.cpu_count() or 1)
    top = out / "quick" if quick else out
    for study in chosen:
        folder = top / study.name
        folder.mkdir(parents=True, exist_ok=True)
        drawn = tuple(range(1 if quick else seeds))
        asked = Asked(folder, drawn, quick, count, device, only, named)
        try:
            if train:
                study.train(asked)
        except KeyboardInterrupt as stop:
            raise InterruptedByUserError("The same command goes on.") from stop
        _written(study, asked, results)


def _written(study: Any, asked: Any, results: Path | None) -> None:
    """The small files and the figures, beside the runs and where they are wanted, too."""
    from papers.fed_plus.plot import drawn

    kept = asked.folder / "results"
    places = [kept, *([results] if results else [])]
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
    for name, content in study.collect(asked).items():
        for place in places:
            write_atomically(place / name, content.encode(), SHARED)
    for place in places:
        drawn(study, place)
    for text in study.blocks(kept).values():
        print(f"{text}\n")
    print(f"Results: {kept}")


if __name__ == "__main__":
    run_app(app)
