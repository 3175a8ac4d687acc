"""A feed from its first line to its last job.

Nothing here schedules: lines become jobs of one group as they arrive, and the daemon says what
becomes of them. What the feed does next is derived from where its lines stand and how far it has
been told to go, so that a lost connection loses no request.
"""

from __future__ import annotations

import os
import select
import time
from collections import deque
from enum import IntEnum

from stoker.api.client import line_of
from stoker.cli.feeding.channel import Request
from stoker.cli.feeding.tally import Line, Tally
from stoker.errors import NotFound, StokerError
from stoker.submission.lines import Refusal
from stoker.submission.surroundings import note_commits
from stoker.text.ids import ranges

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    from stoker.cli.feeding.channel import Channel
    from stoker.cli.feeding.identity import Points
    from stoker.cli.feeding.signals import Signals
    from stoker.cli.feeding.source import Source
    from stoker.submission.lines import Command

    class View(Protocol):
        """Who shows what happens."""

        def said(self, text: str) -> None:
            """Words about the feed itself."""

        def started(self, line: Line) -> None:
            """A line's job runs."""

        def ended(self, line: Line, event: dict[str, Any]) -> None:
            """A line's job is over, or (`final` is false) will be tried again."""

        def tick(self, tally: Tally) -> float | None:
            """Called after all that came; how soon it wants to be called again, in seconds."""

        def close(self) -> None:
            """Nothing more will come."""


MOST_UNDER_WAY = 200_000  # lines stay in the input while this many are unfinished
_MOST_IN_A_MESSAGE = 10_000
_FIRST_IN_A_MESSAGE = 50  # and then four times as many each time: the first jobs start at once
_MOST_BYTES_IN_A_MESSAGE = 4_000_000
# While many jobs are under way, what happens within so long is heard together: to be woken for each
# of them takes more of the machine than some of the jobs do.
_TOGETHER_S = 0.01
_MANY = 32
_UNFINISHED = frozenset(("held", "waiting", "submitted", "running", "stopping"))


class Stage(IntEnum):
    """How far the feed has been told to go; it never goes back."""

    READING = 0  # lines are taken as they come
    FINISHING = 1  # no more are taken
    WINDING_DOWN = 2  # and what has not started is called off
    STOPPING = 3  # and what runs is stopped
    LEAVING = 4  # without waiting; the daemon continues with what it was told


