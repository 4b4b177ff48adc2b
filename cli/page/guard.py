"""Who may read the page: a browser on this machine that has opened it with the token, which is good once."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src data:; connect-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
REFUSED = (
    "This browser has not opened the page's whole address, which has a token and is good once.\n"
    "`faber-ledger page --no-browser` prints a new one, for any browser of this machine.\n"
)


class Guard:
    """An ASGI application that lets only reads through, and only from the browser that was opened."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        """Make the token, and the cookie that it is exchanged for; both end with this process."""
        self.token = secrets.token_urlsafe(32)
        # A cookie goes to all ports of its host, so the host is one that no other program can guess.
        self.host = f"{secrets.token_hex(8)}.localhost:{port}"
        self._app = app
        self._cookie = (f"faber-ledger-{port}", secrets.token_urlsafe(32))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refusal = self._refuse(scope)
        await (refusal or self._app)(scope, receive, send_guarded)

    def _refuse(self, scope: Scope) -> Response | None:
        """Return the answer to a request that is not let through; None if it is."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if host != self.host:
            return PlainTextResponse("This page answers to its own address alone.\n", 421)
        if headers.get("origin") not in (None, f"http://{host}"):
            return PlainTextResponse("Another page may not read this one.\n", 403)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("Nothing can be written here.\n", 405, {"allow": "GET, HEAD"})
        name, value = self._cookie
        if secrets.compare_digest(cookie_parser(headers.get("cookie", "")).get(name, "").encode(), value.encode()):
            return None
        given = QueryParams(scope["query_string"]).get("token", "")
        if not self.token or not secrets.compare_digest(given.encode(), self.token.encode()):
            return PlainTextResponse(REFUSED, 403)
        self.token = ""
        answer = RedirectResponse(scope["path"], 303)
        answer.set_cookie(name, value, httponly=True, samesite="lax")
        return answer
