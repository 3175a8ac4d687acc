"""A Stoker whose page is served on a free port, and the ways in: tokens, cookies, raw bytes."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from stoker.api.tokens import Access
from stoker.web.guard import cookie_name
from stoker_home import StokerHome


@dataclass(frozen=True)
class Reply:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    cookies: list[str] = field(default_factory=list)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        return str(self.json["error"]["message"])


@dataclass(frozen=True)
class Browser:
    """What a browser has once it was let in."""

    cookie: str
    page: str
    cookie_name: str

    @property
    def headers(self) -> dict[str, str]:
        return {"cookie": f"{self.cookie_name}={self.cookie}", "x-stoker-page": self.page}


class PageHome:
    """The page of one home."""

    def __init__(self, home: StokerHome, **settings: Any) -> None:
        self.home = home
        self.access = Access(home.home)
        self.token, self.grant = self.access.new_token("tests", read_only=False, lasts_ms=None)
        self.reader, _ = self.access.new_token("reads", read_only=True, lasts_ms=None)
        self.start(**{"port": 0, **settings})

    def start(self, **changes: Any) -> None:
        self.url: str = self.home.call("page_start", changes=changes)["url"]
        parts = urlsplit(self.url)
        assert parts.hostname is not None and parts.port is not None
        self.host, self.port = parts.hostname, parts.port

    @property
    def origin(self) -> str:
        return self.url

    def pid(self) -> int:
        return int(self.home.call("page_status")["pid"])

    def connect(self) -> socket.socket:
        return socket.create_connection((self.host, self.port), timeout=60)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        token: str | None = "own",
    ) -> Reply:
        """One request, as a script with a token would make it unless told otherwise."""
        sent = dict(headers or {})
        if token is not None:
            sent["authorization"] = f"Bearer {self.token if token == 'own' else token}"
        content = None
        if body is not None or method == "POST":
            content = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
            sent.setdefault("content-type", "application/json")
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        try:
            connection.request(method, path, content, sent)
            answer = connection.getresponse()
            found = {k.lower(): v for k, v in answer.getheaders()}
            cookies = answer.headers.get_all("set-cookie") or []
            return Reply(answer.status, found, answer.read(), cookies)
        finally:
            connection.close()

    def get(self, path: str, **options: Any) -> Any:
        """The JSON of a question that must be answered."""
        reply = self.ask("GET", path, **options)
        assert reply.status == 200, reply
        return reply.json

    def post(self, path: str, body: Any = None, **options: Any) -> Any:
        """The JSON of an order that must be taken."""
        reply = self.ask("POST", path, body, **options)
        assert reply.status == 200, reply
        return reply.json

    def raw(self, request: bytes) -> Reply:
        """A request as bytes; whatever comes back."""
        with self.connect() as connection:
            connection.sendall(request)
            answer = http.client.HTTPResponse(connection)
            answer.begin()
            found = {k.lower(): v for k, v in answer.getheaders()}
            return Reply(answer.status, found, answer.read())

    def enter(self, secret: str | None = None) -> Browser:
        """Let a browser in."""
        secret = secret or self.access.new_key()
        reply = self.ask(
            "POST", "/api/enter", {"secret": secret}, token=None, headers=self.from_own_page()
        )
        assert reply.status == 200, reply
        name = cookie_name(self.access)
        cookie = reply.cookies[0].split(";")[0].removeprefix(f"{name}=")
        return Browser(cookie, reply.json["page"], name)

    def from_own_page(self) -> dict[str, str]:
        """What a browser says of a request that the page itself makes."""
        return {"origin": self.origin, "sec-fetch-site": "same-origin"}
