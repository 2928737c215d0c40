"""``fedplus new``: write a complete app to deploy."""

from pathlib import Path

import click

from fedplus.new import FRAMEWORKS, write_app


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--framework", default="torch", help=f"One of: {', '.join(FRAMEWORKS)}.")
def new(folder: Path, framework: str) -> None:
    """Write an app that trains across machines with Fed+ on Flower: server, party, test, scripts.

    FOLDER is the new folder; its last part is the app's name.

    \b
    fedplus new hospitals                    with PyTorch
    fedplus new plants --framework jax       with JAX and Equinox
    fedplus new meters --framework numpy     with NumPy alone
    """  # noqa: D301
    package = write_app(folder, framework)
    print(
        f"{folder} is an app for {FRAMEWORKS[framework].title}. In it:\n"
        "  pip install -e .[test,simulation]\n"
        f"  python -m {package:<18} in this process\n"
        "  flwr run . --stream          on Flower's simulation: README.md says with which settings\n"
        "  python deploy.py             a TLS deployment on this machine\n"
        "  pytest                       its test\n"
        f"What to change for your own data: {package}/data.py, model.py, method.py; see README.md."
    )
