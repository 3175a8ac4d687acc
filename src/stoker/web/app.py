"""The application behind the guard: the table's endpoints, the feed, and the files of the page."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import logging
import mimetypes
from collections.abc import Awaitable, Callable
from functools import cache
from importlib.resources import files
from typing import Any, get_origin, get_type_hints
from urllib.parse import parse_qsl

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from stoker.api.tokens import BROWSER_LASTS_MS, Access, Grant
from stoker.errors import Failed, NotFound, StokerError, Unavailable, Unreachable, UsageError
from stoker.submission.keywords import in_keywords
from stoker.web import bodies, logs, metrics, openapi
from stoker.web.endpoints import ENDPOINTS, Asked, Endpoint
from stoker.web.guard import Guard, Visitor, cookie_name
from stoker.web.refusals import Refusals
from stoker.web.services import Services
from stoker.web.submitting import decoded

log = logging.getLogger("stoker.web")

_STATUS: dict[type[StokerError], int] = {
    UsageError: 400,
    NotFound: 404,
    Unavailable: 503,
    Unreachable: 503,
}
_LARGEST_ID = 10**18
_WORTH_PACKING = 4 * 1024  # bytes, of an answer
_LARGE = 64 * 1024  # that takes a while to be packed
_SEE = "see /api/openapi.json"
Respond = Callable[[Request], Awaitable[Response]]


def application(
    services: Services,
    access: Access,
    refusals: Refusals,
    names: list[str],
    *,
    secure: bool,
    with_metrics: bool,
) -> Guard:
    """The whole page: the guard, and what is behind it."""
    page = _Page(services, access, refusals)
    # Fixed paths come before those with an id in them.
    table = sorted(ENDPOINTS, key=lambda endpoint: "{id}" in endpoint.path)
    routes = [Route(e.path, page.responder(e), methods=[e.method]) for e in table]
    routes += [
        Route("/api/enter", _careful(page.enter), methods=["POST"]),
        Route("/api/leave", _careful(page.leave), methods=["POST"]),
        Route("/api/events", _careful(page.events), methods=["GET"]),
        Route("/api/openapi.json", _careful(page.openapi), methods=["GET"]),
        Route("/api/log/download", _careful(page.download), methods=["GET"]),
    ]
    if with_metrics:
        routes.append(Route("/metrics", _careful(page.metrics), methods=["GET"]))
    routes += [Route(path, page.file, methods=["GET"]) for path in _files()]
    app = Starlette(routes=routes, exception_handlers={404: _not_found, 405: _wrong_method})
    app.router.redirect_slashes = False
    return Guard(app, access, refusals, names, secure=secure)


class _Page:
    def __init__(self, services: Services, access: Access, refusals: Refusals) -> None:
        self._services = services
        self._access = access
        self._refusals = refusals

    def responder(self, endpoint: Endpoint) -> Respond:
        async def respond(request: Request) -> Response:
            grant = _grant(request)
            job_id = _job_id(request.path_params["id"]) if "{id}" in endpoint.path else 0
            if endpoint.method == "GET":
                fields = asked_fields(request.url.query, endpoint.fields)
            else:
                fields = decoded(await request.body(), endpoint.fields)
            content = await endpoint.handler(self._services, Asked(grant, job_id, fields))
            return await _packed(request, _json(content))

        return _careful(respond)

    # ------------------------------------------------------------------ coming and going

    async def enter(self, request: Request) -> Response:
        body = decoded(await request.body(), bodies.EnterRequest)
        name = "".join(c for c in request.headers.get("user-agent", "") if c.isprintable())
        entered = self._access.enter(body.secret, name or "a browser")
        if entered is None:
            self._refusals.count("a secret that lets no browser in")
            hint = "each is good once, for ten minutes; `stoker web` prints another"
            return _error("refused", "this address is not good any more", hint, 401)
        answer = _json({"page": entered.page, "read_only": entered.read_only})
        answer.set_cookie(
            cookie_name(self._access),
            entered.cookie,
            max_age=BROWSER_LASTS_MS // 1000,
            path="/",
            httponly=True,
            samesite="strict",
            secure=_visitor(request).secure,
        )
        return answer

    async def leave(self, request: Request) -> Response:
        grant = _grant(request)
        if grant.kind != "browser":
            raise UsageError("only a browser leaves", "`stoker token revoke` ends a token")
        self._access.leave(grant)
        answer = _json({})
        name = cookie_name(self._access)
        answer.delete_cookie(name, path="/", httponly=True, samesite="strict")
        return answer

    # ------------------------------------------------------------------ what is not JSON

    async def events(self, request: Request) -> Response:
        if not self._services.feed.has_room:
            raise Unavailable("too many tabs listen already", "close some of them")
        return StreamingResponse(
            self._services.feed.events(),
            media_type="text/event-stream",
            headers={"x-accel-buffering": "no"},
        )

    async def openapi(self, request: Request) -> Response:
        return _json(openapi.document())

    async def metrics(self, request: Request) -> Response:
        status = await self._services.link.call("status", limit=1)
        return Response(
            metrics.text(status, self._refusals.counts), media_type="text/plain; version=0.0.4"
        )

    async def download(self, request: Request) -> Response:
        question = asked_fields(request.url.query, bodies.TicketQuestion)
        path, name = self._services.file_of(question.ticket)
        with logs.opened(path):
            pass  # It must be a plain file, now too.
        return FileResponse(path, media_type="text/plain; charset=utf-8", filename=name)

    async def file(self, request: Request) -> Response:
        content, packed, kind, tag = _files()[request.url.path]
        headers = {"etag": tag, "cache-control": "no-cache", "vary": "accept-encoding"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        if _takes_gzip(request) and len(packed) < len(content):
            return Response(packed, media_type=kind, headers={**headers, **_GZIP})
        return Response(content, media_type=kind, headers=headers)


def _visitor(request: Request) -> Visitor:
    visitor: Visitor = request.scope["visitor"]
    return visitor


def _grant(request: Request) -> Grant:
    """Who asks; a hole in the guard must open nothing."""
    grant = _visitor(request).grant
    if grant is None:
        raise LookupError("a request without a grant came through the guard")
    return grant


# ---------------------------------------------------------------------- fields


def _job_id(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) > _LARGEST_ID:
        raise NotFound("there is no such job", "a job's id is a number")
    return int(text)


@cache
def _lists_of(kind: type[msgspec.Struct]) -> frozenset[str]:
    hints = get_type_hints(kind)
    return frozenset(name for name, hint in hints.items() if get_origin(hint) is list)


def asked_fields(query: str, kind: type[msgspec.Struct]) -> Any:
    """The fields of a question, from the part of the address after the question mark."""
    found: dict[str, Any] = {}
    try:
        pairs = parse_qsl(
            query, keep_blank_values=True, strict_parsing=bool(query), max_num_fields=100,
            errors="strict",
        )  # fmt: skip
    except ValueError:
        raise UsageError("the address can't be understood", _SEE) from None
    for name, value in pairs:
        if name in _lists_of(kind):
            found.setdefault(name, []).append(value)
        elif name in found:
            raise UsageError(f"{name} is there twice", "give it once")
        else:
            found[name] = value
    try:
        return msgspec.convert(found, kind, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"the question can't be understood: {error}", _SEE) from None


# ---------------------------------------------------------------------- answers


def _json(content: dict[str, Any], status: int = 200) -> Response:
    return Response(msgspec.json.encode(content) + b"\n", status, media_type="application/json")


async def _packed(request: Request, response: Response) -> Response:
    """A long answer is compressed: a page is often looked at over a slow line."""
    plain = bytes(response.body)
    if len(plain) < _WORTH_PACKING or not _takes_gzip(request):
        return response
    is_large = len(plain) >= _LARGE
    body = await asyncio.to_thread(gzip.compress, plain, 1) if is_large else gzip.compress(plain, 1)
    headers = {**_GZIP, "vary": "accept-encoding"}
    return Response(body, media_type="application/json", headers=headers)


_GZIP = {"content-encoding": "gzip"}


def _takes_gzip(request: Request) -> bool:
    return "gzip" in request.headers.get("accept-encoding", "")


def _error(code: str, message: str, hint: str, status: int, option: str = "") -> Response:
    error = {"code": code, "message": message, "hint": hint}
    return _json({"error": error | ({"option": option} if option else {})}, status)


def _careful(respond: Respond) -> Respond:
    """Errors become answers that say what was wrong and what to do."""

    async def answer(request: Request) -> Response:
        try:
            return await respond(request)
        except StokerError as error:
            status = _STATUS.get(type(error), 409)
            said = in_keywords(error)
            message, hint = said.message, said.hint
            if "x-stoker-page" in request.headers:  # It says options as its fields are labelled.
                message, hint = said.as_typed or (message, hint)
            return _error(said.code, message, hint, status, said.option)
        except Exception:
            log.exception("a request failed")
            message = "something went wrong inside the page"
            return _error(Failed.code, message, "see the daemon's log", 500)

    return answer


async def _not_found(request: Request, error: Exception) -> Response:
    is_of_the_api = request.url.path.startswith("/api/")
    if not is_of_the_api and "text/html" in request.headers.get("accept", ""):
        return RedirectResponse("/#/nowhere", 303)  # A person typed it: the page says so.
    return _error("not_found", "there is nothing here", "", 404)


async def _wrong_method(request: Request, error: Exception) -> Response:
    answer = _error("usage", "the method is not allowed here", "", 405)
    allowed = sorted(e.method for e in ENDPOINTS if e.path == request.url.path)
    answer.headers["allow"] = ", ".join(allowed) or "GET"
    return answer


@cache
def _files() -> dict[str, tuple[bytes, bytes, str, str]]:
    """The page's own files by their path: content, also compressed, kind, and a tag of both."""
    found = {}
    own = files("stoker.web") / "static"
    for place, folder in (("/", own), ("/vendor/", own / "vendor")):
        for item in folder.iterdir():
            if not item.is_file():
                continue
            content, guessed = item.read_bytes(), mimetypes.guess_type(item.name)[0]
            kind = "text/javascript" if item.name.endswith(".js") else guessed
            tag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
            name = {"index.html": "", "enter.html": "enter"}.get(item.name, item.name)
            packed = gzip.compress(content, 6, mtime=0)
            found[place + name] = (content, packed, kind or "application/octet-stream", tag)
    return found
