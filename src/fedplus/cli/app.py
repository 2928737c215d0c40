"""``fedplus``: the commands, and how they end.

Exit status: 0 done, 2 bad input (one line that says what to do), 1 anything else.
"""

import importlib
import os
import sys
import warnings
from typing import Any, NamedTuple, NoReturn

import click
import typer
from typer.core import TyperGroup

from fedplus import __version__
from fedplus.check import SettingError
from fedplus.cli.interrupt import InterruptedByUserError

INTERRUPTED = 130
"""The exit status that Typer returns after Ctrl-C."""


class Command(NamedTuple):
    """Where a command is defined, and its line in ``fedplus --help``."""

    module: str
    attribute: str
    help: str


COMMANDS = {
    "run": Command("run", "run", "Train a method on a federation."),
    "compare": Command("compare", "compare", "Train several methods and show them in one table."),
    "report": Command("report", "report", "Write a report of runs as one HTML file."),
    "board": Command("board", "board", "Watch runs live in the browser."),
    "methods": Command("methods", "methods", "List the methods, or describe one."),
    "data": Command("data", "app", "List, download and describe data sets."),
    "new": Command("new", "new", "Write an app that trains across machines."),
    "app-hash": Command("app_hash", "app_hash", "Show the hash by which a party pins an app."),
}


class LazyCommands(TyperGroup):
    """Imports the module of a command when the command is used.

    ``fedplus --help`` therefore imports neither JAX nor the library.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the help text."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; ``None`` if there is none of this name."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        found = getattr(importlib.import_module(f"fedplus.cli.{module}"), attribute)
        if not isinstance(found, typer.Typer):
            function, found = found, typer.Typer(add_completion=False, rich_markup_mode=None)
            found.command()(function)
        command = typer.main.get_command(found)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help) for name, command in COMMANDS.items()])


app = typer.Typer(
    name="fedplus", cls=LazyCommands, no_args_is_help=True, rich_markup_mode=None,
    suggest_commands=False, pretty_exceptions_enable=False,
)  # fmt: skip


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"fedplus {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error."),
    version: bool = typer.Option(
        False, "--version", help="Show the version and exit.", callback=_show_version, is_eager=True
    ),
) -> None:
    """Robust, personalised federated learning.

    \b
    fedplus compare digits-robust                   compare eight methods, in a minute
    fedplus run digits-robust --method fedgeomed+   train one method; models, report
    fedplus data list                               list the data sets
    fedplus methods                                 list the methods
    fedplus new hospitals                           write an app for real machines
    """  # noqa: D301


def _show_warning(message: Warning | str, *place: Any, **more: Any) -> None:
    """In one line, without the code that it comes from."""
    print(f"fedplus: note: {' '.join(str(message).split())}", file=sys.stderr)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run a command of ``fedplus`` and exit."""
    run_app(app, arguments)


def run_app(application: typer.Typer, arguments: list[str] | None = None) -> NoReturn:
    """Run a Typer application and exit; an error is one line on standard error."""
    warnings.showwarning = _show_warning
    try:
        status = _run(application, sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # As in ``fedplus methods | head -1``.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    sys.exit(status)


def _run(application: typer.Typer, given: list[str]) -> int:
    """Return the exit status after printing an error, if any, in one line."""
    try:
        status = application(args=given, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message())
        return 0
    except (SettingError, click.ClickException) as error:
        if "--debug" in given:
            raise
        said = error.format_message() if isinstance(error, click.ClickException) else str(error)
        return _ended(" ".join(said.split()), 2)
    except (click.Abort, KeyboardInterrupt, InterruptedByUserError) as stop:
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
