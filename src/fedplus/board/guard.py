"""Who may ask: every request passes here first, and every answer leaves with the same headers."""

import hashlib
import hmac
import ipaddress
import re
from typing import final
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; connect-src 'self'; object-src 'none'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
HOST = re.compile(r"(?:\[([^\]]*)\]|([^:\[\]]*))(?::[0-9]{1,5})?")
NO_TOKEN = """<!doctype html><html lang="en"><meta charset="utf-8"><title>fedplus board</title>
<p>This board wants its token: open the address that <code>fedplus board</code> printed, which ends in
<code>?token=…</code>.</p><p>If you just did, <a href="/">go on to the board</a>.</p></html>"""


@final
class Guard:
    """Refuses foreign hosts, cross-site requests, anything but reading, and callers without token."""

    def __init__(self, inner: ASGIApp, *, hosts: set[str], token: str | None) -> None:
        self.inner = inner
        self.hosts = {host.lower() for host in hosts}
        self.token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or let the board answer."""
        if scope["type"] == "lifespan":
            await self.inner(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = self._refusal(scope) or self._without_token(scope) or self.inner
        await answer(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        named = headers.getlist("host")
        if len(named) != 1 or not self._is_ours(named[0], scope):
            return _no(400, "This board does not answer to that host name.")
        if scope["method"] not in ("GET", "HEAD"):
            return _no(405, "The board can only be read.", {"Allow": "GET, HEAD"})
        origins = {f"{scheme}://{named[0].lower()}" for scheme in ("http", "https")}
        if not {origin.lower() for origin in headers.getlist("origin")} <= origins:
            return _no(403, "Another site's page asked.")
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            opened = headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")
            if opened != ("navigate", "document") or not _is_page(scope["path"]):
                return _no(403, "Another site's page asked.")
        return None

    def _is_ours(self, host: str, scope: Scope) -> bool:
        """Names of ours, or the very address asked at: a rebound DNS name is neither."""
        found = HOST.fullmatch(host)
        if not found:
            return False
        name = (found[1] or found[2] or "").lower()
        own = (scope.get("server") or ("",))[0]
        return name in self.hosts or (_is_address(name) and name == own)

    def _without_token(self, scope: Scope) -> Response | None:
        if self.token is None:
            return None
        token = self.token.encode()
        cookie = hmac.new(token, b"fedplus board", hashlib.sha256).hexdigest()
        # Cookies do not know ports: two boards on one machine must not share a name.
        name = f"fedplus_board_{(scope.get('server') or (None, 0))[1]}"
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [value for key, value in query if key == "token"]
        if given and _is_page(scope["path"]) and _same(given[0].encode(), token):
            rest = urlencode([(key, value) for key, value in query if key != "token"])
            answer = RedirectResponse(_path(scope) + (f"?{rest}" if rest else ""), status_code=303)
            answer.set_cookie(name, cookie, httponly=True, samesite="strict", path="/")
            return answer
        headers = Headers(scope=scope)
        bearer = headers.get("authorization", "").encode("latin-1")
        pairs = (one.strip().partition("=") for one in headers.get("cookie", "").split(";"))
        cookies = [value for key, _, value in pairs if key == name]
        if _same(bearer, b"Bearer " + token) or any(
            _same(one.encode("latin-1"), cookie.encode()) for one in cookies
        ):
            return None
        return HTMLResponse(NO_TOKEN, 401, {"WWW-Authenticate": "Bearer"})


def _is_page(path: str) -> bool:
    return path == "/" or path.startswith("/report/")


def _path(scope: Scope) -> str:
    """The path as it was asked for; one slash in front, so that it stays on this host."""
    raw: bytes = scope.get("raw_path") or b"/"
    return "/" + raw.decode("latin-1").partition("?")[0].replace("\\", "/").lstrip("/")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _same(given: bytes, wanted: bytes) -> bool:
    return hmac.compare_digest(given, wanted)


def _no(status: int, why: str, headers: dict[str, str] | None = None) -> Response:
    return PlainTextResponse(why, status, headers)
