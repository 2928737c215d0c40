"""``fedplus methods``: list the methods, or describe one with all its settings."""

import inspect
import json
import re
import shutil
import textwrap
from typing import Any

import click

from fedplus.cli.completion import complete_method
from fedplus.cli.settings import json_option
from fedplus.experiments.defaults import OWN_DATA, required_settings
from fedplus.methods import METHODS, Method, lookup_method

EMPTY = inspect.Parameter.empty


@click.command()
@click.argument("name", required=False, shell_complete=complete_method)
@json_option
def methods(name: str | None, as_json: bool) -> None:
    """List all methods; with NAME, describe one and all its settings.

    \b
    fedplus methods
    fedplus methods ditto
    """  # noqa: D301
    shown = list(METHODS.values()) if name is None else [lookup_method(name)]
    if as_json:
        print(json.dumps([_as_record(method) for method in shown], indent=2, ensure_ascii=False))
    elif name is not None:
        print(describe_method(shown[0], shutil.get_terminal_size((100, 24)).columns))
    else:
        _print_table(shown)


def _print_table(shown: list[Method]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold")
    for heading in ("method", "a party uses", "description"):
        table.add_column(heading, no_wrap=heading != "description")
    for method in shown:
        table.add_row(method.name, _used_model(method), method.summary)
    console = Console()
    console.print(table)
    console.print("fedplus methods NAME describes a method, its settings and its source.")


def describe_method(method: Method, width: int) -> str:
    """Return a description of a method: its costs, its source, and each setting.

    Args:
        method: The method.
        width: The longest line, in characters.
    """
    facts = {
        "a party uses": _used_model(method),
        "a party stores": _count_models(method.keeps, "between rounds"),
        "a party sends": _count_models(method.sends, "per round"),
        "gradients": f"{method.gradients} per round of E steps",
        "source": method.source,
    }
    lines = [f"{method.name}: {method.summary}"]
    lines += [f"  {label + ':':<16}{text}" for label, text in facts.items()]
    lines += ["", "Settings (--set NAME=VALUE, or in TOML and Python):"]
    for name, default in method.settings.items():
        lines += [f"  {name} ({_describe_default(method, name, default)})"]
        indent = " " * 6
        meaning = method.meanings[name].replace("``", "")
        lines += textwrap.wrap(
            meaning, max(width, 40), initial_indent=indent, subsequent_indent=indent
        )
    return "\n".join(lines)


def _describe_default(method: Method, name: str, default: Any) -> str:
    """Describe a default; for a required setting, what the command line takes in its place."""
    if default is None:
        return "default: the method's own"
    if default is not EMPTY:
        return f"default: {_as_toml(default)}"
    if name == "layout":
        return "required in Python; the command line takes it from the model"
    value = required_settings(method.name, OWN_DATA.eta).get(name)
    if value is None:
        return "required"
    depends = (
        "or the data set's own"
        if value == OWN_DATA.eta
        else "for eta = 0.02"
        if required_settings(method.name, 2 * OWN_DATA.eta)[name]
        != required_settings(method.name, OWN_DATA.eta)[name]
        else ""
    )
    return f"required in Python; on the command line {_as_toml(value)} {depends}".rstrip()


def _as_toml(value: Any) -> str:
    """Return a value as it is written on one line in TOML, and after ``--set NAME=``.

    >>> _as_toml({"*": {"psi": "l2", "delta": 0.3}, "head": [True, 1]})
    '{ "*" = { psi = "l2", delta = 0.3 }, head = [true, 1] }'
    """
    if isinstance(value, dict):
        items = (f"{_as_toml_key(key)} = {_as_toml(item)}" for key, item in value.items())
        return f"{{ {', '.join(items)} }}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_as_toml, value))}]"
    return f"{value:g}" if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def _as_toml_key(key: str) -> str:
    return key if re.fullmatch(r"[\w-]+", key, re.ASCII) else json.dumps(key, ensure_ascii=False)


def _used_model(method: Method) -> str:
    return "its own model" if method.used_model == "own" else f"the {method.used_model} model"


def _count_models(count: str, period: str) -> str:
    """Describe a number of models, e.g. "1 model per round, and receives m" for "1, and receives m"."""
    number, comma, rest = count.partition(",")
    noun = "" if number.endswith("model") else " model" if number == "1" else " models"
    return f"{number}{noun} {period}{comma}{rest}"


def _as_record(method: Method) -> dict[str, Any]:
    settings = {
        name: {
            "required": default is EMPTY,
            "default": None if default is EMPTY else default,
            "meaning": method.meanings[name],
        }
        for name, default in method.settings.items()
    }
    rest = {key: value for key, value in method._asdict().items() if key != "make"}
    return rest | {"settings": settings}
