"""The web application of the board: its pages and its JSON API."""

import asyncio
import functools
import importlib.metadata
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from fedplus.board.events import EventStream
from fedplus.board.guard import HEADERS, Guard
from fedplus.board.index import Index
from fedplus.board.payload import party_metadata
from fedplus.board.row import read_row
from fedplus.board.run_ids import ROOT_RUN, NoRunError, file_stamp, find_run, is_regular_file
from fedplus.check import SettingError, require
from fedplus.experiments.run_folder import (
    ENV,
    NEW_PARTIES,
    PARTIES,
    REPORT,
    ROUNDS,
    SPEC,
    RunFolder,
)
from fedplus.extras import import_extra

POLL = 0.5
"""Seconds between two checks for new events."""
WEB = Path(__file__).parent / "web"
REPORT_WEB = Path(__file__).parents[1] / "report" / "web"
MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css"}
REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'none'"
)


def app(folder: Path, *, hosts: set[str], token: str | None) -> Starlette:
    """Return the web application of the board.

    Args:
        folder: The folder of runs.
        hosts: Host names under which the board may be requested.
        token: The token that requests must have, if any.

    Raises:
        SettingError: The folder does not exist, or the token is empty.
    """
    allowed, advice = "an existing folder of runs", "fedplus run creates one."
    require(folder.is_dir(), "FOLDER", folder, allowed, advice)
    require(token is None or token != "", "token", repr(token), "a text that is hard to guess")
    board = Starlette(
        routes=[
            Route("/", _board),
            Route("/web/{name}", _web),
            Route("/api/runs", _runs),
            Route("/api/run", _run),
            Route("/api/events", _events),
            Route("/report/{run:path}", _report),
        ],
        middleware=[Middleware(Guard, hosts=hosts, token=token)],
        exception_handlers={
            NoRunError: _request_error,
            SettingError: _request_error,
            Exception: _internal_error,
        },
    )
    board.router.redirect_slashes = False
    board.state.index = Index(folder.resolve())
    board.state.is_closing = lambda: False
    return board


def _board(request: Request) -> Response:
    page = (WEB / "board.html").read_text(encoding="utf-8")
    version = importlib.metadata.version("plotly")
    return HTMLResponse(page.replace("PLOTLY", f"/web/plotly.js?v={version}"))


def _web(request: Request) -> Response:
    name = request.path_params["name"]
    if name == "plotly.js":
        cached = {"Cache-Control": "private, max-age=31536000, immutable"}
        return Response(_plotly(), media_type=MEDIA_TYPES[".js"], headers=cached)
    if name == "colours.js":
        colours = (REPORT_WEB / "colours.json").read_text(encoding="utf-8")
        return Response(f"const COLOURS = {colours};", media_type=MEDIA_TYPES[".js"])
    folders = (REPORT_WEB, WEB)
    files = {p.name: p for folder in folders for p in folder.iterdir() if p.suffix in MEDIA_TYPES}
    if name not in files:
        return PlainTextResponse("There is no such page.", 404)
    return Response(files[name].read_bytes(), media_type=MEDIA_TYPES[files[name].suffix])


@functools.cache
def _plotly() -> bytes:
    text: str = import_extra("plotly.offline", "board", "the board").get_plotlyjs()
    return text.encode()


def _runs(request: Request) -> Response:
    query = request.query_params
    index: Index = request.app.state.index
    number = _parse_integer(query.get("page", "0"), "page")
    descending = query.get("order", "falling") == "falling"
    page = index.page(query.get("search", ""), query.get("sort", "updated"), descending, number)
    return _json(page | {"folder": str(index.folder)})


def _run(request: Request) -> Response:
    index: Index = request.app.state.index
    run = request.query_params.get("run", ROOT_RUN)
    path = find_run(index.folder, run)
    index.refresh()
    row = index.row(run) or read_row(run, path)[0]
    parties: dict[str, Any] = {}
    error_message = ""
    try:
        if is_regular_file(path / PARTIES):
            parties = party_metadata(RunFolder(path).parties)
    except SettingError as error:
        error_message = str(error)
    return _json({"run": row._asdict(), "parties": parties, "trouble": error_message})


def _events(request: Request) -> Response:
    query = request.query_params
    party = _parse_integer(query["party"], "party") if "party" in query else None
    after = request.headers.get("last-event-id", query.get("after", ""))
    stream = EventStream(
        request.app.state.index, query.getlist("run"), query.get("open"), party, after
    )

    async def messages() -> AsyncIterator[str]:
        yield "retry: 1000\n\n"
        while not request.app.state.is_closing():
            for message in await run_in_threadpool(stream.new_messages):
                yield message
            if stream.is_up_to_date:
                await asyncio.sleep(POLL)

    body = messages() if request.method == "GET" else iter(())
    return StreamingResponse(body, media_type="text/event-stream")


def _report(request: Request) -> Response:
    path = find_run(request.app.state.index.folder, request.path_params["run"] or ROOT_RUN)
    report, rounds = file_stamp(path / REPORT), file_stamp(path / ROUNDS)
    if report and (rounds is None or report.modified >= rounds.modified):
        page = _read_bytes(path / REPORT)
    else:
        for name in (SPEC, ENV, PARTIES, ROUNDS, NEW_PARTIES):
            is_regular_file(path / name)
        from fedplus.report import html

        page = html.render_report([RunFolder(path)]).encode()
    return HTMLResponse(page, headers={"Content-Security-Policy": REPORT_POLICY})


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingError(f"{path} cannot be read: {error.strerror or error}.") from error


def _parse_integer(text: str, name: str) -> int:
    require(text.isascii() and text.isdigit() and len(text) < 10, name, text, "a whole number ≥ 0")
    return int(text)


def _json(content: Any) -> Response:
    # ASCII only, because lone surrogates in a label cannot be encoded as UTF-8.
    return Response(json.dumps(content, allow_nan=False), media_type="application/json")


def _request_error(request: Request, error: Exception) -> Response:
    response = _json({"error": str(error)})
    response.status_code = 404 if isinstance(error, NoRunError) else 400
    return response


def _internal_error(request: Request, error: Exception) -> Response:
    # This response does not pass through the guard, so it needs the headers here.
    message = "The board failed; the terminal in which it was started shows the error."
    return PlainTextResponse(message, 500, HEADERS)
