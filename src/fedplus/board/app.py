"""The routes of the board."""

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

from fedplus.board.events import Stream
from fedplus.board.guard import HEADERS, Guard
from fedplus.board.index import Index
from fedplus.board.payload import party_metadata
from fedplus.board.row import read_row
from fedplus.board.run_ids import ITSELF, NoRunError, find_run, is_plain, stamp
from fedplus.check import SettingError, require
from fedplus.experiments.run_folder import ENV, PARTIES, REPORT, ROUNDS, SPEC, RunFolder

POLL = 0.5
WEB = Path(__file__).parent / "web"
SHARED = Path(__file__).parents[1] / "report" / "web"
KINDS = {".js": "text/javascript", ".css": "text/css"}
REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'none'"
)


def app(folder: Path, *, hosts: set[str], token: str | None) -> Starlette:
    """The board of a folder, for requests to these host names."""
    require(folder.is_dir(), "The folder of runs", folder, "a folder", "fedplus run makes one.")
    require(token is None or token != "", "token", repr(token), "a text that is hard to guess")
    made = Starlette(
        routes=[
            Route("/", _board),
            Route("/web/{name}", _web),
            Route("/api/runs", _runs),
            Route("/api/run", _run),
            Route("/api/events", _events),
            Route("/report/{run:path}", _report),
        ],
        middleware=[Middleware(Guard, hosts=hosts, token=token)],
        exception_handlers={NoRunError: _refused, SettingError: _refused, Exception: _broken},
    )
    made.router.redirect_slashes = False
    made.state.index = Index(folder.resolve())
    made.state.closing = lambda: False
    return made


def _board(request: Request) -> Response:
    page = (WEB / "board.html").read_text(encoding="utf-8")
    version = importlib.metadata.version("plotly")
    return HTMLResponse(page.replace("PLOTLY", f"/web/plotly.js?v={version}"))


def _web(request: Request) -> Response:
    name = request.path_params["name"]
    if name == "plotly.js":
        kept = {"Cache-Control": "private, max-age=31536000, immutable"}
        return Response(_plotly(), media_type=KINDS[".js"], headers=kept)
    if name == "colours.js":
        colours = (SHARED / "colours.json").read_text(encoding="utf-8")
        return Response(f"const COLOURS = {colours};", media_type=KINDS[".js"])
    files = {p.name: p for place in (SHARED, WEB) for p in place.iterdir() if p.suffix in KINDS}
    if name not in files:
        return PlainTextResponse("There is no such page.", 404)
    return Response(files[name].read_bytes(), media_type=KINDS[files[name].suffix])


@functools.cache
def _plotly() -> bytes:
    from plotly.offline import get_plotlyjs

    text: str = get_plotlyjs()
    return text.encode()


def _runs(request: Request) -> Response:
    asked = request.query_params
    index: Index = request.app.state.index
    page = _whole(asked.get("page", "0"), "page")
    falling = asked.get("order", "falling") == "falling"
    found = index.page(asked.get("search", ""), asked.get("sort", "updated"), falling, page)
    return _json(found | {"folder": str(index.folder)})


def _run(request: Request) -> Response:
    index: Index = request.app.state.index
    run = request.query_params.get("run", ITSELF)
    path = find_run(index.folder, run)
    index.refresh()
    row = index.row(run) or read_row(run, path)[0]
    parties: dict[str, Any] = {}
    trouble = ""
    try:
        if is_plain(path / PARTIES):
            parties = party_metadata(RunFolder(path).parties)
    except SettingError as error:
        trouble = str(error)
    return _json({"run": row._asdict(), "parties": parties, "trouble": trouble})


def _events(request: Request) -> Response:
    asked = request.query_params
    party = _whole(asked["party"], "party") if "party" in asked else None
    after = request.headers.get("last-event-id", asked.get("after", ""))
    stream = Stream(request.app.state.index, asked.getlist("run"), asked.get("open"), party, after)

    async def told() -> AsyncIterator[str]:
        yield "retry: 1000\n\n"
        while not request.app.state.closing():
            for message in await run_in_threadpool(stream.news):
                yield message
            if stream.waits:
                await asyncio.sleep(POLL)

    body = told() if request.method == "GET" else iter(())
    return StreamingResponse(body, media_type="text/event-stream")


def _report(request: Request) -> Response:
    path = find_run(request.app.state.index.folder, request.path_params["run"] or ITSELF)
    written, grown = stamp(path / REPORT), stamp(path / ROUNDS)
    if written and (grown is None or written.changed >= grown.changed):
        page = _read(path / REPORT)
    else:
        for name in (SPEC, ENV, PARTIES, ROUNDS):
            is_plain(path / name)
        from fedplus.report import html

        page = html.render_report([RunFolder(path)]).encode()
    return HTMLResponse(page, headers={"Content-Security-Policy": REPORT_POLICY})


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingError(f"{path} cannot be read: {error.strerror or error}.") from error


def _whole(text: str, name: str) -> int:
    require(text.isascii() and text.isdigit() and len(text) < 10, name, text, "a whole number ≥ 0")
    return int(text)


def _json(content: Any) -> Response:
    # Pure ASCII: half a surrogate pair in somebody's label would not encode otherwise.
    return Response(json.dumps(content, allow_nan=False), media_type="application/json")


def _refused(request: Request, error: Exception) -> Response:
    answer = _json({"error": str(error)})
    answer.status_code = 404 if isinstance(error, NoRunError) else 400
    return answer


def _broken(request: Request, error: Exception) -> Response:
    # Answers of the outermost layer do not pass the guard.
    return PlainTextResponse("The board failed; see where it was started.", 500, HEADERS)
