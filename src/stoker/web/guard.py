"""Who gets in: every request is looked at here, before any route is.

The page can run any command as its user. So the order of the questions matters, and each refusal
costs nothing: is it meant for us (Host), is its path plain, does it come from our own page
(Origin, Sec-Fetch-Site), does it know a secret, and only then: is its body JSON, not too large,
and there in time. What comes through has its whole body and a `Visitor`.
"""

from __future__ import annotations

import asyncio
import re
import socket
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie

import msgspec
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stoker.api.tokens import Access, Grant, hashed, is_pages_own
from stoker.web.refusals import Refusals

PAGE_HEADER = "x-stoker-page"
MOST_BODY_BYTES = 16 * 1024 * 1024
MOST_BODIES_BYTES = 4 * MOST_BODY_BYTES  # of all requests that are under way
BODY_WITHIN_S = 30.0
# A client that has not been let in has a secret to tell, and nothing else.
STRANGERS_BODY_BYTES = 4 * 1024
STRANGERS_BODY_WITHIN_S = 5.0
LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})

# Nothing that could be read in two ways: no escapes, no empty, dotted or doubled parts.
_PLAIN_PATH = re.compile(rb"/(?:[A-Za-z0-9_-][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*)?\Z")
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9_.-]+)(?::([0-9]{1,5}))?\Z")
_SAFE = frozenset({"GET", "HEAD"})
# What one may see before one has entered: the way in, and nothing of the user's.
_OPEN = frozenset({("GET", "/enter"), ("GET", "/enter.js"), ("GET", "/enter.css"),
                   ("GET", "/icon.svg"), ("POST", "/api/enter")})  # fmt: skip

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who asks, as far as the guard could tell; None before one has entered."""

    grant: Grant | None
    secure: bool  # the cookie may be sent over TLS only


class Refused(Exception):
    """A request that goes no further."""

    def __init__(self, status: int, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.hint = hint


class Guard:
    """The first application: it refuses, or passes on to the next."""

    def __init__(
        self, app: ASGIApp, access: Access, refusals: Refusals, names: list[str], *, secure: bool
    ) -> None:
        self._app = app
        self._access = access
        self._refusals = refusals
        self._bodies_bytes = 0
        self._names = LOOPBACK_NAMES | {name.lower() for name in names}
        self._secure = secure
        self._cookie = cookie_name(access)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            return
        send = _with_headers(send)
        body = bytearray()
        try:
            try:
                scope["visitor"] = visitor = self._admitted(scope)
                await self._read_body(scope, receive, visitor, body)
                if visitor.grant is not None and visitor.grant not in self._access.grants():
                    raise _unknown()  # It was taken away while the body was on its way.
            except Refused as refusal:
                self._refusals.count(refusal.message)
                await _refuse(scope, send, refusal)
                return
            await self._app(scope, _replaying(bytes(body), receive), send)
        finally:
            self._bodies_bytes -= len(body)

    # ------------------------------------------------------------------ before the body

    def _admitted(self, scope: Scope) -> Visitor:
        headers = _Headers(scope=scope)
        host = self._require_host(headers)
        method: str = scope["method"]
        raw_path: bytes = scope.get("raw_path") or b""
        if not _PLAIN_PATH.match(raw_path):
            raise Refused(400, "this is not a path of the page")
        path = raw_path.decode("ascii")
        scope["path"] = path
        if method not in _SAFE and method != "POST":
            raise Refused(405, "the method is not allowed here", "use GET or POST")
        is_api = path.startswith("/api/") or path == "/metrics"
        self._require_own_page(headers, method, is_api, host)
        if (method if method != "HEAD" else "GET", path) in _OPEN:
            return Visitor(None, self._secure)
        grant = self._known(headers, method, path, is_api)
        return Visitor(grant, self._secure)

    def _require_host(self, headers: _Headers) -> str:
        """Another name that leads here is a trick (DNS rebinding), or a proxy not told of."""
        given = headers.getlist("host")
        match = _HOST.match(given[0]) if len(given) == 1 else None
        if match is None or match[1].lower() not in self._names:
            raise Refused(
                403,
                "this name is not the page's own",
                "use the address that `stoker web` prints; `stoker web --name NAME` allows more",
            )
        return given[0].lower()

    def _require_own_page(self, headers: _Headers, method: str, is_api: bool, host: str) -> None:
        """Other sites can make a browser ask; it then says so."""
        site = headers.one("sec-fetch-site")
        origin = headers.one("origin")
        unsafe = method not in _SAFE
        foreign = Refused(403, "the request comes from another site")
        if unsafe and site not in (None, "same-origin"):
            raise foreign
        if is_api and site not in (None, "same-origin", "none"):
            raise foreign
        if origin is not None:
            scheme = "https" if self._secure else "http"
            if origin.lower() != f"{scheme}://{host}":
                raise foreign
        elif unsafe and site is None and headers.one("authorization") is None:
            raise Refused(403, "it does not say where it comes from", "scripts use a token")

    def _known(self, headers: _Headers, method: str, path: str, is_api: bool) -> Grant:
        authorization = headers.one("authorization")
        if authorization is not None:
            scheme, _, secret = authorization.partition(" ")
            grant = self._access.token(secret.strip()) if scheme.lower() == "bearer" else None
            if grant is None:
                raise _unknown()
        else:
            cookie = _cookie(headers, self._cookie)
            grant = self._access.browser(cookie) if cookie else None
            if grant is None:
                raise _unknown()
            # A cookie goes to all ports of a host; what the page itself keeps does not.
            page = headers.one(PAGE_HEADER)
            if is_api and path != _BY_TICKET and (page is None or not is_pages_own(grant, page)):
                raise _unknown()
        if grant.read_only and method not in _SAFE and path not in HARMLESS_POSTS:
            raise Refused(
                403, "this access is read-only", "use a token that may write, or `stoker web`"
            )
        return grant

    # ------------------------------------------------------------------ the body

    async def _read_body(
        self, scope: Scope, receive: Receive, visitor: Visitor, body: bytearray
    ) -> None:
        headers = _Headers(scope=scope)
        if scope["method"] in _SAFE:
            if headers.one("transfer-encoding") or (headers.one("content-length") or "0") != "0":
                raise Refused(400, "a question has no body", "use POST")
            return
        kind, _, parameters = (headers.one("content-type") or "").lower().partition(";")
        charset = parameters.replace(" ", "").replace('"', "")
        if kind.strip() != "application/json" or charset not in ("", "charset=utf-8"):
            raise Refused(415, "the body must be JSON", "send Content-Type: application/json")
        is_known = visitor.grant is not None
        most_bytes = MOST_BODY_BYTES if is_known else STRANGERS_BODY_BYTES
        length = headers.one("content-length")
        if length is not None and (not length.isdecimal() or int(length) > most_bytes):
            raise _too_large(most_bytes)
        try:
            async with asyncio.timeout(BODY_WITHIN_S if is_known else STRANGERS_BODY_WITHIN_S):
                await self._whole(receive, body, most_bytes)
        except TimeoutError:
            raise Refused(408, "the body did not come in time", "send it faster") from None

    async def _whole(self, receive: Receive, body: bytearray, most_bytes: int) -> None:
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Refused(400, "the body is cut off")
            chunk: bytes = message.get("body", b"")
            if len(body) + len(chunk) > most_bytes:
                raise _too_large(most_bytes)
            if self._bodies_bytes + len(chunk) > MOST_BODIES_BYTES:
                raise Refused(503, "too many bodies come at once", "try again in a moment")
            body += chunk
            self._bodies_bytes += len(chunk)
            more = message.get("more_body", False)


# A browser can't send a header with a download; such a link carries a ticket instead.
_BY_TICKET = "/api/log/download"
# Orders that change nothing, so that those who may only read may give them.
HARMLESS_POSTS = frozenset({"/api/sweep/preview", "/api/log/ticket", "/api/leave"})


class _Headers(Headers):
    def one(self, name: str) -> str | None:
        """One that may be there only once; it is refused if it is there twice."""
        found = self.getlist(name)
        if len(found) > 1:
            raise Refused(400, f"the header {name} is there twice")
        return found[0] if found else None


def cookie_name(access: Access) -> str:
    """The cookie of this home's page. Pages on other ports of the host have others beside it."""
    return f"stoker_page_{hashed(f'{socket.gethostname()} {access.path}')[:8]}"


