"""``--set key=value`` on the command line."""

import tomllib
from typing import Any

from fedplus._check import require


def parsed(given: list[str]) -> dict[str, Any]:
    """Values as TOML has them (1, 0.5, true, "a", [1, 2]); anything else is a text.

    >>> parsed(["parties=50", "reading=deviation", "outliers=0.2"])
    {'parties': 50, 'reading': 'deviation', 'outliers': 0.2}
    """
    settings: dict[str, Any] = {}
    for one in given:
        key, equals, value = one.partition("=")
        ok = bool(equals) and key.strip().isidentifier()
        require(ok, "--set", repr(one), "key=value, e.g. parties=50")
        try:
            settings[key.strip()] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            settings[key.strip()] = value
    return settings
