"""Options that several commands share: ``--set KEY=VALUE`` and ``--json``."""

import re
import tomllib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from fedplus.check import require

F = TypeVar("F", bound=Callable[..., Any])
_KEY = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?$")


def _set_option(owner: str) -> Callable[[F], F]:
    return click.option(
        "--set", "settings", multiple=True, metavar="KEY=VALUE",
        help=f"Set one setting of the {owner}; can be repeated.",
    )  # fmt: skip


set_option = _set_option("data, model, training or method")
set_data_option = _set_option("data set")
json_option = click.option(
    "--json", "as_json", is_flag=True, show_default=False,
    help="Print one JSON document on standard output.",
)  # fmt: skip


def parse_settings(given: Sequence[str]) -> dict[str, Any]:
    """Parse ``KEY=VALUE`` texts.

    Args:
        given: The texts. A value is read as TOML (1, 0.5, true, "a", [1, 2]). Python's True and
            False are read as booleans, too; any other text that is not TOML is a string.

    Returns:
        The values by key.

    Raises:
        SettingError: A text is not of this form.

    >>> parse_settings(["parties=50", "reading=deviation", "train.rounds=20", "adaptive=False"])
    {'parties': 50, 'reading': 'deviation', 'train.rounds': 20, 'adaptive': False}
    """
    settings: dict[str, Any] = {}
    for text in given:
        key, equals, value = text.partition("=")
        key = key.strip()
        is_setting = bool(equals) and _KEY.match(key) is not None
        require(is_setting, "--set", repr(text), "KEY=VALUE, e.g. parties=50")
        try:
            settings[key] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            settings[key] = {"True": True, "False": False}.get(value.strip(), value)
    return settings
