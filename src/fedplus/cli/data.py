"""``fedplus data``: list, download, locate and describe data sets."""

import json
import shutil
from pathlib import Path
from typing import Any

import click

from fedplus.check import require
from fedplus.cli.completion import complete_data_set
from fedplus.cli.settings import json_option, parse_settings, set_data_option
from fedplus.data import SETS, card, load, table_card
from fedplus.data.federation import Federation
from fedplus.data.files import choose_source, fetch, locate, search_path
from fedplus.data.load import lookup_data_set
from fedplus.data.sets import DataSet
from fedplus.experiments.build import build_federation
from fedplus.experiments.cli_spec import data_table
from fedplus.experiments.defaults import describe_training, describe_tuned_settings
from fedplus.experiments.spec import Data as DataTable
from fedplus.experiments.toml_source import TomlSource
from fedplus.extras import import_extra

name_argument = click.argument("name", shell_complete=complete_data_set)


@click.group(context_settings={"show_default": True})
def data() -> None:
    """List data sets, download their files, and describe what is in them.

    \b
    fedplus data list
    fedplus data card digits-robust
    """  # noqa: D301
    import_extra("pooch", "data", "fedplus data")


@data.command("list", short_help="List all data sets.")
@json_option
def list_sets(as_json: bool) -> None:
    """List all data sets, and whether their files are on this machine."""
    rows = [
        {
            "name": name,
            "summary": data_set.summary,
            "files": _state_of_files(data_set),
            "stand_in_for": data_set.stand_in_for or None,
        }
        for name, data_set in SETS.items()
    ]
    if as_json:
        _print_json(rows)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold")
    for heading in ("name", "files", "description"):
        table.add_column(heading, no_wrap=heading != "description")
    for row in rows:
        description = str(row["summary"])
        if row["stand_in_for"]:
            description += f" [bold](a stand-in for {row['stand_in_for']})[/bold]"
        table.add_row(str(row["name"]), str(row["files"]), description)
    Console().print(table)


@data.command(short_help="Download the files of a data set.")
@name_argument
@json_option
def get(name: str, as_json: bool) -> None:
    """Download the files of a data set into the cache folder, and check them.

    \b
    fedplus data get mnist
    """  # noqa: D301
    paths: list[Path] = []
    for sources in lookup_data_set(name).needs:
        paths += fetch(sources)[1]
    if as_json:
        _print_json([str(path) for path in paths])
        return
    for path in paths:
        print(path)
    if not paths:
        print(f"{name} needs no files.")


@data.command(short_help="Show where data files are.")
@click.argument("name", required=False, shell_complete=complete_data_set)
@json_option
def where(name: str | None, as_json: bool) -> None:
    """Print the folders that are searched; with NAME, each file of that data set and its path."""
    if name is None:
        folders = [str(folder) for folder in search_path.search_folders()]
        if as_json:
            _print_json(folders)
            return
        print("\n".join(folders))
        return
    files = [
        {
            "file": file.path,
            "at": str(path) if path else None,
            "comes_from": file.comes_from,
        }
        for sources in lookup_data_set(name).needs
        for file, path in locate(choose_source(sources))
    ]
    if as_json:
        _print_json(files)
        return
    for row in files:
        print(f"{row['file']}: {row['at'] or 'missing; it comes from ' + str(row['comes_from'])}")
    if not files:
        print(f"{name} needs no files.")


@data.command("card", short_help="Describe a data set, or your own data.")
@click.argument("name", metavar="NAME|FOLDER|FILE", shell_complete=complete_data_set)
@set_data_option
@click.option("--seed", type=int, default=0, help="Seed of the random choices in the data set.")
@click.option(
    "--picture",
    type=click.Path(path_type=Path),
    help="Also draw the data set into this file (PNG, SVG, PDF).",
)
@json_option
def show_card(
    name: str, settings: tuple[str, ...], seed: int, picture: Path | None, as_json: bool
) -> None:
    """Describe a data set by name, or your own: a folder with one file per party, or one table.

    The card of your own data lists the columns, their missing values, and how much the parties
    differ.

    \b
    fedplus data card mnist-robust --set parties=50 --picture mnist.png
    fedplus data card hospitals/ --set target=ill
    fedplus data card patients.csv --set party=hospital --set target=ill
    """  # noqa: D301
    chosen = parse_settings(settings)
    require("seed" not in chosen, "--set", "seed", "a setting of the data set", "Use --seed.")
    is_own = Path(name).exists() and name not in SETS
    federation = _load_own_data(name, seed, chosen) if is_own else load(name, seed=seed, **chosen)
    if picture is not None:
        from fedplus.data.picture import draw_federation

        draw_federation(federation, picture)
    width = shutil.get_terminal_size((100, 24)).columns
    if as_json:
        _print_json((table_card.table_statistics if is_own else card.statistics)(federation))
        return
    if is_own:
        print(table_card.table_card_text(federation, width))
        return
    print(card.card_text(federation, width))
    print(f"Training unless you set it: {describe_training(name)}.")
    if tuned := describe_tuned_settings(name):
        print(f"Settings chosen for it on validation samples: {tuned}.")


def _load_own_data(path: str, seed: int, settings: dict[str, Any]) -> Federation:
    """Load a folder or a table; missing values are no error here, and texts may be of any kind."""
    table = data_table(path)
    defaults = {} if Path(path).is_dir() and any(Path(path).glob("*.npz")) else {"missing": "mean"}
    spec = DataTable.model_validate({**table, **defaults, **settings, "seed": seed})
    return build_federation(spec, TomlSource())


def _state_of_files(data_set: DataSet) -> str:
    files = [file for sources in data_set.needs for file in locate(choose_source(sources))]
    if not files:
        return "none needed"
    if all(file.path for file in files):
        return "here"
    can_download = all(file.path or file.file.urls for file in files)
    return "to download" if can_download else "download by hand"


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))
