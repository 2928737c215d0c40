"""``fedplus app-hash``: the hash by which a party pins an app."""

from pathlib import Path

import click

from fedplus.extras import import_extra


@click.command("app-hash")
@click.argument("folder", type=click.Path(path_type=Path), default=Path())
def app_hash(folder: Path) -> None:
    """Print the SHA-256 hash of the app in FOLDER (by default this folder).

    It is the hash of the bundle that Flower sends to parties. A party's operator reviews the app's
    code and pins it: fedplus-supernode --app-hash HASH.
    """
    import_extra("flwr", "flower", "fedplus app-hash")
    from fedplus.flower import app_pinning

    print(app_pinning.app_hash(folder))
