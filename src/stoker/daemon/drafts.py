"""Jobs that were asked for and looked at, and have no number yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stoker.api.messages import JobOwn
from stoker.core import events as ev
from stoker.core.model import Launch, Need, Requirement, Terms
from stoker.core.order import with_run_kinds
from stoker.core.state import State
from stoker.daemon.requirements import RequiredJobs
from stoker.errors import NotFound


@dataclass(slots=True)
class Drafts:
    """Alike jobs that are fine by themselves; whether they fit the GPUs is for the state to say.

    What they share is kept once: there may be a hundred thousand of them.
    """

    need: Need
    terms: Terms
    launch: Launch
    priority: int  # of those that have none of their own
    group: str | None
    not_before_ms: int | None
    held: bool
    each: Sequence[JobOwn]
    kinds: Sequence[str]
    has_files: bool = False  # whether some have output files that their user named

    def events(self, state: State, first_id: int, others: RequiredJobs) -> list[ev.Event]:
        """The facts that they were submitted, and numbered from `first_id` on."""
        usual, at_ms = self.priority, state.now_ms
        priorities = [usual if own.priority is None else own.priority for own in self.each]
        requires = self.launch.requires
        if len(self.each) > 1 and not (requires or self.held or self.not_before_ms is not None):
            said = (self.need, self.terms, self.group, priorities)
            return [ev.JobsSubmitted(at_ms, first_id, *said, self.launch, self.each, self.kinds)]
        events: list[ev.Event] = []
        terms_of = with_run_kinds(self.need, self.terms, self.kinds)
        own_of_each = zip(priorities, self.each, self.kinds, strict=True)
        for job_id, (priority, own, kind) in enumerate(own_of_each, start=first_id):
            unmet: tuple[Requirement, ...] = ()
            skip: list[ev.Event] = []
            if requires:
                unmet, skip = _unmet(state, others, requires, job_id)
            events.append(
                ev.JobSubmitted(
                    at_ms,
                    job_id,
                    self.need,
                    terms_of[kind],
                    priority,
                    self.group,
                    self.not_before_ms,
                    unmet,
                    self.held,
                    self.launch.with_own(own, kind),
                )
            )
            events += skip
        return events

    def only(self, places: Sequence[int]) -> Drafts:
        """Those at these places."""
        if len(places) == len(self.each):
            return self
        each, kinds = self.each, self.kinds
        return replace(self, each=[each[p] for p in places], kinds=[kinds[p] for p in places])

    @property
    def point_of_each(self) -> list[str | None]:
        """The points that they are, None for one that is none."""
        usual = self.launch.point
        return [usual if own.point is None else own.point for own in self.each]


def _unmet(
    state: State, others: RequiredJobs, requires: tuple[Requirement, ...], own_id: int
) -> tuple[tuple[Requirement, ...], list[ev.Event]]:
    """The requirements that still have to come true, and the skip if one never will.

    A job may require those that come before it in the same submission.
    """
    unmet: list[Requirement] = []
    skip: list[ev.Event] = []
    for requirement in requires:
        stand = others.stand(requirement)
        unknown = requirement.ids[-1] if requirement.ids[-1] >= own_id else stand.unknown
        if unknown is not None:
            why = f"there is no job {unknown} to wait for"
            of = "after" if requirement.must_succeed else "after_any"
            raise NotFound(why, "see `stoker ls --all`").about(of)
        if stand.unfinished or stand.failed:
            unmet.append(requirement)
        if stand.failed:
            skip = [ev.JobSkipped(state.now_ms, own_id, *stand.failed)]
    return tuple(unmet), skip
