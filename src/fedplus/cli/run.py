"""``fedplus run``: train, show, keep."""

from pathlib import Path

import typer

from fedplus.check import SettingError, require
from fedplus.cli.completion import complete_data_set, complete_method
from fedplus.cli.execute import OUT, TRACK, Output, execute, resume_run
from fedplus.cli.settings import JSON, SET, parse_settings

RESUME = typer.Option(None, metavar="RUN", help="Go on with a run that was stopped or killed.")


def run(
    target: str = typer.Argument(
        None, metavar="[DATASET|FOLDER|FILE.toml]", show_default=False,
        help="A data set by name, a folder with a file a party, or an experiment.",
        autocompletion=complete_data_set,
    ),
    method: str = typer.Option(
        None, "--method", "-m", help="By name: fedplus methods.", autocompletion=complete_method
    ),
    settings: list[str] = SET,
    rounds: int = typer.Option(None, help="How many rounds."),
    seed: int = typer.Option(None, help="Of everything random; 0 unless the experiment says."),
    seeds: int = typer.Option(None, help="So many seeds, from --seed on."),
    local: bool = typer.Option(
        True, "--local/--no-local", help="Train each party alone, too.", show_default=False
    ),
    out: Path = OUT,
    resume: Path = RESUME,
    track: list[str] = TRACK,
    as_json: bool = JSON,
) -> None:  # fmt: skip
    """Train a method on a federation; the run, its models and its report go into a folder.

    \b
    fedplus run digits-robust --method fedgeomed+
    fedplus run mnist --method ditto --set lam=0.5 --set cohort=20 --rounds 50 --seeds 5
    fedplus run hospitals/ --method fedavg+ --set target=ill
    fedplus run experiment.toml
    fedplus run --resume runs/20261115-093000-digits-robust-fedgeomed+
    fedplus run runs/20261115-093000-digits-robust-fedgeomed+/spec.toml
    """  # noqa: D301
    output = Output(as_json)
    if resume is not None:
        others = (
            target,
            method,
            settings or None,
            rounds,
            seed,
            seeds,
            out,
            None if local else local,
        )
        alone = all(given is None for given in others)
        require(alone, "--resume", "other settings beside it", "given alone, with --track at most")
        resume_run(resume, track, output)
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
