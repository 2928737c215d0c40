"""``fedplus``: the commands, and how they end.

Exit status: 0 done, 2 bad input (one line that says what to do), 1 anything else.
"""

import os
import sys
from typing import Any, NoReturn

import click
import typer

from fedplus._check import SettingError
from fedplus.cli import data
from fedplus.cli.compare import compare
from fedplus.cli.methods import methods
from fedplus.cli.report import board, report
from fedplus.cli.run import run

app = typer.Typer(
    name="fedplus", no_args_is_help=True, rich_markup_mode=None, suggest_commands=False,
    pretty_exceptions_enable=False,
    help="Robust, personalised federated learning.",
)  # fmt: skip
for command in (run, compare, report, board):
    app.command()(command)
app.add_typer(data.app, name="data")
app.command()(methods)


@app.callback()
def _common(
    debug: bool = typer.Option(False, "--debug", help="Show where in the code an error arose."),
) -> None:
    """Robust, personalised federated learning."""


def _keep_compiled() -> None:
    """Keep compiled programs in the user's cache folder: a second run of a kind starts at once."""
    import jax

    from fedplus.data.files import place

    if not os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        update: Any = jax.config.update
        update("jax_compilation_cache_dir", str(place.cache() / "compiled"))
        update("jax_persistent_cache_min_compile_time_secs", 0.2)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run a command and exit."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        _keep_compiled()
        app(args=given, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message())
    except (SettingError, click.ClickException) as error:
        if "--debug" in given:
            raise
        said = error.format_message() if isinstance(error, click.ClickException) else str(error)
        if said:
            print(f"fedplus: {' '.join(said.split())}", file=sys.stderr)
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt) as stop:
        print(f"fedplus: stopped. {stop}".rstrip(), file=sys.stderr)
        sys.exit(1)
    except typer.Exit as end:
        sys.exit(end.exit_code)
    except Exception as error:
        if "--debug" in given:
            raise
        told = " ".join(f"{type(error).__name__}: {error}".split())
        print(f"fedplus: {told} (--debug before the command shows where)", file=sys.stderr)
        sys.exit(1)
    sys.exit(0)
