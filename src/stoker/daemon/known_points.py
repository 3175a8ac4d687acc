"""Points that have had a job already: which of them get another one.

It is decided in the turn that queues them, so two who queue the same points at the same moment
do not queue them twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from stoker.api.messages import Rerun
from stoker.core.model import FINAL, JobState
from stoker.core.state import State
from stoker.daemon.drafts import Drafts
from stoker.store.views import Views


@dataclass(frozen=True, slots=True)
class Chosen:
    """What of a submission is queued, and how many are not because of their point."""

    drafts: list[Drafts]
    left_out: dict[str, int] | None = None  # see messages.Submit; None if nobody asked


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
    rule = _Rule(rerun, _latest(drafts, views), _queued_this_turn(state), state, own)
    left = [some.without(rule.leaves_out) for some in drafts]
    return Chosen([some for some in left if some.each], rule.left_out)


class _Rule:
    def __init__(
        self,
        rerun: Rerun,
        latest: dict[str, tuple[int, str]],
        queued: set[str | None],
        state: State,
        own: AbstractSet[int],
    ) -> None:
        self._rerun = rerun
        self._latest = latest
        self._queued = queued
        self._state = state
        self._own = own
        self.left_out = {"succeeded": 0, "unfinished": 0, "not_tried": 0}

    def leaves_out(self, point: str) -> bool:
        """Whether a point gets no job; asked once for each, and counted."""
        why = self._why_not(point)
        if why is None:
            self._queued.add(point)
            return False
        self.left_out[why] += 1
        return True

    def _why_not(self, point: str) -> str | None:
        if point in self._queued:
            return "unfinished"
        known = self._latest.get(point)
        if known is None:
            return "not_tried" if self._rerun == "failed" else None
        job_id, state = known
        if job_id in self._own:
            return None
        # One that has ended in this very turn is not known to have ended well.
        if job_id in self._state.jobs or state not in FINAL:
            return "unfinished"
        if state == JobState.SUCCEEDED and self._rerun != "all":
            return "succeeded"
        return None


def _latest(drafts: Sequence[Drafts], views: Views) -> dict[str, tuple[int, str]]:
    return views.at_points([point for some in drafts for point in some.points])


def _queued_this_turn(state: State) -> set[str | None]:
    """Points that got a job in this very turn, and so are in no record yet."""
    change = state.change
    queued = {e.launch.point for e in change.submitted if e.launch is not None}
    for many in change.submitted_alike:
        queued.add(many.launch.point)
        queued.update(own.point for own in many.each)
    return queued
