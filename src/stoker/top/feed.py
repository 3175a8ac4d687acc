"""What the daemon tells, brought to the view by a thread of its own: the view itself never waits.

One connection hears that something has changed, the other asks for what is to be seen of it: a
window of the list, never all of it. A daemon that has gone is told of, and found again by itself.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from stoker.api.client import Client
from stoker.api.paths import Home
from stoker.errors import StokerError, Unavailable, Unreachable, UsageError
from stoker.text.jobs import now_ms

# Use over time is drawn in steps of this length, the last ten minutes of it.
_STEP_MS = 10_000
_STEPS = 60
_MOST_GAP_STEPS = 6
_EVERY_MS = 250  # how often changes are told at most
_HISTORY_S = 2.0
_STARTS_S = 2.0
_MOST_AHEAD = 200  # unfinished jobs, of which expected starts are worked out
_RETRY_S = 0.25
_MOST_NAMED = 1_000
_MOST_RETRY_S = 10.0
_LAST_WORDS_S = 5.0

_STOPPED = "the daemon was stopped; `stoker daemon start` brings it back"
_OVERVIEW = ("counts", "paused", "paused_groups", "short", "disk", "cpus")


@dataclass(frozen=True, slots=True)
class View:
    """Which part of the list of jobs is looked at."""

    text: str = ""  # a filter
    sort: str = "standing"
    descending: bool = False
    offset: int = 0
    limit: int = 100

    def request(self) -> dict[str, Any]:
        """The fields of the api's `browse`."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Picture:
    """What there is to be seen at one moment."""

    view: View
    jobs: Sequence[dict[str, Any]] = ()
    total: int = 0
    gpus: Sequence[dict[str, Any]] = ()
    overview: Mapping[str, Any] = field(default_factory=dict)
    histories: Mapping[str, Sequence[float | None]] = field(default_factory=dict)
    names: Mapping[int, str] = field(default_factory=dict)  # of the jobs on GPUs
    starts: Mapping[int, int] = field(default_factory=dict)  # when jobs should start, in ms
    refused: str = ""  # why the daemon does not show this view


class Feed(threading.Thread):
    """Brings pictures until it is stopped; `lost` says in words that there is no daemon."""

    def __init__(
        self,
        home: Home,
        view: View,
        show: Callable[[Picture], None],
        lost: Callable[[str], None],
    ) -> None:
        super().__init__(name="feed", daemon=True)
        self._home = home
        self._show = show
        self._lost = lost
        self._view = view
        self._over = False
        self._wake_reader, self._wake_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._gpus: Sequence[dict[str, Any]] = ()
        self._overview: dict[str, Any] = {}
        self._histories: dict[str, Sequence[float | None]] = {}
        self._histories_at = float("-inf")
        self._names: dict[int, str] = {}
        self._starts: dict[int, int] = {}
        self._starts_at = float("-inf")

    # ------------------------------------------------------------------ from the view's thread

    def look(self, view: View) -> None:
        """Look at another part of the list from now on."""
        if view != self._view:
            self._view = view
            self._wake()

    def stop(self) -> None:
        """Bring nothing more."""
        self._over = True
        self._wake()

    def _wake(self) -> None:
        with suppress(OSError):  # It is awake: the pipe is full, or all is over.
            os.write(self._wake_writer, b"!")

    # ------------------------------------------------------------------ in its own thread

    def run(self) -> None:
        """Hear and ask until stopped."""
        autostart, pause_s = True, _RETRY_S
        while not self._over:
            try:
                with (
                    Client(self._home, autostart=autostart) as news,
                    Client(self._home, autostart=False) as questions,
                ):
                    news.connect()
                    # It is there: should it die, it is missed, and started again.
                    autostart, pause_s = True, _RETRY_S
                    self._follow(news, questions)
            except Unavailable:
                # Stopped on purpose: the user will start it again.
                autostart = False
                self._tell_lost(_STOPPED)
            except Unreachable as error:
                self._tell_lost(f"{error.message}; trying again" if autostart else _STOPPED)
            except StokerError as error:
                self._tell_lost(f"{error.message}; {error.hint}" if error.hint else error.message)
            self._sleep(pause_s)
            if autostart:
                pause_s = min(2 * pause_s, _MOST_RETRY_S)
        os.close(self._wake_reader)
        os.close(self._wake_writer)

    def _tell_lost(self, words: str) -> None:
        if not self._over:
            self._lost(words)

    def _sleep(self, seconds: float) -> None:
        if not self._over:
            select.select([self._wake_reader], [], [], seconds)
            self._calm()

    def _calm(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._wake_reader, 4096)

    def _follow(self, news: Client, questions: Client) -> None:
        """Follow one daemon until it is gone."""
        news.send("watch", every_ms=_EVERY_MS)
        self._take(news.receive(_LAST_WORDS_S))
        try:
            self._bring(questions)
            while not self._over:
                self._hear(news)
                if not self._over:
                    self._bring(questions)
        except Unreachable:
            # The other connection may have been told why.
            while True:
                self._take(news.receive(_LAST_WORDS_S))

    def _hear(self, news: Client) -> None:
        """Wait until something is new: at the daemon, in what is looked at, or by the clock."""
        wait_s = max(0.0, self._histories_at + _HISTORY_S - time.monotonic())
        ready, _, _ = select.select([news.fileno(), self._wake_reader], [], [], wait_s)
        if self._wake_reader in ready:
            self._calm()
        if news.fileno() in ready:
            self._take(news.receive())
        while news.has_line():
            self._take(news.receive())

    def _take(self, line: dict[str, Any]) -> None:
        self._overview = {name: line[name] for name in _OVERVIEW if name in line}
        if line.get("gpus") is not None:
            self._gpus = line["gpus"]

    def _bring(self, questions: Client) -> None:
        view = self._view
        if time.monotonic() - self._histories_at >= _HISTORY_S:
            self._ask_histories(questions)
        if time.monotonic() - self._starts_at >= _STARTS_S:
            self._starts = expected_starts(questions, self._overview)
            self._starts_at = time.monotonic()
        self._names = names_on(self._gpus, questions, self._names)
        jobs: Sequence[dict[str, Any]] = ()
        total, refused = 0, ""
        try:
            answer = questions.call("browse", **view.request())
            jobs, total = answer["jobs"], answer["total"]
        except UsageError as error:
            refused = error.message
        self._show(
            Picture(
                view,
                jobs,
                total,
                self._gpus,
                self._overview,
                self._histories,
                self._names,
                self._starts,
                refused,
            )
        )

    def _ask_histories(self, questions: Client) -> None:
        self._histories_at = time.monotonic()
        if any(gpu.get("utilisation_percent") is not None for gpu in self._gpus):
            self._histories = histories(questions)


