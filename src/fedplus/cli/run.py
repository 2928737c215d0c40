"""``fedplus run``: train one method, or what a TOML file specifies; resume a run."""

from pathlib import Path

import click

from fedplus.check import SettingError, require
from fedplus.cli.completion import complete_data_set, complete_method
from fedplus.cli.execute import Output, execute, out_option, resume_run, track_option
from fedplus.cli.settings import json_option, parse_settings, set_option


@click.command()
@click.argument(
    "target",
    metavar="[DATASET|FOLDER|FILE.toml]",
    required=False,
    shell_complete=complete_data_set,
)
@click.option(
    "--method",
    "-m",
    shell_complete=complete_method,
    help="Name of the method; fedplus methods lists them.",
)
@set_option
@click.option(
    "--rounds",
    type=int,
    help="Number of rounds; with --resume, the number to which a run is extended.",
)
@click.option("--seed", type=int, help="First seed; by default 0, or the seeds of FILE.toml.")
@click.option("--seeds", type=int, help="Number of seeds, counted from --seed.")
@click.option(
    "--local/--no-local",
    default=True,
    show_default=False,
    help="Also train each party alone (local SGD), for comparison (the default).",
)
@out_option
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Continue a run, or a study of several, that was stopped or killed; or extend it.",
)
@track_option
@json_option
def run(
    target: str | None, method: str | None, settings: tuple[str, ...], rounds: int | None,
    seed: int | None, seeds: int | None, local: bool, out: Path | None, resume: Path | None,
    track: tuple[str, ...], as_json: bool,
) -> None:  # fmt: skip
    """Train a method on a federation; the run, its models and its report go into a folder.

    DATASET is a name from fedplus data list; FOLDER has one file per party; FILE.toml is an
    experiment.

    \b
    fedplus run digits-robust --method fedgeomed+
    fedplus run mnist --method ditto --set lam=0.5 --set cohort=20 --rounds 50 --seeds 5
    fedplus run hospitals/ --method fedavg+ --set target=ill
    fedplus run experiment.toml
    fedplus run --resume runs/20261115-093000-digits-robust-fedgeomed+
    fedplus run --resume runs/20261115-093000-digits-robust-fedgeomed+ --rounds 300
    fedplus run runs/20261115-093000-digits-robust-fedgeomed+/spec.toml
    """  # noqa: D301
    output = Output(as_json)
    if resume is not None:
        others = (target, method, settings or None, seed, seeds, out)
        is_alone = local and all(value is None for value in others)
        require(
            is_alone,
            "--resume",
            "together with other options",
            "given alone, or with --rounds, --track and --json",
        )
        resume_run(resume, rounds, track, output)
        return
    if target is None:
        raise SettingError(
            "run must be given a data set, a folder or a TOML file, got none. "
            "E.g. fedplus run digits-robust --method fedgeomed+."
        )
    chosen = parse_settings(settings)
    if rounds is not None:
        chosen["train.rounds"] = rounds
    if not local:
        chosen["reference.local"] = False
    methods = [] if method is None else [method]
    execute(target, methods, chosen, seed, seeds, out, track, output)
