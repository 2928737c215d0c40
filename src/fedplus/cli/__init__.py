"""The command line."""

from fedplus.cli.app import main

__all__ = ["main"]
