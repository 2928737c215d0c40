"""Restricts a party to apps that its operator has reviewed, by the hash of Flower's app bundle.

With each run Flower sends the app's code from the server to the SuperNode, which executes it. Flower's
own ``--trusted-entities`` needs a signature from Flower's hub. Here the operator gives SHA-256 hashes
instead, and the SuperNode checks each bundle before it stores it: no code of another app is executed.
"""

import hashlib
import inspect
import re
import warnings
from collections.abc import Collection
from logging import ERROR
from pathlib import Path
from typing import Any

from flwr.app import Error, Message
from flwr.cli.build import build_fab_from_disk
from flwr.common import log
from flwr.common.constant import ErrorCode
from flwr.supercore.fab import Fab
from flwr.supernode import start_client_internal

from fedplus.check import SettingError, require

PULL, INSERT = "_pull_and_store_message", "_insert_message"
"""Names of the two functions of Flower that this module uses."""
PULL_PARAMETERS = {"state", "object_store", "receive", "get_fab"}
"""Parameters of Flower's pull function that this module relies on."""


class AppRefusedError(Exception):
    """A run's app is not one that the operator has pinned."""


def app_hash(folder: Path) -> str:
    """Return the SHA-256 hash of an app, which is Flower's own ``fab_hash``.

    Args:
        folder: The app's folder, with its ``pyproject.toml``.

    Raises:
        SettingError: Flower cannot build an app from the folder.
    """
    require((folder / "pyproject.toml").is_file(), "app", folder, "a folder with a pyproject.toml")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # From a library that Flower uses.
            return hashlib.sha256(build_fab_from_disk(folder)).hexdigest()
    except ValueError as error:
        raise SettingError(f"app must be a Flower app, got {folder}. {error}") from error


def pin_apps(hashes: Collection[str]) -> None:
    """Make the SuperNode of this process refuse all apps except those with these hashes.

    A refused run gets an error as its reply, and the SuperNode logs one line.

    Args:
        hashes: SHA-256 hashes, as ``app_hash`` returns them.

    Raises:
        SettingError: There is no hash, a hash is malformed, or this version of Flower is not supported.
    """
    advice = "`fedplus app-hash FOLDER` prints the hash of an app that you have reviewed."
    require(len(hashes) > 0, "--app-hash", "none", "given at least once", advice)
    for digest in hashes:
        is_valid = re.fullmatch("[0-9a-f]{64}", digest) is not None
        allowed = "64 hexadecimal digits in lower case"
        require(is_valid, "--app-hash", repr(digest), allowed, advice)
    pull = getattr(start_client_internal, PULL, None)
    insert = getattr(start_client_internal, INSERT, None)
    is_supported = (
        callable(pull)
        and set(inspect.signature(pull).parameters) >= PULL_PARAMETERS
        and callable(insert)
    )
    require(
        is_supported, "flwr", f"a version without {PULL} and {INSERT}",
        "a version that fedplus can check", "Install flwr 1.41 or 1.42.",
    )  # fmt: skip

    def pull_checked(**arguments: Any) -> int | None:
        messages: list[Message] = []

        def receive() -> tuple[Message, Any] | None:
            received: tuple[Message, Any] | None = arguments["receive"]()
            if received is not None:
                messages.append(received[0])
            return received

        def get_fab(fab_hash: str, run_id: int) -> Fab:
            fab: Fab = arguments["get_fab"](fab_hash, run_id)
            actual = hashlib.sha256(fab.content).hexdigest()
            if actual not in hashes or actual != fab_hash:
                raise AppRefusedError(
                    f"Refused run {run_id}: its app must be one that --app-hash pins, got {actual}."
                )
            return fab

        try:
            stored: int | None = pull(**arguments | {"receive": receive, "get_fab": get_fab})  # type: ignore[misc]
        except AppRefusedError as refusal:
            log(ERROR, "%s", refusal)
            reply = Message(Error(ErrorCode.INVALID_FAB, str(refusal)), reply_to=messages[-1])
            insert(reply, arguments["state"], arguments["object_store"])  # type: ignore[misc]
            return messages[-1].metadata.run_id
        return stored

    setattr(start_client_internal, PULL, pull_checked)
