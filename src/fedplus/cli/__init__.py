"""The command line. ``app`` lists the commands; each command has a module of its name."""

import os

# Help texts are plain text. With Rich, Typer would write "\\[default: 5]", with a backslash.
os.environ.setdefault("TYPER_USE_RICH", "0")

from fedplus.cli.app import main

__all__ = ["main"]
