"""The policy: which of the jobs that wait goes first, where their priorities are the same.

`fifo`: the order of submission. `shortest`: the least expected GPU time first; but a job is
overtaken only by those that come within ten times its own expected GPU time after it, so its wait
is bounded. `fair`: the group that has used the GPUs least of late goes first.

A place in line is a `Rank`: smaller ones go first, and the priority comes first in it. It is worked
out when it is asked for, from what is known at that moment, so no queue is sorted anew when that
changes. Jobs that a policy tells apart stand in lines of their own (`Order.apart`), and in each of
these the order is that of submission, whatever the policy.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from stoker.core.model import (
    WHOLE_SHARE_MILLI,
    Attempt,
    Job,
    Need,
    Rank,
    Terms,
    goes_before_all,
)
from stoker.core.run_times import RunTimes


class Policy(StrEnum):
    """What goes first among equals of priority."""

    FIFO = "fifo"
    SHORTEST = "shortest"
    FAIR = "fair"


# A job is overtaken only by jobs that come within this multiple of its expected GPU time. In the
# traces that we have, 10 costs no average waiting time, and 1 doubles it.
PATIENCE = 10
# How many jobs of an unknown kind go first, so that its run time becomes known.
SCOUTS = 2
HALF_LIFE_MS = 24 * 3_600_000
# What a job that starts is charged at once, so that those who start together take turns.
_AHEAD_MS = 600_000
MINUTE_MS = 60_000
_MOST_KINDS = 256  # of jobs that come together


@dataclass(frozen=True, slots=True)
class Usage:
    """The GPU time that a group has used, as of a moment: it counts half a day later."""

    gpu_ms: int
    at_ms: int

    def by(self, now_ms: int) -> int:
        """What is left of it by now."""
        if now_ms <= self.at_ms:
            return self.gpu_ms
        return int(self.gpu_ms * 0.5 ** ((now_ms - self.at_ms) / HALF_LIFE_MS))


@dataclass(slots=True)
class _Running:
    """What a group has on GPUs now: how many, and the sum of when each was placed."""

    milli: int = 0
    placed: int = 0

    def count(self, attempt: Attempt, milli: int) -> None:
        self.milli += milli
        self.placed += milli * attempt.placed_at_ms

    def gpu_ms(self, now_ms: int) -> int:
        """What its jobs have used, and are charged ahead."""
        return (self.milli * (now_ms + _AHEAD_MS) - self.placed) // WHOLE_SHARE_MILLI


def with_run_kinds(need: Need, terms: Terms, kinds: Iterable[str]) -> dict[str, Terms]:
    """The terms of jobs that come together, by what kind they are.

    Of jobs without GPUs nothing is learned, nor of a cluster's, nor of those that all differ.
    """
    known = dict.fromkeys(kinds)
    if not need.gpus or terms.executor or len(known) > _MOST_KINDS:
        return dict.fromkeys(known, terms)
    return {kind: replace(terms, run_kind=kind) for kind in known}


def gpus_milli(need: Need) -> int:
    """How much of GPUs a need asks for."""
    return need.share_milli or need.gpus * WHOLE_SHARE_MILLI


@dataclass(slots=True)
class Order:
    """What the policy looks at. `core.state` keeps it up to date."""

    now: Callable[[], int]
    policy: Policy = Policy.FIFO
    run_times: RunTimes = field(default_factory=RunTimes)
    usage: dict[str, Usage] = field(default_factory=dict)  # "": of jobs without a group
    # When jobs came, to the minute: from the first of these ids on, at the same place.
    _first_ids: list[int] = field(default_factory=list)
    _minutes: list[int] = field(default_factory=list)
    _running: dict[str, _Running] = field(default_factory=dict)
    _of_kind: dict[str, int] = field(default_factory=dict)  # run kinds of active jobs: how many

    # ------------------------------------------------------------------ what happens

    def came(self, job_id: int, at_ms: int) -> int | None:
        """A job was submitted; the minute, if it is the first of that."""
        minute = at_ms // MINUTE_MS
        if self._minutes and minute <= self._minutes[-1]:
            return None
        self._first_ids.append(job_id)
        self._minutes.append(minute)
        return minute

    def restore(
        self,
        policy: str,
        run_times: Iterable[tuple[str, int, Sequence[int]]],
        usage: Mapping[str, Usage],
        arrivals: Iterable[tuple[int, int]],
    ) -> None:
        """Know again what is on record; `arrivals`: as `came` has told it."""
        self.policy = Policy(policy)
        self.usage = dict(usage)
        for kind, gpus, runs in run_times:
            self.run_times.put(kind, gpus, tuple(runs))
        for job_id, minute in arrivals:
            self._first_ids.append(job_id)
            self._minutes.append(minute)

    def kept(self) -> dict[str, Any]:
        """What `restore` takes."""
        return {
            "policy": self.policy,
            "run_times": list(self.run_times.items()),
            "usage": self.usage,
            "arrivals": list(zip(self._first_ids, self._minutes, strict=True)),
        }

    def occupies(self, job: Job, attempt: Attempt) -> None:
        """A job was given GPUs."""
        self._count(job, attempt, 1)

    def vacates(self, job: Job, attempt: Attempt) -> None:
        """It has them no longer."""
        self._count(job, attempt, -1)

    def _count(self, job: Job, attempt: Attempt, sign: int) -> None:
        group, kind = job.group or "", job.terms.run_kind
        running = self._running.setdefault(group, _Running())
        running.count(attempt, sign * gpus_milli(job.need))
        if not running.milli:
            del self._running[group]
        if kind:
            self._of_kind[kind] = self._of_kind.get(kind, 0) + sign
            if not self._of_kind[kind]:
                del self._of_kind[kind]

    def shift(self, by_ms: int) -> None:
        """The clock was set: what runs has used no more for that."""
        for running in self._running.values():
            running.placed += running.milli * by_ms

    def charge(self, job: Job, attempt: Attempt) -> str:
        """Charge an attempt that is over to its group; its name."""
        group = job.group or ""
        now_ms = self.now()
        used = max(0, now_ms - attempt.placed_at_ms) * gpus_milli(job.need)
        before = self.usage.get(group)
        left = 0 if before is None else before.by(now_ms)
        self.usage[group] = Usage(left + used // WHOLE_SHARE_MILLI, now_ms)
        return group

    # ------------------------------------------------------------------ what follows

    def apart(self, need: Need, terms: Terms, group: str | None) -> str:
        """Jobs that the policy tells apart have different ones."""
        if self.policy is Policy.SHORTEST and need.gpus:
            return f"{gpus_milli(need)} {terms.run_kind}"
        return group or "" if self.policy is Policy.FAIR else ""

    @property
    def changes_by_itself(self) -> bool:
        """Whether another may be first later, although nothing has happened."""
        return self.policy is Policy.FAIR

    def place(self, rank: Rank, need: Need, terms: Terms, group: str | None) -> Rank:
        """The place in line of such a job, by the rank that it has without a policy."""
        if self.policy is Policy.FIFO or goes_before_all(rank):
            return rank
        if self.policy is Policy.FAIR:
            return (rank[0], self.used_ms(group), *rank[1:])
        first_ms = self.first_ms(rank, self.expected_gpu_ms(need, terms.run_kind))
        return (rank[0], first_ms, *rank[1:])

    def first_ms(self, rank: Rank, expected_gpu_ms: int) -> int:
        """From when on a job goes before all that come then, with `shortest`."""
        return self.came_ms(rank) + PATIENCE * expected_gpu_ms

    def came_ms(self, rank: Rank) -> int:
        """When a job came, to the minute; one that was put back, when that was."""
        place = bisect_right(self._first_ids, rank[1])
        return self._minutes[place - 1] * MINUTE_MS if place else 0

    def expected_gpu_ms(self, need: Need, run_kind: str) -> int:
        """The GPU time that such a job should take.

        The first of a kind of which nothing is known go first; the others are taken for usual ones.
        """
        mean_ms = self.run_times.mean_ms(run_kind, need.gpus) if run_kind else None
        if mean_ms is None:
            scouts = bool(run_kind) and self._of_kind.get(run_kind, 0) < SCOUTS
            mean_ms = 0 if scouts else self.run_times.usual_ms
        return mean_ms * gpus_milli(need) // WHOLE_SHARE_MILLI

    def used_ms(self, group: str | None) -> int:
        """The GPU time that a group has used of late, and is using."""
        name, now_ms = group or "", self.now()
        used, running = self.usage.get(name), self._running.get(name)
        before = 0 if used is None else used.by(now_ms)
        return before if running is None else before + running.gpu_ms(now_ms)
