"""``fedplus``: the list of commands, and how a command ends.

Exit status: 0 done, 2 bad input (one line that says what to do), 1 anything else.
"""

import importlib
import os
import sys
import warnings
from typing import Any, NamedTuple, NoReturn

import click

from fedplus import __version__
from fedplus.check import SettingError, lookup
from fedplus.cli.interrupt import InterruptedByUserError


class Command(NamedTuple):
    """Where a command is defined, and its line in ``fedplus --help``."""

    module: str
    attribute: str
    help: str


COMMANDS = {
    "run": Command("run", "run", "Train a method on a federation."),
    "compare": Command("compare", "compare", "Train several methods and show them in one table."),
    "predict": Command("predict", "predict", "Apply a trained model to new rows."),
    "report": Command("report", "report", "Write a report of runs as one HTML file."),
    "board": Command("board", "board", "Watch runs live in the browser."),
    "methods": Command("methods", "methods", "List the methods, or describe one."),
    "data": Command("data", "data", "List, download and describe data sets."),
    "new": Command("new", "new", "Write an app that trains across machines."),
    "app-hash": Command(
        "app_hash", "app_hash", "Show the hash of an app, with which a party approves it."
    ),
}


class LazyGroup(click.Group):
    """A group that imports the module of a command when the command is used.

    ``fedplus --help`` therefore imports neither JAX nor the library.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands in the order of the help text."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; return ``None`` if no command has this name."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(
            importlib.import_module(f"fedplus.cli.{module}"), attribute
        )
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first argument names, or suggest one."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            lookup(name, COMMANDS, "command")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help) for name, command in COMMANDS.items()])


@click.group(name="fedplus", cls=LazyGroup, context_settings={"show_default": True})
@click.option("--debug", is_flag=True, show_default=False, help="Show the traceback of an error.")
@click.version_option(__version__, message="fedplus %(version)s")
def app(debug: bool) -> None:
    """Robust, personalised federated learning.

    \b
    fedplus compare digits-robust                   compare eight methods
    fedplus run digits-robust --method fedgeomed+   train one method; save models and a report
    fedplus data list                               list the data sets
    fedplus methods                                 list the methods
    fedplus new hospitals                           write an app for real machines
    """  # noqa: D301


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run a command of ``fedplus`` and exit."""
    run_app(app, arguments)


def run_app(command: click.Command, arguments: list[str] | None = None) -> NoReturn:
    """Run a Click command and exit; an error is one line on standard error."""
    warnings.showwarning = _show_warning
    try:
        status = _run(command, sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # As in ``fedplus methods | head -1``.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    sys.exit(status)


def _run(command: click.Command, arguments: list[str]) -> int:
    """Return the exit status after printing an error, if any, in one line."""
    try:
        status = command.main(arguments, prog_name=command.name, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message())
        return 0
    except (SettingError, click.ClickException) as error:
        if "--debug" in arguments:
            raise
        message = str(error) if isinstance(error, SettingError) else error.format_message()
        return _print_error(" ".join(message.split()), 2)
    except (click.Abort, KeyboardInterrupt, InterruptedByUserError) as stop:
        return _print_error(f"stopped. {stop}".rstrip(), 1)
    except BrokenPipeError:
        raise
    except Exception as error:
        if "--debug" in arguments:
            raise
        message = " ".join(f"{type(error).__name__}: {error}".split())
        return _print_error(f"{message} (--debug before the command shows where)", 1)
    return 1 if status else 0


def _print_error(message: str, status: int) -> int:
    print(f"fedplus: {message}", file=sys.stderr)
    return status


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning in one line, without the code that it comes from."""
    print(f"fedplus: note: {' '.join(str(message).split())}", file=sys.stderr)
