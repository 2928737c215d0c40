"""``fedplus board``: watch runs live in the browser."""

from pathlib import Path

import typer


def board(
    folder: Path = typer.Argument(Path("runs"), help="A folder of runs."),  # noqa: B008
    host: str = typer.Option("127.0.0.1", help="To be seen by other machines; needs --token."),
    port: int = typer.Option(8421, help="0 takes any that is free.", min=0, max=65535),
    token: str = typer.Option(
        None, envvar="FEDPLUS_BOARD_TOKEN", help="What others must know to look."
    ),
    open_browser: bool = typer.Option(False, "--open", help="Open it in the browser."),
) -> None:
    """A live page over a folder of runs: who is how far, curves side by side, each party's history.

    \b
    fedplus board
    fedplus board runs --port 9000 --open
    """  # noqa: D301
    from fedplus.board import serve

    serve(folder, host=host, port=port, token=token, open_browser=open_browser)