def _cookie(headers: _Headers, name: str) -> str | None:
    found = None
    for text in headers.getlist("cookie"):
        try:
            morsel = SimpleCookie(text).get(name)
        except CookieError:
            continue
        if morsel is not None:
            found = morsel.value
    return found


def _unknown() -> Refused:
    return Refused(
        401,
        "this browser or token has no access (any more)",
        "`stoker web` prints a one-time login link; scripts use `stoker token create`",
    )


def _too_large(most_bytes: int) -> Refused:
    most = f"{most_bytes // 2**20} MiB" if most_bytes >= 2**20 else f"{most_bytes // 2**10} KiB"
    return Refused(413, "the body is too large", f"at most {most}; send fewer jobs at a time")


def _replaying(body: bytes, receive: Receive) -> Receive:
    """The body as if it came now, and then whatever the connection says."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [*message.get("headers", ()), *_HEADERS]
            if not any(name == b"cache-control" for name, _ in headers):
                headers.append((b"cache-control", b"no-store"))
            message = {**message, "headers": headers}
        await send(message)

    return sending


async def _refuse(scope: Scope, send: Send, refusal: Refused) -> None:
    error = {"code": "refused", "message": refusal.message, "hint": refusal.hint}
    body = msgspec.json.encode({"error": error}) + b"\n"
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    if refusal.status == 401 and scope.get("path") == "/" and scope["method"] in _SAFE:
        body = _STRANGER.encode()
        headers[0] = (b"content-type", b"text/html; charset=utf-8")
    if refusal.status == 405:
        headers.append((b"allow", b"GET, HEAD, POST"))
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


_STRANGER = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Stoker</title>
<link rel="stylesheet" href="/enter.css"><link rel="icon" href="/icon.svg">
<main><h1>Stoker</h1>
<p>This browser has not been let in. Run <code>stoker web</code> in a terminal, as the user whose
jobs these are, and open the address that it prints; or <a href="/enter">enter with a token</a>.</p>
</main></html>
"""