def histories(client: Client) -> dict[str, Sequence[float | None]]:
    """The use of each GPU over time, in steps of the same length, the latest last."""
    now = now_ms()
    since = max(0, now - (_STEPS + _MOST_GAP_STEPS) * _STEP_MS)
    found = client.call("gpu_history", since_ms=since)["histories"]
    return {
        gpu: in_steps(item.get("at_ms") or (), item.get("use_percent") or (), now)
        for gpu, item in found.items()
    }


def in_steps(
    at_ms: Sequence[int], values: Sequence[float | None], until_ms: int
) -> list[float | None]:
    """The mean of each step; a short gap goes on with what was before it.

    Steps begin at fixed moments, so that what is drawn moves on and does not flicker.
    """
    last = until_ms // _STEP_MS
    steps: dict[int, list[float]] = {}
    for moment, value in zip(at_ms, values, strict=False):
        if value is not None:
            steps.setdefault(moment // _STEP_MS, []).append(value)
    found: list[float | None] = []
    known: float | None = None
    known_at = 0
    for step in range(last - _STEPS - _MOST_GAP_STEPS, last + 1):
        here = steps.get(step)
        if here:
            known, known_at = sum(here) / len(here), step
        found.append(known if step - known_at <= _MOST_GAP_STEPS else None)
    return found[-_STEPS:]


def expected_starts(client: Client, overview: Mapping[str, Any]) -> dict[int, int]:
    """When waiting jobs should start, if they are few: the queue is run forward to tell."""
    if not (overview.get("counts") or {}).get("waiting"):
        return {}
    found = client.call("forecast", limit=_MOST_AHEAD, most_unfinished=_MOST_AHEAD)["starts"]
    return {start["id"]: start["starts_at_ms"] for start in found}


def names_on(
    gpus: Sequence[dict[str, Any]], client: Client, known: Mapping[int, str]
) -> dict[int, str]:
    """The names of the jobs that are on GPUs; a job that has started keeps its name."""
    on_gpus = {job_id for gpu in gpus for job_id in gpu["jobs"]}
    if on_gpus <= known.keys():
        return {job_id: known[job_id] for job_id in on_gpus}
    active = client.call("browse", states=["running", "stopping"], limit=_MOST_NAMED)["jobs"]
    names = {job["id"]: job.get("name") or "" for job in active}
    return {job_id: names.get(job_id, "") for job_id in on_gpus}


def picture_of(client: Client, view: View) -> Picture:
    """One picture, asked for at once."""
    status = client.call("status", limit=1)
    listed = client.call("browse", **view.request())
    gpus = status["gpus"]
    measured = any(gpu.get("utilisation_percent") is not None for gpu in gpus)
    return Picture(
        view,
        listed["jobs"],
        listed["total"],
        gpus,
        {name: status[name] for name in _OVERVIEW if name in status},
        histories(client) if measured else {},
        names_on(gpus, client, {}),
        expected_starts(client, status),
    )
