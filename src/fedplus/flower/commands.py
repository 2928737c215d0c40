"""``fedplus-superlink`` and ``fedplus-supernode``: Flower's commands with access control.

They accept all options of ``flower-superlink`` and ``flower-supernode``, and refuse to start if the
access control would not work.
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

SUPPORTED_VERSIONS = ("1.41", "1.42")
"""Versions of Flower for which the access control was checked."""


def superlink() -> None:
    """Run ``flower-superlink`` so that only the user who runs it can control it."""
    parser = _parser("fedplus-superlink")
    options, flower_options = parser.parse_known_args()
    with _ExitOnSettingError(parser):
        _require_supported_flower()
        for name in (FLWR_INTERNAL_GRPC_CONTROL_API, FLWR_INTERNAL_GRPC_FLEET_API):
            if name in os.environ:
                raise SettingError(
                    f"Remove the environment variable {name}: it opens another port, which is not "
                    "protected."
                )
        _restrict_access(options)
    from flwr.superlink.cli import flower_superlink

    _run_flower(flower_superlink, "flower-superlink", flower_options)


def supernode() -> None:
    """Run ``flower-supernode`` so that it runs only pinned apps and answers only its own user."""
    parser = _parser("fedplus-supernode")
    parser.add_argument(
        "--app-hash", action="append", default=[], metavar="SHA256",
        help="hash of an app that may run here, as `fedplus app-hash` prints it; can be repeated",
    )  # fmt: skip
    options, flower_options = parser.parse_known_args()
    with _ExitOnSettingError(parser):
        _require_supported_flower()
        from fedplus.flower.app_pinning import pin_apps

        pin_apps(options.app_hash)
        _restrict_access(options)
    from flwr.supernode.cli import flower_supernode

    _run_flower(flower_supernode, "flower-supernode", flower_options)


def _parser(name: str) -> argparse.ArgumentParser:
    flower_name = name.replace("fedplus", "flower")
    parser = argparse.ArgumentParser(
        name, allow_abbrev=False, epilog=f"All other options are those of {flower_name}."
    )
    parser.add_argument(
        "--allow-any-user", action="store_true",
        help="answer every user of this machine, as Flower does; for systems other than Linux",
    )  # fmt: skip
    return parser


class _ExitOnSettingError:
    """Prints a ``SettingError`` in one line and exits with status 2."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.parser = parser

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: object, __: object) -> None:
        if isinstance(error, SettingError):
            self.parser.exit(2, f"{self.parser.prog}: {error}\n")


def _restrict_access(options: argparse.Namespace) -> None:
    if options.allow_any_user:
        log(WARNING, "--allow-any-user: every user of this machine can control this process.")
    else:
        restrict_to_owner()


def _require_supported_flower() -> None:
    version = flwr.__version__
    require(
        version.startswith(tuple(f"{supported}." for supported in SUPPORTED_VERSIONS)), "flwr",
        version, f"version {' or '.join(SUPPORTED_VERSIONS)}",
        "The access control may not work with other versions.",
    )  # fmt: skip


def _run_flower(command: Callable[[], None], name: str, options: list[str]) -> None:
    """Run one of Flower's commands, which read their options from ``sys.argv``."""
    sys.argv = [name, *options]
    command()


if __name__ == "__main__":
    {"superlink": superlink, "supernode": supernode}[sys.argv.pop(1)]()
