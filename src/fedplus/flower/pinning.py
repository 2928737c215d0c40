"""A party runs only apps that its operator has reviewed, by the hash of Flower's app bundle.

Flower sends the app's code from the server with each run, and the SuperNode executes it. Flower's own
``--trusted-entities`` needs a signature from Flower's hub. Here the operator names SHA-256 hashes
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
NEEDED = {"state", "object_store", "receive", "get_fab"}
"""Parameters of Flower's function that this module relies on."""


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
            warnings.simplefilter("ignore", DeprecationWarning)  # Of the library that Flower uses.
            return hashlib.sha256(build_fab_from_disk(folder)).hexdigest()
    except ValueError as error:
        raise SettingError(f"app must be a Flower app, got {folder}. {error}") from error


def pin_apps(hashes: Collection[str]) -> None:
    """Make the SuperNode of this process refuse all apps but those with these hashes.

    A refused run gets an error as its reply, and the SuperNode logs one line.

    Args:
        hashes: SHA-256 hashes, see ``app_hash``.

    Raises:
        SettingError: There is no hash, one is malformed, or this version of Flower cannot be checked.
    """
    advice = "`fedplus app-hash FOLDER` shows the hash of an app that you have reviewed."
    require(len(hashes) > 0, "--app-hash", "none", "given at least once", advice)
    for one in hashes:
        valid = re.fullmatch("[0-9a-f]{64}", one) is not None
        require(valid, "--app-hash", repr(one), "64 hexadecimal digits in lower case", advice)
    pull = getattr(start_client_internal, PULL, None)
    insert = getattr(start_client_internal, INSERT, None)
    known = (
        callable(pull) and set(inspect.signature(pull).parameters) >= NEEDED and callable(insert)
    )
    require(
        known, "flwr", f"a version without {PULL} and {INSERT}", "a version that fedplus can check",
        "Install flwr 1.41 or 1.42.",
    )  # fmt: skip

    def pull_checked(**given: Any) -> int | None:
        messages: list[Message] = []

        def receive() -> tuple[Message, Any] | None:
            received: tuple[Message, Any] | None = given["receive"]()
            if received is not None:
                messages.append(received[0])
            return received

        def get_fab(fab_hash: str, run_id: int) -> Fab:
            fab: Fab = given["get_fab"](fab_hash, run_id)
            actual = hashlib.sha256(fab.content).hexdigest()
            if actual not in hashes or actual != fab_hash:
                raise AppRefusedError(
                    f"Refused run {run_id}: its app must be one that --app-hash pins, got {actual}."
                )
            return fab

        try:
            stored: int | None = pull(**given | {"receive": receive, "get_fab": get_fab})  # type: ignore[misc]
        except AppRefusedError as refusal:
            log(ERROR, "%s", refusal)
            reply = Message(Error(ErrorCode.INVALID_FAB, str(refusal)), reply_to=messages[-1])
            insert(reply, given["state"], given["object_store"])  # type: ignore[misc]
            return messages[-1].metadata.run_id
        return stored

    setattr(start_client_internal, PULL, pull_checked)
