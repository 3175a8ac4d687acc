"""A right that is taken away ends at once: for browsers, for feeds, for what is under way."""

from __future__ import annotations

import http.client
import json
import socket

import pytest

from waiting import eventually
from web.crowd import has_ended
from web.page_home import Browser, PageHome


def let_in_by(page: PageHome, name: str) -> tuple[str, Browser]:
    """A token, and a browser that it let in."""
    secret, _ = page.access.new_token(name, read_only=False, lasts_ms=None)
    return secret, page.enter(secret)


def feed(page: PageHome, headers: dict[str, str]) -> socket.socket:
    """An open feed of events, of which something was heard."""
    connection = page.connect()
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    connection.sendall(f"GET /api/events HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n".encode())
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    assert answer.status == 200
    assert answer.readline() == b"retry: 1000\n"
    return connection


def test_the_browsers_of_a_revoked_token_are_out_and_others_are_not(shared_page: PageHome) -> None:
    secret, browser = let_in_by(shared_page, "short")
    other = shared_page.enter()
    told = shared_page.home.cli("token", "revoke", "short").err
    assert told == "revoked short, and 1 browser let in by it\n"
    for headers in (browser.headers, {"authorization": f"Bearer {secret}"}):
        assert shared_page.ask("GET", "/api/me", token=None, headers=headers).status == 401
    assert shared_page.get("/api/me", token=None, headers=other.headers)


@pytest.mark.parametrize("by", ["token", "browser"])
def test_open_feeds_end_when_their_token_is_revoked(shared_page: PageHome, by: str) -> None:
    secret, browser = let_in_by(shared_page, f"feed by {by}")
    own = {"authorization": f"Bearer {secret}"} if by == "token" else browser.headers
    ending = feed(shared_page, own)
    staying = feed(shared_page, {"authorization": f"Bearer {shared_page.token}"})
    with ending, staying:
        shared_page.home.stoker("token", "revoke", f"feed by {by}")
        eventually(lambda: has_ended(ending), "the feed has ended")
        job = shared_page.home.submit("true")
        shared_page.home.until_final(job)
        assert not has_ended(staying)


def test_the_feed_of_a_browser_that_leaves_ends(shared_page: PageHome) -> None:
    browser = shared_page.enter()
    with feed(shared_page, browser.headers) as connection:
        headers = {**browser.headers, **shared_page.from_own_page()}
        shared_page.post("/api/leave", token=None, headers=headers)
        eventually(lambda: has_ended(connection), "its feed has ended")


def test_feeds_end_when_their_right_expires(shared_page: PageHome) -> None:
    secret, _ = shared_page.access.new_token("brief", read_only=True, lasts_ms=2_000)
    with feed(shared_page, {"authorization": f"Bearer {secret}"}) as connection:
        eventually(lambda: has_ended(connection), "the feed has ended")


def test_an_order_whose_token_is_revoked_while_it_is_sent_is_refused(
    shared_page: PageHome,
) -> None:
    secret, _ = shared_page.access.new_token("sending", read_only=False, lasts_ms=None)
    body = json.dumps({"jobs": [{"argv": ["true"], "gpus": 0}]}).encode()
    before = shared_page.get("/api/jobs?limit=0")["total"]
    with shared_page.connect() as connection:
        head = (
            f"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {secret}\r\nContent-Length: {len(body)}\r\n"
            "Expect: 100-continue\r\n\r\n"
        )
        connection.sendall(head.encode())
        assert connection.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n", "it was let in"
        shared_page.access.revoke(["sending"])
        connection.sendall(body)
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        assert answer.status == 401
    assert shared_page.get("/api/jobs?limit=0")["total"] == before
