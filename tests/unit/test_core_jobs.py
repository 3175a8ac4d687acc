"""What is asked of all jobs at once is answered without making those that nobody has asked for."""

from __future__ import annotations

import pytest

from stoker.api.messages import JobOwn
from stoker.core import events as ev
from stoker.core.check import check
from stoker.core.model import Job, Launch, Need, Terms
from stoker.core.ready import Cohort
from stoker.core.state import State

ATTACHED = Terms(attached=True)


@pytest.fixture
def state() -> State:
    """A cohort and others, of which one is held; those of terminals, whose clients are away."""
    need, terms = Need(), Terms()
    held = Job(51, need, terms, 0)
    loaded = State.restored(
        [held, Job(101, need, ATTACHED, 1, attempt=1)],
        [],
        [],
        [],
        [
            Cohort(need, terms, 0, None, list(range(1, 51))),
            Cohort(need, ATTACHED, 1, "few", list(range(52, 101))),
        ],
        now_ms=1_000,
        next_job_id=102,
        paused=False,
        cpus=1,
        at_cluster_most=1,
    )
    loaded.apply(ev.JobHeld(1_000, 51))
    return loaded


def test_jobs_are_in_the_order_of_their_ids(state: State) -> None:
    assert list(state.jobs) == list(range(1, 102))
    assert [job.id for job in state.jobs.values()] == list(range(1, 102))


def test_the_jobs_of_terminals_are_found_in_cohorts_too(state: State) -> None:
    assert [job.id for job in state.jobs.attached()] == list(range(52, 102))
    assert all(job.terms is ATTACHED for job in state.jobs.attached())


def test_those_ahead_are_counted_whether_or_not_somebody_has_asked_for_them(state: State) -> None:
    def ahead() -> list[int]:
        jobs = [state.jobs[job_id] for job_id in (101, 50, 1, 52, 100)]
        each = [state.ahead_of([job]) for job in jobs]
        found = state.ahead_of(jobs)
        assert found == {job_id: ahead for one in each for job_id, ahead in one.items()}
        return list(found.values())

    assert ahead() == [0, 49, 50, 98, 99], "what is held is not in line; what waits for others is"
    for job in state.jobs.values():
        assert job.id
    assert ahead() == [0, 49, 50, 98, 99]
    for job in state.jobs.attached():
        state.apply(ev.TerminalCame(1_000, job.id))
    assert ahead() == [0, 49, 50, 98, 99]


def test_only_those_that_were_asked_for_are_kept_as_themselves(state: State) -> None:
    others = list(range(51, 102))  # One that is held, and those of terminals.
    assert [job.id for job in state.jobs.seen()] == others
    assert state.jobs[30].priority == 0
    assert [job.id for job in state.jobs.seen()] == [30, *others]


def test_a_group_is_known_by_the_cohort_that_is_of_it(state: State) -> None:
    assert list(state.groups) == ["few"]


def test_a_job_can_not_be_there_twice() -> None:
    cohort = Cohort(Need(), Terms(), 0, None, [1, 2])
    with pytest.raises(AssertionError, match="twice"):
        State.restored(
            [Job(2, Need(), Terms())],
            [],
            [],
            [],
            [cohort],
            now_ms=0,
            next_job_id=3,
            paused=False,
            cpus=1,
            at_cluster_most=1,
        )


def together(first_id: int, priorities: list[int], group: str | None = None) -> ev.JobsSubmitted:
    count = len(priorities)
    return ev.JobsSubmitted(
        1_000, first_id, Need(), Terms(), group, priorities, Launch(), [JobOwn()] * count,
        [""] * count,
    )  # fmt: skip


def one_by_one(many: ev.JobsSubmitted) -> list[ev.Event]:
    return [
        ev.JobSubmitted(1_000, job_id, many.need, many.terms, priority, many.group)
        for job_id, priority in zip(many.ids, many.priorities, strict=True)
    ]


def in_line(state: State) -> list[int]:
    met = []
    (line,) = state.ready.gpu_lines()
    while (cls := state.ready.pop_class(line)) is not None:
        head = state.ready.head(cls)
        assert head is not None
        met.append(head.id)
        state.apply(ev.JobCancelled(1_000, head.id))
        state.ready.put_back(cls)
    return met


@pytest.mark.parametrize("priorities", [[0] * 9, [2, 0, 1] * 3, list(range(9, 0, -1))])
def test_jobs_that_came_together_are_met_as_if_they_had_come_one_by_one(
    priorities: list[int],
) -> None:
    events: list[ev.Event] = [
        ev.JobHeld(1_000, 10),
        ev.JobReleased(1_000, 10),
        ev.JobCancelled(1_000, 11),
        ev.JobEdited(1_000, 12, Need(), Terms(), 0, "other", None, None),
        ev.JobEdited(1_000, 13, Need(), Terms(), -1, None, None, None),
    ]
    came, apart = State(1_000), State(1_000)
    for state in (came, apart):
        for first_id in (1, 10, 19):
            many = together(first_id, priorities)
            for event in [many] if state is came else one_by_one(many):
                state.apply(event)
        for event in events:
            state.apply(event)
        check(state)
    assert list(came.jobs) == list(apart.jobs) and came.jobs == apart.jobs
    assert in_line(came) == in_line(apart)
    assert not came.jobs and not came.ready.count


@pytest.mark.parametrize("priorities", [[0] * 50, [0, 1] * 25])
def test_of_jobs_that_came_together_none_is_made_before_somebody_asks_for_it(
    priorities: list[int],
) -> None:
    state = State(1_000)
    state.apply(together(1, priorities, "few"))
    assert len(state.jobs) == state.ready.count == 50 and list(state.jobs) == list(range(1, 51))
    assert state.jobs.seen() == []
    assert state.jobs[7].group == "few" and state.jobs[7].priority == priorities[6]
    assert state.jobs.seen() == [state.jobs[7]]
