"""Checks every request to the board, and adds security headers to every response."""

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
CROSS_SITE = "This request comes from a page of another site."
NO_TOKEN = """<!doctype html><html lang="en"><meta charset="utf-8"><title>fedplus board</title>
<p>This board needs its token: open the address that <code>fedplus board</code> printed, which ends in
<code>?token=…</code>.</p><p>If you just did, <a href="/">continue to the board</a>.</p></html>"""


@final
class Guard:
    """ASGI middleware that rejects foreign hosts, cross-site and writing requests, and bad tokens.

    Args:
        inner: The application that answers accepted requests.
        hosts: Accepted host names.
        token: The token that requests must have, if any.
    """

    def __init__(self, inner: ASGIApp, *, hosts: set[str], token: str | None) -> None:
        self.inner = inner
        self.hosts = {host.lower() for host in hosts}
        self.token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reject a request, or pass it to the board."""
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

        respond = self._reject(scope) or self._check_token(scope) or self.inner
        await respond(scope, receive, with_headers)

    def _reject(self, scope: Scope) -> Response | None:
        """Return an error if the host, the method or the origin is not accepted, otherwise None."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._is_accepted_host(hosts[0], scope):
            return PlainTextResponse("This board does not answer to that host name.", 400)
        if scope["method"] not in ("GET", "HEAD"):
            allowed = {"Allow": "GET, HEAD"}
            return PlainTextResponse("The board can only be read.", 405, allowed)
        origins = {f"{scheme}://{hosts[0].lower()}" for scheme in ("http", "https")}
        if not {origin.lower() for origin in headers.getlist("origin")} <= origins:
            return PlainTextResponse(CROSS_SITE, 403)
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            fetch = headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")
            if fetch != ("navigate", "document") or not _is_page(scope["path"]):
                return PlainTextResponse(CROSS_SITE, 403)
        return None

    def _is_accepted_host(self, host: str, scope: Scope) -> bool:
        """Return True for known names and for the IP address that the connection goes to.

        Other names are refused, because an attacker's DNS name could point to this machine.
        """
        match = HOST.fullmatch(host)
        if not match:
            return False
        name = (match[1] or match[2] or "").lower()
        server = (scope.get("server") or ("",))[0]
        return name in self.hosts or (_is_address(name) and name == server)

    def _check_token(self, scope: Scope) -> Response | None:
        """Return None if the request has the token, otherwise an error.

        A page that is opened with ``?token=`` sets a cookie and is redirected to the same address
        without the token.
        """
        if self.token is None:
            return None
        token = self.token.encode()
        cookie = hmac.new(token, b"fedplus board", hashlib.sha256).hexdigest()
        # Cookies are shared by all ports of a host, so each board needs its own cookie name.
        name = f"fedplus_board_{(scope.get('server') or (None, 0))[1]}"
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        tokens = [value for key, value in query if key == "token"]
        if tokens and _is_page(scope["path"]) and hmac.compare_digest(tokens[0].encode(), token):
            rest = urlencode([(key, value) for key, value in query if key != "token"])
            address = _local_path(scope) + (f"?{rest}" if rest else "")
            response = RedirectResponse(address, status_code=303)
            response.set_cookie(name, cookie, httponly=True, samesite="strict", path="/")
            return response
        headers = Headers(scope=scope)
        bearer = headers.get("authorization", "").encode("latin-1")
        pairs = (pair.strip().partition("=") for pair in headers.get("cookie", "").split(";"))
        cookies = [value.encode("latin-1") for key, _, value in pairs if key == name]
        if hmac.compare_digest(bearer, b"Bearer " + token) or any(
            hmac.compare_digest(value, cookie.encode()) for value in cookies
        ):
            return None
        return HTMLResponse(NO_TOKEN, 401, {"WWW-Authenticate": "Bearer"})


def _is_page(path: str) -> bool:
    return path == "/" or path.startswith("/report/")


def _local_path(scope: Scope) -> str:
    """Return the requested path with exactly one leading slash, so that it stays on this host."""
    raw: bytes = scope.get("raw_path") or b"/"
    return "/" + raw.decode("latin-1").partition("?")[0].replace("\\", "/").lstrip("/")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
