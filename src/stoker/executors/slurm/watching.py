"""Asking Slurm for the states of all our jobs at once, the more seldom the less changes."""

from __future__ import annotations

import logging
import os
import time

from stoker.core.model import Exit
from stoker.executors.slurm.calls import Answer
from stoker.executors.slurm.cases import Case
from stoker.executors.slurm.facts import Accounted
from stoker.executors.slurm.squeue import (
    TEXT_FORMAT,
    Seen,
    Unreadable,
    jobs_from_json,
    jobs_from_text,
)
from stoker.machine import user_name

log = logging.getLogger("stoker.slurm")

_EVERY_S = (0.5, 30.0)
_SLOWER = 1.5
_AT_MOST_A_PART = 10  # of the time goes into asking: large clusters take long to answer
_FORGETS_AT_MOST = 100_000  # jobs; a controller that is further behind has begun anew


class Watcher:
    """What Slurm last said, and when it is to be asked again."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._json = True
        self._every_s = _EVERY_S[0]
        self._user = user_name(os.getuid())
        self.due_at = 0.0
        self.asked_at = 0.0
        self.never_asked = True
        self.by_place: dict[tuple[str, int], list[Seen]] = {}  # (batch, index)
        self.unheard_since_ms: int | None = None
        self._last_heard_ms: int | None = None
        self._largest_number = 0  # of a job of ours

    def words(self, now: float) -> list[str]:
        """The call that asks for all of our jobs."""
        self.asked_at = now
        common = ["squeue", f"--user={self._user}", "--states=all"]
        if self._json:
            return [*common, "--json"]
        return [*common, "--noheader", "-O", TEXT_FORMAT]

    def take(self, answer: Answer, now: float) -> bool:
        """Read the answer; False if there is nothing to be learned from it.

        Raises NoAnswer if the answer is that the controller was not reached.
        """
        pause_s = max(self._every_s, answer.took_s * _AT_MOST_A_PART)
        self._every_s = min(_EVERY_S[1], self._every_s * _SLOWER)
        self.due_at = now + pause_s
        if answer.silent:
            return False
        try:
            if not answer.ok:
                raise Unreadable(answer.error)
            read = jobs_from_json if self._json else jobs_from_text
            jobs = read(answer.out, self._token)
        except (Unreadable, ValueError) as error:
            if self._json:
                # Older versions have no JSON, and a build may lack it.
                log.info("squeue gives no JSON (%s); asking for text", error)
                self._json, self.due_at = False, now
            else:
                log.warning("what squeue says can't be read: %s", error)
            return False
        self.never_asked = False
        self.by_place = {}
        for job in jobs:
            self._largest_number = max(self._largest_number, job.number)
            batch = job.comment.removeprefix(self._token)
            self.by_place.setdefault((batch, job.index or 0), []).append(job)
        return True

    def note(self, case: Case, seen: list[Seen], now: float) -> None:
        """Take down what was seen of a case that Slurm has taken."""
        # Should it have been submitted twice, the one that has started counts.
        started = case.started.slurm_id if case.started is not None else ""
        chosen = next((one for one in seen if one.id == started), seen[0] if seen else None)
        if chosen is None:
            if case.asked_the_accounting:
                return  # What that said stands.
            case.missing_polls += 1
            case.missing_since = case.missing_since or now
            case.seen = None
            return
        case.missing_since, case.missing_polls = None, 0
        case.final_since = None if chosen.live else case.final_since or now
        case.launched_at = (case.launched_at or now) if chosen.state == "RUNNING" else None
        case.seen, case.seen_asked_at = chosen, self.asked_at

    def soon(self) -> None:
        """Something was done that shows in the next answer."""
        self._every_s = _EVERY_S[0]
        self.due_at = min(self.due_at, time.monotonic() + _EVERY_S[0])

    def not_later_than(self, moment: float) -> None:
        """Something is to be looked at again then."""
        self.due_at = min(self.due_at, moment)

    def heard(self, now_ms: int) -> None:
        """The controller has answered."""
        self._last_heard_ms, self.unheard_since_ms = now_ms, None

    def not_heard(self, now_ms: int) -> None:
        """It has not."""
        if self.unheard_since_ms is None:
            self.unheard_since_ms = self._last_heard_ms or now_ms

    def counts_back(self, number: int) -> bool:
        """True if Slurm gives a new job a number that was given before: it has forgotten some.

        Their processes may still be there. A node that has one, and is told to start another job
        of that number, refuses, and has the job cancelled by its number; if that is an array's,
        all that run of the array are cancelled.
        """
        if number > self._largest_number or number < self._largest_number - _FORGETS_AT_MOST:
            self._largest_number = number
            return False
        return True

    def just_taken(self, slurm_id: str, name: str, batch: str) -> Seen:
        """A job as it is at the moment at which Slurm has taken it."""
        return self._told(slurm_id, "PENDING", "None", None, name, batch)

    def accounted(self, told: Accounted, batch: str) -> Seen:
        """A job that is over, by the word of the accounting."""
        return self._told(told.id, told.state, "", told.exit, told.name, batch)

    def _told(
        self, slurm_id: str, state: str, reason: str, how: Exit | None, name: str, batch: str
    ) -> Seen:
        array_id, _, task = slurm_id.partition("_")
        index, comment = int(task) if task else None, f"{self._token}{batch}"
        return Seen(slurm_id, int(array_id), index, state, reason, how, 0, "", name, comment)
