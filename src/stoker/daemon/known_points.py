"""Points that have had a job already: which of them get another one.

It is decided in the turn that queues them, so two clients that queue the same points at the same
moment do not queue them twice.
"""

from __future__ import annotations

from collections.abc import Container
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from stoker.api.messages import Rerun
from stoker.core.model import FINAL, JobState
from stoker.core.state import State
from stoker.daemon.drafts import Drafts
from stoker.store.views import Views


@dataclass(frozen=True, slots=True)
class Chosen:
    """What of a submission is queued, and how many are not because of their point."""

    drafts: list[Drafts]
    left_out: dict[str, int] | None = None  # see messages.Submit; None without such a rule
    tried: Container[str] = ()  # the points that have had a job
    groups: dict[str, int] | None = None  # in which the jobs are of those that are left out


def chosen(
    drafts: list[Drafts],
    rerun: Rerun | None,
    state: State,
    views: Views,
    own: AbstractSet[int] = frozenset(),
) -> Chosen:
    """What is queued by this rule: without one, everything.

    The jobs that an earlier try of the same submission has queued are its own.
    """
    if rerun is None:
        return Chosen(drafts)
    points = [some.point_of_each for some in drafts]
    asked = [point for some in points for point in some if point is not None]
    latest = views.at_points(asked)
    rule = _Rule(rerun, latest, _queued_this_turn(state), state, own)
    if rerun != "failed" and not latest and _are_new(asked, rule.queued):
        return Chosen(drafts, rule.left_out)
    kept = [
        some.only([place for place, point in enumerate(own_points) if rule.takes(point)])
        for some, own_points in zip(drafts, points, strict=True)
    ]
    groups = views.groups_of(rule.known) if rule.known else None
    return Chosen([some for some in kept if some.each], rule.left_out, latest, groups)


_WHY_NOT = ("succeeded", "unfinished", "not_tried")


@dataclass(slots=True)
class _Rule:
    rerun: Rerun
    latest: dict[str, tuple[int, str]]
    queued: set[str | None]
    state: State
    own: AbstractSet[int]
    known: list[int] = field(default_factory=list)  # the jobs of those that are left out
    left_out: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_WHY_NOT, 0))

    def takes(self, point: str | None) -> bool:
        """Whether a job is queued for its point; asked once for each, and counted."""
        if point is None:
            return True
        why_not = self._why_not(point)
        if why_not is None:
            self.queued.add(point)
            return True
        self.left_out[why_not] = self.left_out.get(why_not, 0) + 1
        if point in self.latest:
            self.known.append(self.latest[point][0])
        return False

    def _why_not(self, point: str) -> str | None:
        if point in self.queued:
            return "unfinished"
        known = self.latest.get(point)
        if known is None:
            return "not_tried" if self.rerun == "failed" else None
        job_id, state = known
        if job_id in self.own:
            return None
        if self.rerun == "never":
            return "tried"
        # One that has ended in this very turn is not known to have ended well.
        if job_id in self.state.jobs or state not in FINAL:
            return "unfinished"
        if state == JobState.SUCCEEDED and self.rerun != "all":
            return "succeeded"
        return None


def _are_new(points: list[str], queued: AbstractSet[str | None]) -> bool:
    """Whether each of these is there once and in no other submission, as those of most sweeps."""
    distinct = set(points)
    return len(distinct) == len(points) and distinct.isdisjoint(queued)


def _queued_this_turn(state: State) -> set[str | None]:
    """Points that got a job in this very turn, and so are in no record yet."""
    change = state.change
    queued = {e.launch.point for e in change.submitted if e.launch is not None}
    for many in change.submitted_together:
        queued.add(many.launch.point)
        queued.update(own.point for own in many.each)
    return queued
