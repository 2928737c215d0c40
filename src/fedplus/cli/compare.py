"""``fedplus compare``: methods side by side."""

from pathlib import Path

import click

from fedplus.check import SettingError
from fedplus.cli.completion import complete_data_set
from fedplus.cli.execute import Output, execute, out_option, track_option
from fedplus.cli.settings import json_option, parse_settings, set_option
from fedplus.experiments.defaults import COMPARED


@click.command()
@click.argument("data", metavar="DATASET|FOLDER", shell_complete=complete_data_set)
@click.option(
    "--methods",
    default=",".join(COMPARED),
    help="Names, separated by commas. Local training is always added.",
)
@set_option
@click.option("--rounds", type=int, help="Number of rounds.")
@click.option("--seed", type=int, default=0, help="First seed.")
@click.option("--seeds", type=int, default=5, help="Number of seeds.")
@out_option
@track_option
@json_option
def compare(
    data: str, methods: str, settings: tuple[str, ...], rounds: int | None, seed: int, seeds: int,
    out: Path | None, track: tuple[str, ...], as_json: bool,
) -> None:  # fmt: skip
    """Train several methods with several seeds; print one table and write one report.

    DATASET is a name from fedplus data list; FOLDER has one file per party. --set applies to every
    method that has the setting. The table is also written as CSV, Markdown and LaTeX.

    \b
    fedplus compare digits-robust
    fedplus compare heart-disease --methods fedavg,ditto,fedgeomed+ --seeds 3 --set eta=0.05
    """  # noqa: D301
    if data.endswith(".toml"):
        raise SettingError(
            f"compare must be given a data set or a folder, got {data}. "
            f"Its methods are compared by: fedplus run {data}."
        )
    names = [name.strip() for name in methods.split(",") if name.strip()]
    names = list(dict.fromkeys(["local", *names]))
    chosen = parse_settings(settings)
    if rounds is not None:
        chosen["train.rounds"] = rounds
    execute(data, names, chosen, seed, seeds, out, track, Output(as_json))
