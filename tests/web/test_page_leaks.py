"""Many browsers come and go, and the page is as it was before."""

from __future__ import annotations

from pathlib import Path

from stoker.api.tokens import MOST_BROWSERS
from waiting import eventually
from web.page_home import PageHome

MANY = 400


def files(page: PageHome) -> int:
    return len(list(Path(f"/proc/{page.pid()}/fd").iterdir()))


def resident_kib(page: PageHome) -> int:
    text = Path(f"/proc/{page.pid()}/status").read_text(encoding="ascii")
    return int(text.split("VmRSS:")[1].split()[0])


def threads(page: PageHome) -> int:
    return len(list(Path(f"/proc/{page.pid()}/task").iterdir()))


def come_and_go(page: PageHome, browsers: int) -> None:
    """Browsers enter, ask, listen to the feed, and are gone; half of them sign out."""
    for number in range(browsers):
        browser = page.enter()
        page.get(f"/api/jobs?text={number}", token=None, headers=browser.headers)
        lines = "".join(f"{name}: {value}\r\n" for name, value in browser.headers.items())
        with page.connect() as feed:
            feed.sendall(f"GET /api/events HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n".encode())
            assert feed.recv(15) == b"HTTP/1.1 200 OK"
        if number % 2:
            own = {**browser.headers, **page.from_own_page()}
            page.post("/api/leave", token=None, headers=own)


def test_browsers_that_come_and_go_leave_no_file_no_thread_and_no_memory_behind(
    page: PageHome,
) -> None:
    come_and_go(page, 2 * MOST_BROWSERS)
    eventually(lambda: page.get("/api/me"), "the page answers")
    opened, running, resident = files(page), threads(page), resident_kib(page)
    come_and_go(page, MANY - 2 * MOST_BROWSERS)
    eventually(lambda: files(page) <= opened, "all files are closed")
    assert threads(page) <= running
    assert resident_kib(page) - resident < 8 * 1024
    assert len([g for g in page.access.grants() if g.kind == "browser"]) <= MOST_BROWSERS
    assert "Traceback" not in page.home.log_text()
