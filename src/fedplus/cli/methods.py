"""``fedplus methods``: what there is to choose from."""

import inspect
import json
from typing import Any

import typer

from fedplus.cli.settings import JSON
from fedplus.methods import METHODS, Method, lookup_method

NAME = typer.Argument(None, help="One method; without it, all.")


def methods(name: str | None = NAME, as_json: bool = JSON) -> None:
    """Every method with its settings, defaults and source.

    Example: fedplus methods ditto
    """
    shown = list(METHODS.values()) if name is None else [lookup_method(name)]
    if as_json:
        print(json.dumps([_described(one) for one in shown], indent=2, ensure_ascii=False))
        return
    if name is not None:
        print(_card(shown[0]))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold")
    for heading in ("method", "a party uses", "settings", "what it is"):
        table.add_column(heading, no_wrap=heading in ("method", "a party uses"))
    for one in shown:
        told = f"{one.summary}\n[dim]{one.source}[/dim]"
        table.add_row(one.name, f"{one.judged} model", _settings(one), told)
    console = Console()
    console.print(table)
    console.print("fedplus methods NAME says more.")


def _card(one: Method) -> str:
    rows = {
        "a party uses": f"its {one.judged} model"
        if one.judged == "own"
        else f"the {one.judged} model",
        "settings": _settings(one),
        "a party keeps": f"{_models(one.keeps)} between rounds",
        "a party sends": f"{_models(one.sends)} a round",
        "gradients": f"{one.gradients} a round, with E steps",
        "source": one.source,
    }
    head = f"{one.name}: {one.summary}"
    return "\n".join([head, *(f"  {label + ':':<15}{text}" for label, text in rows.items())])


def _models(count: str) -> str:
    number, _, rest = count.partition(" ")
    noun = "model" if number == "1" else "models"
    return f"{number} {noun} {rest}".strip() if number.isdigit() else f"{count} models"


def _settings(one: Method) -> str:
    empty = inspect.Parameter.empty
    return ", ".join(k if v is empty else f"{k}={v}" for k, v in one.settings.items())


def _described(one: Method) -> dict[str, Any]:
    empty = inspect.Parameter.empty
    settings = {
        k: {"required": v is empty, "default": None if v is empty else v}
        for k, v in one.settings.items()
    }
    rest = {k: v for k, v in one._asdict().items() if k != "make"}
    return rest | {"settings": settings}
