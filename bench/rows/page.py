"""What the page costs the jobs: the rate of starts with ten tabs open, and without any.

The list has 10,000 jobs that are held beside those that are run. Rounds with and without tabs are
interleaved, and each is compared with its neighbour. The tabs are ten clients that ask what tabs
ask, as often as tabs ask it; with BENCH_BROWSER=1 they are tabs of a real browser, which takes
processor time of the same machine for drawing.
"""

from __future__ import annotations

import http.client
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

from harness.instance import NO_OP, Instance, cpu_s, gpu_list, paused
from harness.measures import Goal, Report, measure
from harness.setting import Setting
from stoker.api.paths import Home
from stoker.api.tokens import Access

# As the page does it: see list.js, now.js and feed.js.
WINDOW_EVERY_S = 0.7
HISTORY_EVERY_S = 5.0
FORECAST_EVERY_S = 6.0
_TABS = 10


def page(setting: Setting) -> list[Report]:
    """The rates with and without tabs."""
    jobs, held = setting.so_many(5_000, 2_000), setting.so_many(10_000, 500)
    rates: dict[int, list[float]] = {0: [], _TABS: []}
    cpu: dict[int, list[float]] = {0: [], _TABS: []}
    for number in range(setting.times(5)):
        # Which comes first changes, so that neither has the fresher machine each time.
        for tabs in (0, _TABS) if number % 2 else (_TABS, 0):
            rate, cpu_us = _measured(setting, jobs, held, tabs)
            rates[tabs].append(rate)
            cpu[tabs].append(cpu_us)
        setting.say(f"round {number + 1}: {rates[_TABS][-1] / rates[0][-1]:.3f} of the rate")
    over = [mine / its for mine, its in zip(rates[_TABS], rates[0], strict=True)]
    shown = [
        measure(f"starts, {tabs} tabs", rates[tabs], "jobs/s", ours=False) for tabs in rates
    ] + [
        measure(f"the daemon's processor time a job, {tabs} tabs", cpu[tabs], "µs", ours=False)
        for tabs in cpu
    ]
    must = Goal(0.9, at_least=True)
    shown.append(
        measure(f"{_TABS} tabs over none", over, "x", must=must, more_is_better=True, slack=0.05)
    )
    return [Report("page", f"what {_TABS} open tabs cost the jobs", shown)]


def _measured(setting: Setting, jobs: int, held: int, tabs: int) -> tuple[float, float]:
    """The starts a second of one run, and the daemon's processor time for each job."""
    waiting = [{"argv": ["true"], "hold": True, "name": f"held-{n}"} for n in range(held)]
    with (
        Instance(setting.scratch, gpus=gpu_list(setting.slots)) as instance,
        ExitStack() as looking,
    ):
        instance.submit(waiting)
        with paused(instance, [NO_OP] * jobs) as ids:
            if tabs:
                url = instance.call("page_start", changes={"port": 0})["url"]
                open_tabs = browser_tabs if os.environ.get("BENCH_BROWSER") else plain_tabs
                looking.enter_context(open_tabs(instance.home, url, tabs))
            pid = instance.pid()
            before = cpu_s(pid)
            took = instance.run_all(ids)
            cpu = cpu_s(pid) - before
    return jobs / took, 1e6 * cpu / jobs


class Tab(threading.Thread):
    """A client that looks on as a tab does."""

    def __init__(self, url: str, token: str, offset: int) -> None:
        super().__init__(daemon=True)
        parts = urlsplit(url)
        assert parts.hostname is not None and parts.port is not None
        self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
        self._headers = {"Authorization": f"Bearer {token}"}
        self._offset = offset
        self._over = threading.Event()
        self.answers = 0

    def run(self) -> None:
        """Ask for the window, and now and then for more, until it is over."""
        began = time.monotonic()
        due = {"/api/gpus/history": began, "/api/forecast": began}
        every = {"/api/gpus/history": HISTORY_EVERY_S, "/api/forecast": FORECAST_EVERY_S}
        while not self._over.wait(WINDOW_EVERY_S):
            self._ask(f"/api/jobs?offset={self._offset}&limit=60")
            for path, moment in due.items():
                if time.monotonic() >= moment:
                    due[path] = time.monotonic() + every[path]
                    self._ask(path)

    def _ask(self, path: str) -> None:
        self._connection.request("GET", path, headers=self._headers)
        answer = self._connection.getresponse()
        answer.read()
        assert answer.status == 200, f"{path}: {answer.status}"
        self.answers += 1

    def close(self) -> None:
        """Look no more."""
        self._over.set()
        self.join(60)
        assert self.answers, "a tab was never answered"


class Feed(threading.Thread):
    """The one stream of changes that all tabs of a browser share."""

    def __init__(self, url: str, token: str) -> None:
        super().__init__(daemon=True)
        parts = urlsplit(url)
        assert parts.hostname is not None and parts.port is not None
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=600)
        connection.request("GET", "/api/events", headers={"Authorization": f"Bearer {token}"})
        self._answer = connection.getresponse()
        self.heard = 0

    def run(self) -> None:
        """Read until the page is gone."""
        try:
            while self._answer.readline():
                self.heard += 1
        except (OSError, http.client.HTTPException, ValueError):
            pass


@contextmanager
def plain_tabs(home: Home, url: str, count: int) -> Iterator[None]:
    """Clients that ask what tabs ask."""
    token, _ = Access(home).new_token("bench", read_only=True, lasts_ms=None)
    feed = Feed(url, token)
    feed.start()
    tabs = [Tab(url, token, 60 * (number % 3)) for number in range(count)]
    for tab in tabs:
        tab.start()
    try:
        yield
    finally:
        for tab in tabs:
            tab.close()
        assert feed.heard, "no change was heard"


@contextmanager
def browser_tabs(home: Home, url: str, count: int) -> Iterator[None]:
    """Tabs of a real browser."""
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium")
    assert path is not None, "there is no chromium"
    with sync_playwright() as playwright:
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=path, args=options)
        context = browser.new_context()
        for number in range(count):
            tab = context.new_page()
            key = f"/enter#{Access(home).new_key()}" if number == 0 else "/"
            tab.goto(url + key)
            tab.wait_for_selector("#link[data-state=live]")
        try:
            yield
        finally:
            browser.close()
