"""``fedplus board``: watch runs live in the browser."""

from pathlib import Path

import click

from fedplus.extras import import_extra


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path("runs"))
@click.option("--host", default="127.0.0.1", help="Address to listen on; any other needs --token.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8421,
    help="Port to listen on; 0 takes any free one.",
)
@click.option(
    "--token",
    envvar="FEDPLUS_BOARD_TOKEN",
    show_envvar=True,
    help="Secret that browsers must know to see the board.",
)
@click.option(
    "--open",
    "open_browser",
    is_flag=True,
    show_default=False,
    help="Open the board in the browser.",
)
def board(folder: Path, host: str, port: int, token: str | None, open_browser: bool) -> None:
    """Show the runs in FOLDER (by default runs) on a web page that updates while they train.

    The page shows the progress of each run, curves side by side, and each party's history.

    \b
    fedplus board
    fedplus board runs --port 9000 --open
    """  # noqa: D301
    for module in ("starlette", "uvicorn", "plotly"):
        import_extra(module, "board", "fedplus board")
    from fedplus.board import serve

    serve(folder, host=host, port=port, token=token, open_browser=open_browser)
