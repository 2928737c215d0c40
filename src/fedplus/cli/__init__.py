"""The command line. ``app`` lists the commands; each command has a module of its name."""

from fedplus.cli.app import main

__all__ = ["main"]
