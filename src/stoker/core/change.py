"""What the events of a turn have changed: the store writes it, and clients are told of it."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.core import events as ev
from stoker.core.model import Attempt, Job, Outcome


@dataclass(slots=True)
class Ended:
    """An attempt, or a job that never ran, has ended; for the store."""

    job: Job
    attempt: Attempt | None
    outcome: Outcome
    at_ms: int
    job_is_final: bool


@dataclass(slots=True, init=False)
class Change:
    """What has changed since the last commit, as the store has to know it."""

    submitted: list[ev.JobSubmitted]
    submitted_together: list[ev.JobsSubmitted]
    submissions: list[ev.SubmissionTaken]
    edited: list[ev.JobEdited]
    touched: dict[int, None]
    placed: list[int]  # touched, and given GPUs
    put_back: list[tuple[int, int]]  # touched; attempts that are as if they had never been placed
    started: dict[int, None]  # only this changed in their attempt
    begun: list[int]  # touched, and started by a cluster
    retried: list[int]  # touched, and final before
    ended: list[Ended]
    removed: list[int]
    gpus: bool
    groups: set[str]
    profiles: set[str]  # learned or forgotten
    settings: bool  # paused, cpus, how many may be with a cluster
    standbys: bool
    policy: bool
    run_times: dict[tuple[str, int], None]  # kinds and numbers of GPUs of which more is known
    usage: dict[str, None]  # groups that have used GPUs
    arrivals: list[tuple[int, int]]  # the first jobs of a minute, and which that is

    def __init__(self) -> None:
        """Nothing yet. There is one for each turn, so it is not left to `field`."""
        self.submitted, self.submitted_together, self.submissions, self.edited = [], [], [], []
        self.touched, self.started = {}, {}
        self.placed, self.put_back, self.begun, self.retried = [], [], [], []
        self.ended, self.removed = [], []
        self.groups, self.profiles = set(), set()
        self.run_times, self.usage, self.arrivals = {}, {}, []
        self.gpus = self.settings = self.standbys = self.policy = False

    def __bool__(self) -> bool:
        return bool(
            self.submitted
            or self.submitted_together
            or self.submissions
            or self.edited
            or self.touched
            or self.started
            or self.ended
            or self.removed
            or self.gpus
            or self.groups
            or self.profiles
            or self.settings
            or self.standbys
            or self.policy
        )
