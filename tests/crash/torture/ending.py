"""Quiet after the storm: all faults are taken back, and Stoker is asked what it knows."""

from __future__ import annotations

import os
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crash.torture.driver import Driver, until_clients_end
from crash.torture.log import Submission
from crash.torture.place import Place
from crash.torture.shapes import Job
from stoker.api.client import Client
from stoker.errors import StokerError
from stoker_home import FINAL, StokerHome, is_running
from waiting import eventually

_MOST_AT_ONCE = 400
_CALM_JOBS = 60
_GONE_WITHIN_S = 20.0


@dataclass(slots=True)
class Answers:
    """All that is said and seen at the end."""

    jobs: list[dict[str, Any]] = field(default_factory=list)
    unfinished: list[dict[str, Any]] = field(default_factory=list)
    hanging_clients: list[str] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)  # what could not be asked, or is not right
    left_behind: list[str] = field(default_factory=list)  # processes
    fds_before: int = 0
    fds_after: int = 0
    log_bytes: int = 0
    repeated_line: tuple[str, int] = ("", 0)
    integrity: str = "not asked"
    real_minus_monotonic_ns: int = 0


def end(driver: Driver, place: Place, patience_s: float) -> Answers:
    """Take back all faults, wait until everything is over, ask, and stop the daemon."""
    answers = Answers(real_minus_monotonic_ns=time.time_ns() - time.monotonic_ns())
    stoker = place.stoker
    driver.faults.mend()
    driver.tend()
    try:
        eventually(lambda: _is_up(driver), "a daemon answers", patience_s)
    except AssertionError:
        answers.trouble.append(f"no daemon can be started, {patience_s:.0f} s after the last fault")
        answers.log_bytes = _size(stoker.home.log)
        return answers
    # Clients first: those that live may have something to submit still.
    answers.hanging_clients = until_clients_end(driver, patience_s)
    driver.finish_requests()
    answers.unfinished = _until_all_are_over(driver, stoker, patience_s)
    driver.hands.finish()
    _count_files(driver, place, answers)
    answers.jobs = _all_jobs(stoker)
    _stop(driver, stoker, answers)
    return answers


def _is_up(driver: Driver) -> bool:
    driver.tend()
    try:
        driver.place.stoker.call("hello")
    except (StokerError, OSError):
        if not driver.clients.that_live("daemon"):
            driver.clients.start("daemon", "start")
        return False
    return True


def _until_all_are_over(
    driver: Driver, stoker: StokerHome, patience_s: float
) -> list[dict[str, Any]]:
    """What has not ended although nothing more is done to it."""

    def unfinished() -> int:
        driver.tend()
        counts = stoker.call("status", limit=1)["counts"]
        return sum(count for state, count in counts.items() if state not in FINAL)

    # As long as something ends now and then, it is waited for.
    last, since = unfinished(), time.monotonic()
    while last and time.monotonic() - since < patience_s:
        time.sleep(0.1)
        now = unfinished()
        if now != last:
            last, since = now, time.monotonic()
    if not last:
        return []
    states = ["held", "waiting", "submitted", "running", "stopping"]
    found = stoker.call("list", all=True, states=states)["jobs"]
    for job in found:
        asked = stoker.call("why", select={"ids": [str(job["id"])]})["jobs"]
        job["why"] = asked[0]["text"] if asked else ""
    jobs: list[dict[str, Any]] = found
    return jobs


def _all_jobs(stoker: StokerHome) -> list[dict[str, Any]]:
    ids = [job["id"] for job in stoker.call("list", all=True)["jobs"]]
    found = []
    for start in range(0, len(ids), _MOST_AT_ONCE):
        some = [str(job_id) for job_id in ids[start : start + _MOST_AT_ONCE]]
        found.extend(stoker.call("show", select={"ids": some})["jobs"])
    return found


# ---------------------------------------------------------------------- the daemon itself


def _count_files(driver: Driver, place: Place, answers: Answers) -> None:
    """The same daemon has as many files open after some more jobs and clients as before."""
    stoker = place.stoker
    if driver.has_page:
        try:
            # A page that ended is started again after a pause, which grows.
            eventually(lambda: stoker.call("page_status")["running"], "the page is served", 90.0)
        except AssertionError:
            answers.trouble.append("the page does not come back")
        stoker.stoker("web", "stop")
    pid = stoker.daemon_pid()
    answers.fds_before = _steady(lambda: len(os.listdir(f"/proc/{pid}/fd")))
    jobs = [Job(f"tok-calm-{number}", "calm", ms=0) for number in range(_CALM_JOBS)]
    driver.log.submissions.append(Submission(jobs, "calm", acknowledged=True))
    ids = stoker.submit_all([driver.fields_of(job) for job in jobs])
    with Client(stoker.home, autostart=False) as client:
        client.send("wait", select={"ids": [str(job_id) for job_id in ids]})
        client.receive(60.0)
    answers.fds_after = _steady(lambda: len(os.listdir(f"/proc/{pid}/fd")))


def _steady(number: Callable[[], int]) -> int:
    """A number once it has not changed for a while."""
    last, since = number(), time.monotonic()
    while time.monotonic() - since < 0.5:
        time.sleep(0.05)
        now = number()
        if now != last:
            last, since = now, time.monotonic()
    return last


def _stop(driver: Driver, stoker: StokerHome, answers: Answers) -> None:
    driver.is_over = True
    stopped = stoker.cli("daemon", "stop")
    if stopped.code != 0:
        answers.trouble.append(f"`stoker daemon stop` failed: {stopped.err.strip()}")
    # Children that have left a job's session by their own proposal end by themselves, soon.
    deadline = time.monotonic() + _GONE_WITHIN_S
    while stoker.processes() and time.monotonic() < deadline:
        driver.tend()
        time.sleep(0.05)
    answers.left_behind = [_words(pid) for pid in stoker.processes() if is_running(pid)]
    answers.log_bytes = _size(stoker.home.log)
    answers.repeated_line = _most_repeated(stoker.home.log)
    try:
        with sqlite3.connect(f"file:{stoker.home.database}?mode=ro", uri=True) as database:
            answers.integrity = str(database.execute("PRAGMA integrity_check").fetchone()[0])
    except sqlite3.Error as error:
        answers.integrity = str(error)


def _words(pid: int) -> str:
    try:
        data = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return str(pid)
    return f"{pid} {data.replace(bytes(1), b' ').decode(errors='replace')[:200]}"


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _most_repeated(path: str) -> tuple[str, int]:
    """The line of the log that is there most often, whatever its time and its numbers."""
    counts: Counter[str] = Counter()
    try:
        with open(path, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                counts["".join(letter for letter in line if not letter.isdigit())] += 1
    except OSError:
        return "", 0
    return counts.most_common(1)[0] if counts else ("", 0)
