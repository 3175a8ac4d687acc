"""A job in this terminal, from its submission to the end of its last attempt."""

from __future__ import annotations

import signal
import time

from stoker.api.client import Client, ConnectionLost, NoAnswerYet
from stoker.cli.attached import AttachedProcess, CouldNotStart, NotGranted
from stoker.cli.reconnect import Reconnection
from stoker.errors import StokerError, Unavailable
from stoker.output_files import filled
from stoker.submission.surroundings import submit
from stoker.text.jobs import exit_code
from stoker.text.terminal import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

# A job that starts at once need not say that it waited.
_SILENCE_S = 0.5
# How long to give the daemon to notice that the job has ended, so that the next command sees it
# so. What the exit code is does not depend on it.
_NOTICE_S = 1.0
# Of a job that a signal ended, the daemon knows whether it was stopped: a user should be told.
_NOTICE_AFTER_SIGNAL_S = 10.0
NOT_FOUND = 127
_TIME_LIMIT = "time limit"  # what the daemon says of a job that its time limit ended
_LEAVES = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Leave(Exception):
    """A signal came while the job had not started: it is not wanted any more."""

    def __init__(self, number: int) -> None:
        self.exit_code = 128 + number


def _leave_on_signal(number: int, frame: FrameType | None) -> None:
    """For signals while the job waits: see Leave. Further ones change nothing."""
    for one in _LEAVES:
        signal.signal(one, signal.SIG_IGN)
    raise Leave(number)


class Attachment:
    """One job and its terminal, from the submission to the end of its last attempt."""

    def __init__(
        self,
        request: dict[str, Any],
        on_grant: Callable[[int, dict[str, Any]], None] | None = None,
    ) -> None:
        """`on_grant` is told the job's id, and what it was given, before it begins."""
        self._client = Client()
        self._on_grant = on_grant
        self._request = request
        self._job_id: int | None = None
        self._attempt: int | None = None  # granted, and not begun yet
        self._begun = 0  # the latest attempt that was granted
        self._code: int | None = None
        self._reason = ""
        self._told_reason = ""
        self._submitted_at = 0.0

    def run(self) -> int:
        """Wait, run, and give the exit code; a signal before the job has begun takes it back."""
        for number in _LEAVES:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, _leave_on_signal)
        try:
            code = self._follow()
            self._client.close()
            return code
        except Leave as left:
            self.cancel()
            return left.exit_code

    def _follow(self) -> int:
        self._job_id = submit(self._client, self._request, attached=True)
        self._submitted_at = time.monotonic()
        reconnection = Reconnection(self._client)
        attached = False
        while True:
            try:
                if not attached:
                    self._client.send("attach", job_id=self._job_id, claims=True)
                    attached = True
                event = self._next_event()
            except StokerError as error:
                if self._code is not None and not self._may_run_again():
                    return self._code
                if not isinstance(error, (ConnectionLost, Unavailable)):
                    raise
                reconnection.wait(error)
                attached = False
                continue
            if event is None:
                assert self._code is not None
                return self._code
            if event.get("event") == "granted":
                # A daemon that has come back may tell again what we have long begun.
                if event["attempt"] > self._begun:
                    self._begun = event["attempt"]
                    self._begin(event)
            elif event.get("event") == "ended":
                return self._end(event)

    def _next_event(self) -> dict[str, Any] | None:
        """What the daemon says next; None if the job has ended and nothing more need come."""
        while True:
            over = self._code is not None and not self._may_run_again()
            timeout_s = None
            if over:
                timeout_s = _NOTICE_AFTER_SIGNAL_S if (self._code or 0) > 128 else _NOTICE_S
            if not over and self._reason != self._told_reason:
                timeout_s = max(self._submitted_at + _SILENCE_S - time.monotonic(), 0.0)
            try:
                event = self._client.receive(timeout_s)
            except NoAnswerYet:
                if over:
                    return None
                self._told_reason = self._reason
                say(f"stoker: job {self._job_id} waits: {self._reason}")
                continue
            if event.get("event") == "waiting":
                self._reason = str(event.get("text") or "")
            elif event.get("event"):
                return event

    def _may_run_again(self) -> bool:
        return bool(self._code) and bool(self._request["jobs"][0].get("retries"))

    def _begin(self, event: dict[str, Any]) -> None:
        """It is our turn: run the command here."""
        job, attempt = self._request["jobs"][0], event["attempt"]
        self._attempt = attempt
        assert self._job_id is not None
        if self._on_grant is not None:
            self._on_grant(self._job_id, event)
        out, err = (
            None if path is None else filled(path, self._job_id, job.get("name"), attempt)
            for path in (job.get("out"), job.get("err"))
        )
        try:
            process = AttachedProcess(
                event["argv"],
                event["env"],
                event.get("cwd") or self._request["cwd"],
                event["dir"],
                (out, err),
                append=attempt > 1 or not job.get("overwrite"),
                namespace=event.get("namespace"),
            )
        except NotGranted:
            self._attempt = None  # The daemon says what became of the job.
            return
        except CouldNotStart as error:
            self._report(error=str(error), errno=error.errno)
            self._attempt = None
            if error.errno:
                return  # The daemon says when it may be tried again.
            self._code = NOT_FOUND
            say(f"stoker: job {self._job_id} could not start: {error}")
            return
        self._report(pid=process.pid)
        self._attempt = None
        self._code = process.wait()

    def _report(self, **fields: Any) -> None:
        """Tell the daemon what became of the attempt; the directory tells it if this does not."""
        try:
            self._client.send(
                "attach_started", job_id=self._job_id, attempt=self._attempt, **fields
            )
        except StokerError:
            pass

    def _end(self, event: dict[str, Any]) -> int:
        if self._code is not None:
            # An exit code alone looks as if the command had ended by itself.
            if event["state"] == "cancelled" or event.get("text") == _TIME_LIMIT:
                say(f"stoker: job {self._job_id} was stopped: {event.get('text') or 'cancelled'}")
            return self._code
        text = f": {event['text']}" if event.get("text") else ""
        say(f"stoker: job {self._job_id} {event['state']}{text}")
        return exit_code([event])

    def cancel(self) -> None:
        """Take the job back; it has not begun."""
        if self._job_id is not None:
            if self._attempt is not None:
                self._report(error="interrupted before it started")
            try:
                with Client(autostart=False) as client:
                    client.call("cancel", select={"ids": [str(self._job_id)]})
            except StokerError:
                # A daemon that is not there will find this terminal gone.
                pass
        # Only now: a connection that closes is a terminal that is gone, and not a change of mind.
        self._client.close()
