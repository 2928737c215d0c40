"""``--set key=value`` on the command line."""

import re
import tomllib
from typing import Any

import typer

from fedplus.check import require

_KEY = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?$")

SET = typer.Option([], "--set", metavar="KEY=VALUE", help="A setting; repeat it for more.")
JSON = typer.Option(False, "--json", help="One JSON document on standard output.")


def parse_settings(given: list[str]) -> dict[str, Any]:
    """Values as TOML has them (1, 0.5, true, "a", [1, 2]); anything else is a text.

    >>> parse_settings(["parties=50", "reading=deviation", "train.rounds=20"])
    {'parties': 50, 'reading': 'deviation', 'train.rounds': 20}
    """
    settings: dict[str, Any] = {}
    for one in given:
        key, equals, value = one.partition("=")
        key = key.strip()
        ok = bool(equals) and _KEY.match(key) is not None
        require(ok, "--set", repr(one), "key=value, e.g. parties=50")
        try:
            settings[key] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            settings[key] = value
    return settings
