"""``fedplus compare``: methods side by side."""

from pathlib import Path

import typer

from fedplus.check import SettingError
from fedplus.cli.completion import complete_data_set
from fedplus.cli.execute import OUT, TRACK, Output, execute
from fedplus.cli.settings import JSON, SET, parse_settings
from fedplus.experiments.defaults import USUAL


def compare(
    target: str = typer.Argument(
        metavar="DATASET|FOLDER", help="A data set by name, or a folder with a file a party.",
        autocompletion=complete_data_set,
    ),
    methods: str = typer.Option(
        ",".join(USUAL), help="Names with commas between; local training is always added."
    ),
    settings: list[str] = SET,
    rounds: int = typer.Option(None, help="How many rounds."),
    seed: int = typer.Option(0, help="The first seed."),
    seeds: int = typer.Option(5, help="How many."),
    out: Path = OUT,
    track: list[str] = TRACK,
    as_json: bool = JSON,
) -> None:  # fmt: skip
    """Train several methods with several seeds: a table, and a report of them all.

    A setting goes to every method that has it. The table is also written as CSV, Markdown and LaTeX.

    \b
    fedplus compare digits-robust
    fedplus compare heart-disease --methods fedavg,ditto,fedgeomed+ --seeds 3 --set eta=0.05
    """  # noqa: D301
    if target.endswith(".toml"):
        raise SettingError(
            f"compare must be given a data set or a folder, got {target}. "
            f"Its methods are compared by: fedplus run {target}."
        )
    names = [name.strip() for name in methods.split(",") if name.strip()]
    names = list(dict.fromkeys(["local", *names]))
    chosen = parse_settings(settings)
    if rounds is not None:
        chosen["train.rounds"] = rounds
    execute(target, names, chosen, seed, seeds, out, track, Output(as_json))
