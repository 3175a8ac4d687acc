"""What a job is to wait for, as it was asked for and as it stands now."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass

from stoker.core.model import FINAL, JobState, Requirement
from stoker.core.state import State
from stoker.errors import UsageError
from stoker.executors.foreign import lives
from stoker.quantities import quoted
from stoker.store.views import Views

# So many jobs that follow each other are one requirement, which costs as little as one job does;
# but a cluster can be told to wait for single jobs only.
RANGE_FROM = 101
_MOST_IN_RANGE = 1_000_000


def required(texts: Iterable[str], must_succeed: bool) -> list[Requirement]:
    """The jobs of these ids and ranges ("3-9"); many that follow each other as one."""
    runs: list[tuple[int, int]] = []
    for first, last in sorted(map(_ends, texts)):
        if runs and first <= runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], max(last, runs[-1][1]))
        else:
            runs.append((first, last))
    found: list[Requirement] = []
    for first, last in runs:
        if last + 1 - first >= RANGE_FROM:
            found.append(Requirement(first, must_succeed, last))
        else:
            found += [Requirement(job_id, must_succeed) for job_id in range(first, last + 1)]
    return found


def _ends(text: str) -> tuple[int, int]:
    words = text.split("-", 1)
    if not all(word.isdecimal() and len(word) <= 18 for word in words):
        raise UsageError(f"{quoted(text)} is not a job's id", "write e.g. --after 7,8")
    first, last = int(words[0]), int(words[-1])
    if not 0 <= last - first < _MOST_IN_RANGE:
        raise UsageError(f"{quoted(text)} is not a range of jobs", "write e.g. --after 7-9")
    return first, last


@dataclass(frozen=True, slots=True)
class Stand:
    """How the jobs of a requirement stand."""

    unfinished: bool  # some of them have not ended
    failed: tuple[int, JobState] | None  # one did not succeed as it must: it never comes true
    unknown: int | None  # there is no such job


class RequiredJobs:
    """How required jobs stand as a proposal is granted; each requirement is looked up once."""

    def __init__(self, state: State, views: Views, coming: Container[int]) -> None:
        """`coming`: the jobs that the same proposal queues."""
        self._state = state
        self._views = views
        self._coming = coming
        self._known: dict[Requirement, Stand] = {}

    def stand(self, requirement: Requirement) -> Stand:
        """How those of one requirement stand."""
        known = self._known.get(requirement)
        if known is None:
            known = self._known[requirement] = self._look_up(requirement)
        return known

    def _look_up(self, requirement: Requirement) -> Stand:
        if requirement.process is not None:
            return Stand(lives(requirement.process), None, None)
        ids = requirement.ids
        past = [i for i in ids if i not in self._state.jobs and i not in self._coming]
        failed = unknown = None
        for job_id, ended_as in self._endings(past):
            if ended_as is None:
                unknown = unknown or job_id
            elif requirement.must_succeed and ended_as is not JobState.SUCCEEDED:
                failed = failed or (job_id, ended_as)
        return Stand(len(past) < len(ids), failed, unknown)

    def _endings(self, past: list[int]) -> Iterable[tuple[int, JobState | None]]:
        if not past:
            return
        rows = self._views.states_between(past[0], past[-1])
        # What has ended in this very turn is not in the record yet.
        for ended in self._state.change.ended:
            if ended.job_is_final:
                rows[ended.job.id] = ended.outcome.state
        for job_id in past:
            state = rows.get(job_id)
            yield job_id, JobState(state) if state in FINAL else None
