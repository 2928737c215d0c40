"""``fedplus app-hash``: the hash by which a party pins an app."""

from pathlib import Path

import typer

from fedplus.check import SettingError

FOLDER = typer.Argument(Path(), help="Of the app.", show_default="this folder")


def app_hash(folder: Path = FOLDER) -> None:
    """Print the SHA-256 hash of an app, which is the hash of the bundle that Flower sends to parties.

    A party's operator reviews the app's code and pins it: fedplus-supernode --app-hash HASH.
    """
    try:
        from fedplus.flower.pinning import app_hash as hash_of
    except ModuleNotFoundError as error:
        if error.name != "flwr":
            raise
        raise SettingError(
            "fedplus app-hash needs flwr, which is not installed. "
            "Install it with: pip install 'fedplus[flower]'."
        ) from error
    print(hash_of(folder))
