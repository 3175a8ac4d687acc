"""Crowds of strangers: they cost little memory and few lines of log, and the user still gets in."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from peak_memory import peak_so_far
from stoker.web.connections import MOST_CONNECTIONS
from stoker.web.events import MOST_TABS
from stoker.web.guard import MOST_BODIES_BYTES, MOST_BODY_BYTES, STRANGERS_BODY_BYTES
from stoker_home import StokerHome
from waiting import eventually
from web.crowd import has_ended, send_what_is_taken
from web.page_home import PageHome

CROWD = 1_500
ENTER = "POST /api/enter HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n"
JSON = "Content-Type: application/json\r\n"


@pytest.fixture
def many_files() -> Iterator[None]:
    """A test with more connections than this process might have files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8_192), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def page_of_few_files(home: StokerHome, many_files: None) -> PageHome:
    """A page that was started with the usual soft limit of 1,024 files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1_024, hard))
    try:
        home.start(gpus="0-3:24G")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return PageHome(home)


def page_files(page: PageHome) -> int:
    return len(list(Path(f"/proc/{page.pid()}/fd").iterdir()))


@pytest.mark.parametrize("length", ["", f"Content-Length: {STRANGERS_BODY_BYTES + 1}\r\n"])
def test_a_stranger_may_send_a_secret_and_no_more(shared_page: PageHome, length: str) -> None:
    said = length or "Transfer-Encoding: chunked\r\n"
    with shared_page.connect() as connection:
        connection.sendall(f"{ENTER}{JSON}{said}\r\n".encode())
        if not length:
            size = STRANGERS_BODY_BYTES + 1
            send_what_is_taken(connection, f"{size:x}\r\n".encode() + b" " * size + b"\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 413")


def test_large_bodies_of_strangers_cost_no_memory(page: PageHome) -> None:
    """The same 40 connections with 16 MiB each took 700 MiB once."""
    page.get("/api/me")
    before = peak_so_far(page.pid())
    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    with ExitStack() as stack:
        crowd = [stack.enter_context(page.connect()) for _ in range(40)]
        for connection in crowd:
            connection.settimeout(0.2)
            connection.sendall(f"{ENTER}{JSON}Transfer-Encoding: chunked\r\n\r\n".encode())
        for _ in range(15):
            for connection in crowd:
                send_what_is_taken(connection, chunk)
        assert page.get("/api/me")["user"]
        assert peak_so_far(page.pid()) - before < 64 * 2**20


def test_bodies_of_those_who_were_let_in_are_bounded_together(page: PageHome) -> None:
    before = peak_so_far(page.pid())
    body = b" " * (MOST_BODY_BYTES - 1)
    head = (
        f"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\n{JSON}Authorization: Bearer {page.token}"
        f"\r\nContent-Length: {MOST_BODY_BYTES}\r\n\r\n"
    )
    with ExitStack() as stack:
        crowd = [stack.enter_context(page.connect()) for _ in range(12)]
        for connection in crowd:
            send_what_is_taken(connection, head.encode() + body)
        eventually(
            lambda: sum(map(has_ended, crowd)) == 12 - MOST_BODIES_BYTES // MOST_BODY_BYTES,
            "those for which there is no room are refused",
        )
        assert peak_so_far(page.pid()) - before < 3 * MOST_BODIES_BYTES
    eventually(lambda: page.ask("POST", "/api/jobs", body + b"x").status == 400, "there is room")


@pytest.mark.parametrize(
    "start",
    [
        b"",
        b"GET /enter HTTP/1.1\r\nHost: local",
        f"{ENTER}{JSON}Content-Length: 1000\r\n\r\n".encode(),
        f"{ENTER}{JSON}Transfer-Encoding: chunked\r\n\r\n3e8\r\n".encode(),
    ],
    ids=["silent", "half a head", "a body to come", "a chunk to come"],
)
def test_a_crowd_of_slow_strangers_does_not_keep_the_user_out(
    page_of_few_files: PageHome, start: bytes
) -> None:
    page = page_of_few_files
    files = page_files(page)
    with ExitStack() as stack:
        crowd = []
        for _ in range(CROWD):
            connection = stack.enter_context(page.connect())
            send_what_is_taken(connection, start)
            crowd.append(connection)
        assert page.get("/api/me")["user"], "the user is served at once"
        assert page_files(page) <= files + MOST_CONNECTIONS + 8

        def all_let_go() -> bool:
            for connection in crowd:
                send_what_is_taken(connection, b" ")
            return all(map(has_ended, crowd))

        eventually(all_let_go, "all were let go, though each sent a byte now and then")
        assert page.get("/api/me")["user"]
    eventually(lambda: page_files(page) <= files + 8, "no file stays open")
    assert len(page.home.log_text()) < 10_000, "and the log tells little of it"


def test_a_crowd_of_strangers_ends_nothing_of_those_who_were_let_in(
    page: PageHome, many_files: None
) -> None:
    head = f"GET /api/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {page.token}\r\n"
    with ExitStack() as stack:
        feeds = [stack.enter_context(page.connect()) for _ in range(20)]
        for connection in feeds:
            connection.sendall(f"{head}\r\n".encode())
            assert connection.recv(15) == b"HTTP/1.1 200 OK"
        for _ in range(CROWD):
            connection = stack.enter_context(page.connect())
            send_what_is_taken(connection, f"{ENTER}{JSON}Content-Length: 9\r\n\r\n".encode())
        assert page.get("/api/me")["user"]
        assert not any(map(has_ended, feeds))


def test_feeds_leave_room_for_other_requests(page: PageHome) -> None:
    head = f"GET /api/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {page.token}\r\n"
    with ExitStack() as stack:
        for _ in range(MOST_TABS):
            connection = stack.enter_context(page.connect())
            connection.sendall(f"{head}\r\n".encode())
            assert connection.recv(15) == b"HTTP/1.1 200 OK"
        reply = page.ask("GET", "/api/events")
        assert (reply.status, reply.message) == (503, "too many tabs listen already")
        assert page.get("/api/me")["user"]

    def has_room() -> bool:
        with page.connect() as connection:
            connection.sendall(f"{head}\r\n".encode())
            return connection.recv(15) == b"HTTP/1.1 200 OK"

    eventually(has_room, "tabs that are gone count no longer")


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"nonsense\r\n\r\n",
        f"{ENTER}Transfer-Encoding: chunked\r\n\r\nZZ\r\n".encode(),
        f"{ENTER}{JSON}Transfer-Encoding: chunked\r\n\r\nZZ\r\n".encode(),
        b"GET /api/me HTTP/1.1\r\nHost: localhost\r\n\r\nGET nonsense\r\n\r\n",
        b"GET /api/me HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        f"{ENTER}{JSON}Content-Length: 14\r\n\r\n".encode() + b'{"secret":"x"}',
        f"{ENTER}{JSON}Content-Length: 14\r\n\r\n".encode(),
    ],
    ids=["no HTTP", "bad chunk", "bad chunk of JSON", "pipelined", "host", "secret", "cut off"],
)
def test_refused_requests_are_counted_but_not_told_one_by_one(
    page: PageHome, request_bytes: bytes
) -> None:
    page.start(metrics=True)
    before = len(page.home.log_text())

    def counted() -> int:
        text = page.ask("GET", "/metrics").body.decode()
        lines = [line for line in text.splitlines() if line.startswith("stoker_page_refused")]
        return sum(int(line.rsplit(" ", 1)[1]) for line in lines)

    for _ in range(200):
        with page.connect() as connection:
            connection.sendall(request_bytes)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65_536):
                pass
    assert counted() >= 200
    told = page.home.log_text()[before:]
    assert "a request was refused" in told and "Traceback" not in told
    assert len(told.splitlines()) <= 3
