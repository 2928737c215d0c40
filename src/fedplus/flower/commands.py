"""``fedplus-superlink`` and ``fedplus-supernode``: Flower's commands, protected.

They take all options of ``flower-superlink`` and ``flower-supernode``, and refuse to start where the
protection would not hold.
"""

import argparse
import os
import sys
from collections.abc import Callable
from logging import WARNING

import flwr
from flwr.common import log
from flwr.common.constant import FLWR_INTERNAL_GRPC_CONTROL_API, FLWR_INTERNAL_GRPC_FLEET_API

from fedplus.check import SettingError, require
from fedplus.flower.access import restrict_to_owner

CHECKED = ("1.41", "1.42")
"""Versions of Flower whose code these commands are known to protect."""


def superlink() -> None:
    """Run ``flower-superlink``; only the user who runs it may give it orders."""
    parser = _parser("fedplus-superlink")
    given, rest = parser.parse_known_args()
    with _OneLine(parser):
        _require_checked_flower()
        for name in (FLWR_INTERNAL_GRPC_CONTROL_API, FLWR_INTERNAL_GRPC_FLEET_API):
            require(
                name not in os.environ,
                name,
                os.environ.get(name),
                "unset",
                "It opens another port.",
            )
        _restrict(given)
    from flwr.superlink.cli import flower_superlink

    _hand_over(flower_superlink, "flower-superlink", rest)


def supernode() -> None:
    """Run ``flower-supernode``; only pinned apps run, and only its own user may call it."""
    parser = _parser("fedplus-supernode")
    parser.add_argument(
        "--app-hash", action="append", default=[], metavar="SHA256",
        help="The hash of an app that may run here, from `fedplus app-hash`; may be repeated.",
    )  # fmt: skip
    given, rest = parser.parse_known_args()
    with _OneLine(parser):
        _require_checked_flower()
        from fedplus.flower.pinning import pin_apps

        pin_apps(given.app_hash)
        _restrict(given)
    from flwr.supernode.cli import flower_supernode

    _hand_over(flower_supernode, "flower-supernode", rest)


def _parser(name: str) -> argparse.ArgumentParser:
    flowers = name.replace("fedplus", "flower")
    parser = argparse.ArgumentParser(
        name, allow_abbrev=False, epilog=f"All other options are those of {flowers}."
    )
    parser.add_argument(
        "--allow-any-user", action="store_true",
        help="answer every user of this machine, as Flower does; for systems other than Linux",
    )  # fmt: skip
    return parser


class _OneLine:
    """Turns a ``SettingError`` into one line and exit status 2."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.parser = parser

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: object, __: object) -> None:
        if isinstance(error, SettingError):
            self.parser.exit(2, f"{self.parser.prog}: {error}\n")


def _restrict(given: argparse.Namespace) -> None:
    if given.allow_any_user:
        log(
            WARNING, "--allow-any-user: every user of this machine can give orders to this process."
        )
    else:
        restrict_to_owner()


def _require_checked_flower() -> None:
    version = flwr.__version__
    require(
        version.startswith(tuple(f"{known}." for known in CHECKED)), "flwr", version,
        f"version {' or '.join(CHECKED)}", "Other versions may not be protected.",
    )  # fmt: skip


def _hand_over(command: Callable[[], None], name: str, arguments: list[str]) -> None:
    """Run one of Flower's commands, which read their arguments from ``sys.argv``."""
    sys.argv = [name, *arguments]
    command()


if __name__ == "__main__":
    {"superlink": superlink, "supernode": supernode}[sys.argv.pop(1)]()
