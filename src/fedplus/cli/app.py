"""``fedplus``: the commands, and how they end.

Exit status: 0 done, 2 bad input (one line that says what to do), 1 anything else.
"""

import os
import sys
import warnings
from typing import Any, NoReturn

import click
import typer

from fedplus._check import SettingError
from fedplus.cli import data
from fedplus.cli.app_hash import app_hash
from fedplus.cli.compare import compare
from fedplus.cli.methods import methods
from fedplus.cli.new import new
from fedplus.cli.paper import paper
from fedplus.cli.report import board, report
from fedplus.cli.run import run
from fedplus.cli.studied import StoppedError

INTERRUPTED = 130
"""What Typer makes of Ctrl-C."""
app = typer.Typer(
    name="fedplus", no_args_is_help=True, rich_markup_mode=None, suggest_commands=False,
    pretty_exceptions_enable=False,
)  # fmt: skip
for command, short in (
    (run, "Train a method on a federation."),
    (compare, "Train several methods, side by side in a table."),
    (report, "Show runs in one HTML file."),
    (board, "Watch runs live in the browser."),
    (methods, "What there is to choose from, with settings."),
    (new, "Write an app that trains across machines."),
    (app_hash, "Show the hash by which a party pins an app."),
    (paper, "Repeat the paper's experiments."),
):
    app.command(short_help=short)(command)
app.add_typer(data.app, name="data", short_help="Federations by name: list, get, look at.")


@app.callback()
def _common(
    debug: bool = typer.Option(False, "--debug", help="Show where in the code an error arose."),
) -> None:
    """Robust, personalised federated learning.

    \b
    fedplus compare digits-robust                   a first look, in a minute
    fedplus run digits-robust --method fedgeomed+   one method; models, report
    fedplus data list                               what to train on
    fedplus methods                                 what to train with
    fedplus new hospitals                           an app for real machines
    """  # noqa: D301


def _show_warning(message: Warning | str, *place: Any, **more: Any) -> None:
    """In one line, without the code that it comes from."""
    print(f"fedplus: note: {' '.join(str(message).split())}", file=sys.stderr)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run a command and exit."""
    warnings.showwarning = _show_warning
    try:
        status = _run(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # As in ``fedplus methods | head -1``.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    sys.exit(status)


def _run(given: list[str]) -> int:
    """The exit status; what goes wrong is said in one line."""
    try:
        status = app(args=given, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message())
        return 0
    except (SettingError, click.ClickException) as error:
        if "--debug" in given:
            raise
        said = error.format_message() if isinstance(error, click.ClickException) else str(error)
        return _ended(" ".join(said.split()), 2)
    except (click.Abort, KeyboardInterrupt, StoppedError) as stop:
        return _ended(f"stopped. {stop}".rstrip(), 1)
    except BrokenPipeError:
        raise
    except Exception as error:
        if "--debug" in given:
            raise
        told = " ".join(f"{type(error).__name__}: {error}".split())
        return _ended(f"{told} (--debug before the command shows where)", 1)
    if status == INTERRUPTED:
        return _ended("stopped.", 1)
    return 1 if status else 0


def _ended(said: str, status: int) -> int:
    if said:
        print(f"fedplus: {said}", file=sys.stderr)
    return status
