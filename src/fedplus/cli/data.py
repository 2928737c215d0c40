"""``fedplus data``: what there is, where it is, and what is in it."""

import json
import shutil
from pathlib import Path
from typing import Any

import typer

from fedplus.check import require
from fedplus.cli.settings import JSON, parse_settings
from fedplus.data import SETS, card, load
from fedplus.data.files import choose_source, fetch, locate, search_path
from fedplus.data.load import data_set
from fedplus.experiments.defaults import describe_tuned_settings

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, suggest_commands=False,
    help="Federations by name: list them, get their files, see what is in them.",
)  # fmt: skip
NAME = typer.Argument(help="Of the data set; fedplus data list has them all.")


@app.command("list")
def list_sets(as_json: bool = JSON) -> None:
    """All federations that have a name, and whether their files are here."""
    rows = [
        {
            "name": one.name,
            "summary": one.summary,
            "files": _state(one.name),
            "stand_in_for": one.stand_in_for or None,
        }
        for one in SETS.values()
    ]
    if as_json:
        _print_json(rows)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold")
    for heading in ("name", "files", "what it is"):
        table.add_column(heading, no_wrap=heading != "what it is")
    for row in rows:
        what = str(row["summary"])
        if row["stand_in_for"]:
            what += f" [bold](a stand-in for {row['stand_in_for']})[/bold]"
        table.add_row(str(row["name"]), str(row["files"]), what)
    Console().print(table)


@app.command()
def get(name: str = NAME, as_json: bool = JSON) -> None:
    """Download the files of a set into the cache folder, and check them.

    Example: fedplus data get mnist
    """
    paths: list[Path] = []
    for sources in data_set(name).needs:
        paths += fetch(sources)[1]
    if as_json:
        _print_json([str(path) for path in paths])
        return
    for path in paths:
        print(path)
    if not paths:
        print(f"{name} needs no files.")


@app.command()
def where(
    name: str | None = typer.Argument(None, help="A data set."), as_json: bool = JSON
) -> None:
    """The folders that are searched; with a name, each file of that set and where it is."""
    if name is None:
        folders = [str(folder) for folder in search_path.search_folders()]
        if as_json:
            _print_json(folders)
            return
        print("\n".join(folders))
        return
    found = [
        {
            "file": file.path,
            "at": str(path) if path else None,
            "comes_from": file.comes_from,
        }
        for sources in data_set(name).needs
        for file, path in locate(choose_source(sources))
    ]
    if as_json:
        _print_json(found)
        return
    for one in found:
        print(f"{one['file']}: {one['at'] or 'not here; it comes from ' + str(one['comes_from'])}")
    if not found:
        print(f"{name} needs no files.")


@app.command("card")
def show_card(
    name: str = NAME,
    settings: list[str] = typer.Option([], "--set", help="key=value, e.g. parties=50."),  # noqa: B008
    seed: int = typer.Option(0, help="Of what is random in it."),
    picture: Path | None = typer.Option(None, help="Also draw it into this file (PNG, SVG, PDF)."),  # noqa: B008
    as_json: bool = JSON,
) -> None:
    """What is in a federation, where it comes from, and how it differs from the paper's.

    Example: fedplus data card mnist-robust --set parties=50 --picture mnist.png
    """
    chosen = parse_settings(settings)
    require("seed" not in chosen, "--set", "seed", "a setting of the set", "Use --seed.")
    federation = load(name, seed=seed, **chosen)
    if picture is not None:
        from fedplus.data.picture import draw_federation

        draw_federation(federation, picture)
    if as_json:
        _print_json(card.statistics(federation))
        return
    print(card.card_text(federation, shutil.get_terminal_size((100, 24)).columns))
    if tuned := describe_tuned_settings(name):
        print(f"Settings chosen for it on validation samples: {tuned}.")


def _state(name: str) -> str:
    found = [one for sources in SETS[name].needs for one in locate(choose_source(sources))]
    if not found:
        return "none needed"
    if all(one.path for one in found):
        return "here"
    return "to download" if all(one.path or one.file.urls for one in found) else "to be placed"


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))
