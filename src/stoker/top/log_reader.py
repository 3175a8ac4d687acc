"""Reads the log of the job that is looked at, in a thread: a slow disk never stops the view.

It goes on when the daemon is away: the file is there all the same.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stoker.api.client import Client
from stoker.api.paths import Home
from stoker.errors import StokerError, Unavailable, Unreachable
from stoker.text.jobs import FINAL_STATES, outcome
from stoker.top.log_text import LogTail
from stoker.top.paint import Line

_POLL_S = 0.2
_POLLS_A_QUESTION = 4


@dataclass(frozen=True, slots=True)
class LogNews:
    """What there is to be seen of a log."""

    job_id: int
    lines: list[Line]
    before: str  # what comes before the first of the lines, in words; "" if nothing does
    state: str  # where the job stands, in words
    has_ended: bool


class LogReader(threading.Thread):
    """Follows the log of one job, attempt after attempt, until it is stopped."""

    def __init__(self, home: Home, job_id: int, show: Callable[[LogNews], None]) -> None:
        super().__init__(name=f"log of job {job_id}", daemon=True)
        self._home = home
        self._job_id = job_id
        self._show = show
        self._over = threading.Event()
        self._job: dict[str, Any] | None = None
        self._tail: LogTail | None = None
        self._trouble = ""
        self._shown: tuple[object, ...] = ()

    def stop(self) -> None:
        """Read no more; the thread ends by itself."""
        self._over.set()

    def run(self) -> None:
        """Read and tell."""
        with Client(self._home, autostart=False) as client:
            polls = 0
            while not self._over.is_set():
                if polls % _POLLS_A_QUESTION == 0 and not self._is_final():
                    self._ask(client)
                polls += 1
                changed = self._read()
                self._tell(changed)
                self._over.wait(_POLL_S)
        if self._tail is not None:
            self._tail.close()

    def _is_final(self) -> bool:
        return self._job is not None and self._job["state"] in FINAL_STATES

    def _ask(self, client: Client) -> None:
        try:
            self._job = client.call("show", select={"ids": [str(self._job_id)]})["jobs"][0]
            self._trouble = ""
        except (Unreachable, Unavailable):
            self._trouble = "no daemon"
        except StokerError as error:
            self._trouble = error.message

    def _read(self) -> bool:
        job = self._job
        if job is None:
            return False
        path = job.get("log")
        if self._tail is not None and self._tail.path != path:
            self._tail.close()
            self._tail = None
        if self._tail is None and path is not None:
            self._tail = LogTail(path)
        if self._tail is None:
            return False
        try:
            return self._tail.read()
        except OSError as error:
            self._trouble = f"can't read {path}: {error.strerror}"
            return False

    def _tell(self, changed: bool) -> None:
        standing = (self._state_words(), self._trouble, self._tail is None)
        if not changed and standing == self._shown:
            return
        self._shown = standing
        lines: list[Line] = []
        before = ""
        tail = self._tail
        if tail is not None:
            lines = [*tail.lines, tail.partial] if tail.partial else list(tail.lines)
            if tail.skipped_bytes or tail.dropped:
                before = f"earlier lines: stoker logs --all {self._job_id}"
        if not self._over.is_set():
            words = ": ".join(part for part in (self._state_words(), self._trouble) if part)
            self._show(LogNews(self._job_id, lines, before, words, self._is_final()))

    def _state_words(self) -> str:
        job = self._job
        if job is None:
            return ""
        words = [str(job["state"])]
        if outcome(job):
            words.append(outcome(job))
        if job.get("attempt", 0) > 1:
            words.append(f"attempt {job['attempt']}")
        if self._tail is None:
            words.append("no log yet" if job["state"] not in FINAL_STATES else "no log")
        elif self._tail.missing:
            where = "the output went to its terminal" if job.get("attached") else "no log there"
            if job.get("adopted"):
                where = "Stoker did not start it, and has no output of it"
            words.append(where)
        return ", ".join(words)
