"""What the page costs the jobs: the rate of starts with ten tabs open, and without any.

The list has 10,000 jobs that are held beside those that are run. Rounds with and without tabs are
interleaved, and each is compared with its neighbour. The tabs are ten clients that ask what tabs
ask, as often as tabs ask it; with --browser they are tabs of a real one, which takes processor
time of the same machine for drawing.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from side_by_side import HERE, machine, stop_daemon
from stoker.api.client import Client
from stoker.api.paths import Home
from stoker.web.tokens import Access

# As the page does it: see list.js, now.js and feed.js.
WINDOW_EVERY_S = 0.7
HISTORY_EVERY_S = 5.0
FORECAST_EVERY_S = 6.0


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


def cpu_s(pid: int) -> float:
    """The processor time that a process has had."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    fields = text[text.rindex(")") + 2 :].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(args: argparse.Namespace, scratch: Path, *, tabs: int) -> dict[str, float]:
    """The starts a second of one run, and the daemon's processor time for each job."""
    root = Path(tempfile.mkdtemp(prefix="home-", dir=scratch)) / "stoker"
    os.environ["STOKER_HOME"] = str(root)
    home = Home(str(root))
    with Client(home) as client, Client(home) as waiting, ExitStack() as looking:
        try:
            gpus = ",".join(str(number) for number in range(args.slots))
            client.call("config_set", name="gpus", value=gpus)
            client.call("pause")
            fields = {"cwd": "/", "env": dict(os.environ), "user": "bench"}
            held = [{"argv": ["true"], "hold": True, "name": f"held-{n}"} for n in range(args.held)]
            client.call("submit", jobs=held, **fields)
            job = {"argv": ["sh", "-c", "true"], "gpus": 1}
            ids = client.call("submit", jobs=[job] * args.jobs, **fields)["ids"]
            if tabs:
                url = client.call("page_start", changes={"port": 0})["url"]
                open_tabs = browser_tabs if args.browser else plain_tabs
                looking.enter_context(open_tabs(home, url, tabs))
            pid = client.call("hello")["pid"]
            waiting.connect()
            cpu_before, began = cpu_s(pid), time.perf_counter()
            waiting.send("wait", select={"ids": [f"{ids[0]}-{ids[-1]}"]})
            client.call("resume")
            jobs: list[dict[str, Any]] = waiting.receive(600.0)["jobs"]
            took, cpu = time.perf_counter() - began, cpu_s(pid) - cpu_before
        finally:
            looking.close()
            stop_daemon()
    assert len(jobs) == args.jobs and all(job["state"] == "succeeded" for job in jobs)
    return {"jobs_a_second": args.jobs / took, "cpu_ms_a_job": 1000 * cpu / args.jobs}


def main() -> int:
    """Measure as the command line says."""
    parser = argparse.ArgumentParser(description="what the page costs the jobs")
    parser.add_argument("--jobs", type=int, default=5000, help="how many run (%(default)s)")
    parser.add_argument("--held", type=int, default=10_000, help="how many more (%(default)s)")
    parser.add_argument("--slots", type=int, default=4, help="at once (%(default)s)")
    parser.add_argument("--tabs", type=int, default=10, help="how many look on (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="how often (%(default)s)")
    parser.add_argument("--browser", action="store_true", help="in a real browser")
    parser.add_argument("--results", type=Path, default=HERE / "results" / "web.json")
    args = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="stoker-bench-"))
    try:
        measured_on = machine(scratch)
        rounds: list[dict[str, Any]] = []
        for number in range(1, args.rounds + 1):
            # Which comes first changes, so that neither has the fresher machine each time.
            order = (0, args.tabs) if number % 2 else (args.tabs, 0)
            found = {tabs: measured(args, scratch, tabs=tabs) for tabs in order}
            ratio = found[args.tabs]["jobs_a_second"] / found[0]["jobs_a_second"]
            rounds.append({"without": found[0], "with": found[args.tabs], "ratio": ratio})
            print(f"round {number}: {ratio:.3f} of the rate without tabs", file=sys.stderr)
    finally:
        shutil.rmtree(scratch)
    ratio = statistics.median(one["ratio"] for one in rounds)
    print(f"{args.jobs} jobs, {args.held} more in the list, {args.tabs} tabs\n")
    for name in ("without", "with"):
        rate = statistics.median(one[name]["jobs_a_second"] for one in rounds)
        cpu = statistics.median(one[name]["cpu_ms_a_job"] for one in rounds)
        print(f"{name:<8}{rate:>9.0f} jobs/s{cpu:>9.3f} ms of the daemon's processor time a job")
    print(f"ratio   {ratio:>9.3f}")
    record = {
        "schema": 1,
        "jobs": args.jobs,
        "held": args.held,
        "slots": args.slots,
        "tabs": args.tabs,
        "browser": args.browser,
        "machine": measured_on,
        "ratio": ratio,
        "rounds": rounds,
    }
    args.results.parent.mkdir(parents=True, exist_ok=True)
    args.results.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
