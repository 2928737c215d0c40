"""``fedplus-superlink`` and ``fedplus-supernode``, if the extra ``flower`` is installed."""

import sys

from fedplus.check import SettingError
from fedplus.extras import import_extra


def superlink() -> None:
    """Run ``fedplus.flower.commands.superlink``."""
    _require_flower("fedplus-superlink")
    from fedplus.flower import commands

    commands.superlink()


def supernode() -> None:
    """Run ``fedplus.flower.commands.supernode``."""
    _require_flower("fedplus-supernode")
    from fedplus.flower import commands

    commands.supernode()


def _require_flower(command: str) -> None:
    try:
        for module in ("flwr", "starlette", "uvicorn"):
            import_extra(module, "flower", command)
    except SettingError as error:
        print(f"{command}: {error}", file=sys.stderr)
        sys.exit(2)
