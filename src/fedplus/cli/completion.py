"""Shell completion: the names that Tab offers for data sets and methods."""

import click
from click.shell_completion import CompletionItem

from fedplus.data import SETS
from fedplus.methods import METHODS


def complete_data_set(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the data sets whose names begin with ``incomplete``."""
    found = [data_set for name, data_set in SETS.items() if name.startswith(incomplete)]
    return [CompletionItem(data_set.name, help=data_set.summary) for data_set in found]


def complete_method(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the methods whose names begin with ``incomplete``."""
    found = [method for name, method in METHODS.items() if name.startswith(incomplete)]
    return [CompletionItem(method.name, help=method.summary) for method in found]