class Feed:
    """One feed."""

    def __init__(
        self,
        source: Source,
        channel: Channel,
        request: dict[str, Any],
        points: Points,
        view: View,
        signals: Signals,
        *,
        resume: bool = False,
        fail_fast: bool = False,
        own: Callable[[Line], dict[str, Any]] = lambda line: {},
        places: Sequence[dict[str, Any]] = (),
    ) -> None:
        self.tally = Tally()
        self.stage = Stage.READING
        self.error: StokerError | None = None  # the daemon wanted no more
        self._source = source
        self._channel = channel
        [self._job] = request["jobs"]  # what every job of the feed has in common
        self._request = request
        self._points = points
        self._view = view
        self._signals = signals
        self._resume = resume
        self._fail_fast = fail_fast
        self._own = own  # what a line's job has for itself alone
        # Needs of which each is for one line at a time, the last of those that are free first. No
        # need of a job says "either these two GPUs or those two", so lines wait here, not there.
        self._has_places = bool(places)
        self._free_places = list(places)
        self._place_of: dict[str, dict[str, Any]] = {}  # by the point of its line
        self._unchecked: deque[Line] = deque()  # read; a resumed feed asks if it knows them
        self._ready: deque[Line] = deque()  # to be queued
        self._prepared: tuple[list[Line], bytes] | None = None  # the next ones, and their request
        self._jobs: dict[int, Line] = {}  # queued and not over, by job id
        self._unsure: list[Line] = []  # their events may have been lost
        self._not_held: list[Line] = []  # they have started, or wait at a cluster
        self._to_release: list[Line] = []  # an interrupted feed has left them held
        self._heeded = 0  # interrupts
        self._in_a_hurry = False  # the user does not wait for what is being stopped
        self._heard_at = 0.0
        self._message_size = min(_FIRST_IN_A_MESSAGE, _MOST_IN_A_MESSAGE)

    def run(self) -> None:
        """Until the end of the input and the last job, or until told otherwise."""
        self._channel.begin()
        self._heed()
        while not self._is_over():
            self._channel.mend()
            self._pursue()
            if self._in_a_hurry and (self._channel.is_free or not self._channel.connected):
                self._go_to(Stage.LEAVING)  # No request is left to send.
                break
            self._wait(self._view.tick(self.tally))
            self._channel.hear(self._on_event)
            self._heard_at = time.monotonic()
            self._heed()  # After that there may be nothing left to wait for.
        self._view.tick(self.tally)

    @property
    def left_behind(self) -> int:
        """How many jobs are not over; the daemon goes on with them."""
        return len(self._jobs)

    def _is_over(self) -> bool:
        if self.stage is Stage.LEAVING:
            return True
        under_way = self._unqueued or self._jobs or not self._channel.is_free
        return self.stage > Stage.READING and not under_way

    def _wait(self, view_s: float | None) -> None:
        """Until there is something to read, hear, heed or show."""
        poll = select.poll()
        poll.register(self._signals.fd, select.POLLIN)
        waits = [wait_s for wait_s in (view_s, self._channel.due_s()) if wait_s is not None]
        pause_s = self._heard_at + _TOGETHER_S - time.monotonic()
        if self._channel.is_free and len(self._jobs) > _MANY and pause_s > 0:
            waits.append(pause_s)
        elif self._channel.connected:
            poll.register(self._channel.client.fileno(), select.POLLIN)
        if self._wants_more():
            poll.register(self._source.fd, select.POLLIN)
        ready = dict(poll.poll(None if not waits else min(waits) * 1000 + 1))
        if self._signals.fd in ready:
            self._signals.clear()
        if self._source.fd in ready and self._wants_more():
            self._read()

    # ------------------------------------------------------------------ lines

    def _wants_more(self) -> bool:
        under_way = self._unqueued + len(self._jobs)
        return self.stage is Stage.READING and under_way < MOST_UNDER_WAY

    def _read(self) -> None:
        found = self._source.read()
        if found is None:
            self._take(self._source.rest())
            self._go_to(Stage.FINISHING)
        else:
            self._take(found)

    def _take(self, found: list[Command | Refusal]) -> None:
        for one in found:
            self.tally.taken += 1
            if isinstance(one, Refusal):
                self.tally.refused += 1
                self.tally.failed += 1
                self._view.said(f"line {one.number} is skipped: {one.what}; {one.hint}")
                self._after_failure()
                continue
            if self.stage >= Stage.WINDING_DOWN:  # since a line that was read with this one
                self.tally.not_run += 1
                continue
            line = Line(one.number, one.text, self._points.name(one.text))
            (self._unchecked if self._resume else self._ready).append(line)

    # ------------------------------------------------------------------ how far to go

    def _go_to(self, stage: Stage) -> None:
        if stage <= self.stage:
            return
        if self.stage is Stage.READING and stage is not Stage.FINISHING:
            self.tally.expected = None  # What is left in the input is not ours any more.
        self.stage = stage
        if stage >= Stage.WINDING_DOWN:
            self._call_off_unqueued()

    def _heed(self) -> None:
        signals = self._signals
        if signals.hung_up:
            self._leave_what_is_queued()
        if signals.finish and self.stage is Stage.READING:
            self.tally.expected = None
            self._go_to(Stage.FINISHING)
            self._view.said("reading no more commands; queued ones will run")
        while self._heeded < signals.interrupts:
            self._heeded += 1
            self._interrupt()

    def _interrupt(self) -> None:
        if self.stage < Stage.WINDING_DOWN:
            self._go_to(Stage.WINDING_DOWN)
            count = self.tally.running
            running = f"{count} running command{'' if count == 1 else 's'} may finish"
            self._view.said(
                "reading no more commands; " + (running if count else "none is running")
                + ("; Ctrl-C again stops them" if count else "")
            )  # fmt: skip
        elif self.stage < Stage.STOPPING:
            self._go_to(Stage.STOPPING)
            self._view.said("stopping running commands; press Ctrl-C again to exit without waiting")
        else:
            self._in_a_hurry = True

    def _leave_what_is_queued(self) -> None:
        """The terminal is gone: what was read is queued still, and the daemon goes on with it."""
        if self.stage is Stage.READING:
            self.tally.expected = None
            self.stage = Stage.FINISHING
        being_told = self._channel.connected and not self._channel.is_free
        if self.stage is not Stage.FINISHING or not (self._unqueued or being_told):
            self._go_to(Stage.LEAVING)

    def _after_failure(self) -> None:
        if self._fail_fast and self.stage < Stage.STOPPING:
            self._go_to(Stage.STOPPING)
            self._view.said("a command has failed; cancelling the rest")

    # ------------------------------------------------------------------ requests

    def _pursue(self) -> None:
        """Send the request that is due now; while one is under way, prepare the next submission."""
        if self._channel.is_free and self.stage is not Stage.LEAVING:
            self._give_what_is_due()
        waits = not self._channel.is_free and len(self._ready) >= self._message_size
        if waits and not self._has_places and self._prepared is None:
            self._prepared = self._submission()

    def _give_what_is_due(self) -> None:
        channel = self._channel
        if channel.missed_something:
            # A submission that was under way has been answered by now: its jobs are among these.
            channel.missed_something = False
            self._unsure = list(self._jobs.values())
            for line in self._unsure:
                line.asked = ""
        if self._unsure:
            self._ask_about_the_unsure()
        elif self.stage is Stage.STOPPING:
            self._request_for(("waiting", "held", "submitted", "running"), "cancel")
        elif self.stage is Stage.WINDING_DOWN:
            # A job that is held can't start any more: those that started meanwhile are let be.
            # One that waits at a cluster can't be held, and is called off there.
            if self._not_held:
                lines, self._not_held = self._not_held, []
                self._ask_about(lines, self._note_submitted)
            elif not self._request_for(("held", "submitted"), "cancel"):
                self._request_for(("waiting",), "hold")
        elif self._unchecked:
            self._ask_about_the_unchecked()
        elif self._prepared or (self._ready and (self._free_places or not self._has_places)):
            self._queue()
        elif self._to_release:
            lines, self._to_release = self._to_release, []
            self._give("release", lines)

    def _request_for(self, states: tuple[str, ...], op: str) -> bool:
        lines = [line for line in self._jobs.values() if line.state in states and line.asked != op]
        if lines:
            for line in lines:
                line.asked = op
                line.called_off = line.called_off or op == "cancel"
            self._give(op, lines)
        return bool(lines)

    def _give(self, op: str, lines: list[Line]) -> None:
        def then(answer: dict[str, Any]) -> None:
            if op == "hold":
                for job_id in answer["ids"]:
                    if job_id in self._jobs:
                        self._jobs[job_id].state = "held"
                        self._jobs[job_id].asked = ""
                self._not_held = [line for line in lines if line.state == "waiting"]

        def failed(error: StokerError) -> None:
            if op == "hold":
                self._not_held = [line for line in lines if line.state == "waiting"]
            # They are over, which we will hear, or are already. But if one of them is not known
            # any more, the others were not told either.
            if isinstance(error, NotFound):
                for line in lines:
                    line.asked = ""

        ids = ranges([line.job_id for line in lines])
        self._channel.give(
            Request(line_of(op, {"select": {"ids": ids}}), then, failed, repeatable=False)
        )

    def _queue(self) -> None:
        """Give a submission; the next one is made while the daemon is at this one."""
        lines, request = self._prepared or self._submission()
        self._prepared = None

        def then(answer: dict[str, Any]) -> None:
            for line, job_id in zip(lines, answer["ids"], strict=True):
                self._adopt(line, job_id, "waiting")

        def failed(error: StokerError) -> None:
            self.tally.not_run += len(lines)
            for line in lines:
                self._leave_place(line)
            self.error = error
            self.tally.expected = None
            self._go_to(Stage.FINISHING)
            self._call_off_unqueued()

        self._channel.give(Request(request, then, failed, repeatable=True))

    def _submission(self) -> tuple[list[Line], bytes]:
        """The first lines that are ready, as a request that queues them."""
        lines: list[Line] = []
        size, most = 0, self._message_size
        self._message_size = min(4 * most, _MOST_IN_A_MESSAGE)
        if self._has_places:
            most = min(most, len(self._free_places))
        while self._ready and len(lines) < most and size < _MOST_BYTES_IN_A_MESSAGE:
            line = self._ready.popleft()
            lines.append(line)
            size += len(line.text)
        run, own = self._points.run, self._own
        each = [
            {
                **own(line),
                "shell": line.text,
                "point": line.point,
                "params": {"feed": run, "line": line.number},
            }
            for line in lines
        ]
        # A submission that is cut off is repeated with the same token, and taken once.
        fields = self._request | {"each": each, "token": os.urandom(16).hex()}
        if self._has_places:
            self._place_of |= {line.point: self._free_places.pop() for line in lines}
            jobs = [self._job | self._place_of[one["point"]] | one for one in each]
            fields = fields | {"jobs": jobs, "each": None}
        if "freeze" not in self._job:
            note_commits([self._job], fields)  # It may have changed since the feed began.
        return lines, line_of("submit", fields)

    def _leave_place(self, line: Line) -> None:
        place = self._place_of.pop(line.point, None)
        if place is not None:
            self._free_places.append(place)

    def _call_off_unqueued(self) -> None:
        """What was read and is not queued yet is not queued any more."""
        self.tally.not_run += self._unqueued
        self._unchecked.clear()
        self._ready.clear()
        self._prepared = None

    @property
    def _unqueued(self) -> int:
        prepared = len(self._prepared[0]) if self._prepared is not None else 0
        return len(self._unchecked) + len(self._ready) + prepared

    def _adopt(self, line: Line, job_id: int, state: str) -> None:
        line.job_id, line.state = job_id, state
        self._jobs[job_id] = line

    # ------------------------------------------------------------------ how lines stand

    def _ask_about(self, lines: list[Line], tell: Any) -> None:
        def then(answer: dict[str, Any]) -> None:
            found = answer["points"]
            for line in lines:
                known = found.get(line.point)
                tell(line, known["id"] if known else 0, known["state"] if known else "")

        def failed(error: StokerError) -> None:
            raise error

        question = line_of("points", {"points": [line.point for line in lines]})
        self._channel.give(Request(question, then, failed, repeatable=True))

    def _note_submitted(self, line: Line, job_id: int, state: str) -> None:
        if state == "submitted" and line.state == "waiting":
            line.state = state

    def _ask_about_the_unchecked(self) -> None:
        count = min(len(self._unchecked), _MOST_IN_A_MESSAGE)
        self._ask_about([self._unchecked.popleft() for _ in range(count)], self._check)

    def _check(self, line: Line, job_id: int, state: str) -> None:
        """A resumed feed runs what is missing or did not end well, and waits for the rest."""
        if state == "succeeded":
            self.tally.before += 1
        elif state in _UNFINISHED:
            self._adopt(line, job_id, "waiting")
            line.rerun = state == "stopping"
            if state == "held":
                self._to_release.append(line)
            elif state not in ("waiting", "submitted"):
                self._start(line, [])
        else:
            self._ready.append(line)

    def _ask_about_the_unsure(self) -> None:
        lines, self._unsure = self._unsure[:_MOST_IN_A_MESSAGE], self._unsure[_MOST_IN_A_MESSAGE:]
        self._ask_about(lines, self._catch_up)

    def _catch_up(self, line: Line, job_id: int, state: str) -> None:
        """What the events would have told, had they been heard."""
        if line.job_id not in self._jobs or job_id not in (line.job_id, 0):
            return
        if state in ("waiting", "held", "submitted"):
            if line.state == "running":
                self._wait_again(line)
            if state == "held" and self.stage >= Stage.WINDING_DOWN:
                line.state = "held"
        elif state in _UNFINISHED:
            if line.state != "running":
                self._start(line, [])
        else:
            event = {"state": state or "lost", "final": True, "reason": "" if state else "removed"}
            self._end(line, event)

    # ------------------------------------------------------------------ events

    def _on_event(self, event: dict[str, Any]) -> None:
        line = self._jobs.get(event["id"])
        if line is None:
            return  # Another job of the group.
        if event["event"] == "started":
            if line.state != "running":
                self._start(line, event["gpus"], event.get("log"))
        elif event["final"]:
            self._end(line, event)
        else:
            self._view.ended(line, event)
            self._wait_again(line)

    def _start(self, line: Line, gpus: list[str], log: str | None = None) -> None:
        line.state, line.gpus, line.log, line.asked = "running", gpus, log, ""
        line.started_at = time.monotonic()
        self.tally.started()
        self._view.started(line)

    def _wait_again(self, line: Line) -> None:
        if line.state == "running":
            self.tally.running -= 1
        line.state, line.asked = "waiting", ""

    def _end(self, line: Line, event: dict[str, Any]) -> None:
        del self._jobs[line.job_id]
        self._leave_place(line)
        if line.rerun and event["state"] != "succeeded" and self.stage < Stage.WINDING_DOWN:
            self._wait_again(line)
            line.rerun = False
            line.started_at = None
            self._ready.append(line)
            return
        failed = self.tally.end(line, event)
        self._view.ended(line, event)
        if failed:
            self._after_failure()
