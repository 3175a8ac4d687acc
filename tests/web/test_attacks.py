"""Bodies that are too much, connections that say nothing: refused, while scheduling goes on."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from waiting import eventually
from web.page_home import PageHome

MANY = 1_000


def a_job_runs(page: PageHome) -> None:
    """Queue a job past the page, and see it end."""
    [job] = page.home.until_final(page.home.submit("true"))
    assert job["state"] == "succeeded"


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b"1", b'"x"', b"{}", b'{"jobs": 1}', b'{"jobs": [1]}',
     b'{"jobs": []}', b'{"jobs": [{"argv": "true"}]}', b"\xff\xfe", b"\x00", b'{"jobs": NaN}',
     b'{"jobs": [{"argv": ["\xff"]}]}', b"[" * 100_000, b'{"a":' * 50_000,
     b'{"jobs": [{"gpus": -1, "argv": ["true"]}]}', b'{"jobs": [{"argv": ["tr\\u0000ue"]}]}',
     b'{"jobs": [{"argv": ["\\ud800"]}]}', b'{"unknown": 1, "jobs": [{"argv": ["true"]}]}',
     b'{"jobs": [{"argv": ["true"], "cwd": "relative"}]}',
     b'{"jobs": [{"argv": ["true"]}], "cwd": "\\u0000"}'],
)  # fmt: skip
def test_malformed_bodies_are_refused_in_one_line(shared_page: PageHome, body: bytes) -> None:
    before = shared_page.get("/api/jobs?limit=0")["total"]
    reply = shared_page.ask("POST", "/api/jobs", body)
    assert reply.status in (400, 409) and "\n" not in reply.message
    assert shared_page.get("/api/jobs?limit=0")["total"] == before


@pytest.mark.parametrize(
    "query",
    ["limit=x", "limit=-1", "limit=1&limit=2", "limit=99999999999999999999", "unknown=1", "sort=no",
     "states=gone", "text=%ff", "descending=maybe", "offset=1.5", "&".join(["a=1"] * 200), "=",
     "limit", "text=" + "x" * 5000],
)  # fmt: skip
def test_malformed_questions_are_refused_in_one_line(shared_page: PageHome, query: str) -> None:
    reply = shared_page.ask("GET", f"/api/jobs?{query}")
    assert reply.status == 400 and "\n" not in reply.message


@pytest.mark.parametrize("job_id", ["0", "99", "-1", "x", "1e3", "9" * 40, "1_000", "%31", "١"])
def test_jobs_that_are_none_are_not_found(shared_page: PageHome, job_id: str) -> None:
    for path in ("", "/log", "/log/search?text=x"):
        target = f"/api/jobs/{job_id}{path}".encode()
        head = b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\n"
        head += f"Authorization: Bearer {shared_page.token}\r\n\r\n".encode()
        assert shared_page.raw(head).status in (400, 404)


def test_a_body_that_says_it_is_too_large_is_refused_before_it_comes(
    shared_page: PageHome,
) -> None:
    for length in (str(2**40), "17000000", "-1", "1e9", "x"):
        head = (
            f"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {shared_page.token}\r\nContent-Length: {length}\r\n\r\n"
        )
        assert shared_page.raw(head.encode()).status in (400, 413)


def test_a_body_without_end_is_refused(shared_page: PageHome) -> None:
    head = (
        f"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {shared_page.token}\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    with shared_page.connect() as connection:
        connection.sendall(head.encode())
        try:
            for _ in range(64):
                connection.sendall(chunk)
        except OSError:
            pass  # It was closed while we were still sending.
        try:
            answer = connection.recv(100)
        except ConnectionResetError:
            answer = b""
    assert not answer or answer.startswith(b"HTTP/1.1 413")


def test_a_strangers_body_is_never_waited_for(shared_page: PageHome) -> None:
    head = (
        "POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: 1000000\r\nAuthorization: Bearer wrong\r\n\r\n"
    )
    assert shared_page.raw(head.encode()).status == 401


@pytest.mark.parametrize("size", [70_000, 200_000])
def test_a_head_without_end_is_refused(shared_page: PageHome, size: int) -> None:
    with shared_page.connect() as connection:
        try:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * size)
            answer = connection.recv(100)
        except OSError:
            answer = b""
    assert not answer or answer.startswith(b"HTTP/1.1 4")


def test_bytes_that_are_no_http_are_refused(shared_page: PageHome) -> None:
    for rubbish in (b"\x16\x03\x01\x02\x00", b"\0" * 100, b"GET\r\n\r\n", b"{}\n" * 10):
        with shared_page.connect() as connection:
            connection.sendall(rubbish + b"\r\n\r\n")
            try:
                assert connection.recv(100)[:12] in (b"", b"HTTP/1.1 400")
            except ConnectionResetError:
                pass
    assert shared_page.get("/api/me")


def test_a_thousand_idle_connections_keep_nobody_out_and_disturb_no_job(page: PageHome) -> None:
    idle: list[socket.socket] = []
    try:
        for _ in range(MANY):
            idle.append(page.connect())
            if len(idle) % 250 == 0:
                assert page.get("/api/me")["user"]
                a_job_runs(page)
        page.post("/api/jobs", {"jobs": [{"argv": ["true"], "gpus": 0}]})
        # Those that say nothing are let go, sooner or later.
        eventually(lambda: closed(idle) >= MANY, "all idle connections are let go")
    finally:
        for connection in idle:
            connection.close()
    assert page.get("/api/me") and "Traceback" not in page.home.log_text()


def test_a_head_that_trickles_in_is_not_waited_for(page: PageHome) -> None:
    slow = [page.connect() for _ in range(100)]
    try:
        for connection in slow:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")

        def trickled() -> bool:
            for number, connection in enumerate(slow):
                try:
                    connection.sendall(f"X-{number}: y\r\n".encode())
                except OSError:
                    pass
            assert page.get("/api/me")["user"], "others are served all the while"
            return closed(slow) == len(slow)

        a_job_runs(page)
        eventually(trickled, "slow senders are let go")
    finally:
        for connection in slow:
            connection.close()


def closed(connections: list[socket.socket]) -> int:
    """How many of them the other side has closed."""
    count = 0
    for connection in connections:
        connection.setblocking(False)
        try:
            count += connection.recv(65_536) == b""
        except BlockingIOError:
            pass
        except OSError:
            count += 1
        finally:
            connection.settimeout(60)
    return count


def test_feeds_that_nobody_reads_hold_up_nobody(page: PageHome) -> None:
    head = (
        f"GET /api/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {page.token}\r\n\r\n"
    )
    deaf = [page.connect() for _ in range(50)]
    try:
        for connection in deaf:
            connection.sendall(head.encode())
        for _ in range(20):
            page.home.submit_all([{"argv": ["true"], "hold": True, "name": "n" * 200}] * 100)
        a_job_runs(page)
        assert page.get("/api/jobs?limit=1")["total"] == 2001
    finally:
        for connection in deaf:
            connection.close()
    a_job_runs(page)


def test_hostile_text_comes_back_as_the_text_it_is(page: PageHome) -> None:
    name = "<img src=x onerror=alert(1)> \"'&;$(x) \u202e"
    name = name.replace("\u202e", "é")
    shell = "echo '<script>alert(1)</script>' \"\u001b]0;x\u0007\" '\\u2028'"
    job: dict[str, Any] = {"shell": shell, "name": name, "gpus": 0, "group": name}
    [job_id] = page.post("/api/jobs", {"jobs": [job]})["ids"]
    page.home.until_final(job_id)
    [row] = page.get("/api/jobs?sort=id")["jobs"]
    assert (row["name"], row["group"], row["command"]) == (name, name, shell)
    reply = page.ask("GET", f"/api/jobs/{job_id}/log")
    assert reply.headers["content-type"] == "application/json"
    assert "<script>" in json.loads(reply.body)["lines"][0]["text"]
