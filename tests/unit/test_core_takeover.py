"""Who is planned to take over, and in whose place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stoker.core import events as ev
from stoker.core.gpu import Gpu, GpuReading
from stoker.core.jobs import Jobs
from stoker.core.model import Cause, Exit, Job, Need, Requirement, Takeovers, Terms
from stoker.core.plan import Scan
from stoker.core.ready import Cohort
from stoker.core.state import MOST_ENDS_IN_A_TURN, State
from stoker.core.takeover import NO_TAKEOVERS, AllowTakeovers, Standby, allowed, planned

NOW_MS = 1_000


class Lab:
    """Two GPUs, and jobs that are placed as the plan has it."""

    def __init__(self, gpus: int = 2) -> None:
        self.state = State(NOW_MS)
        for index in range(gpus):
            self.state.apply(ev.GpuAdded(NOW_MS, str(index), None))

    def add(self, need: Need | None = None, terms: Terms | None = None, **fields: Any) -> int:
        job_id = self.state.next_job_id
        event = ev.JobSubmitted(NOW_MS, job_id, need or Need(), terms or Terms(), **fields)
        self.state.apply(event)
        if event.terms.attached:
            self.state.apply(ev.TerminalCame(NOW_MS, job_id))
        return job_id

    def full(self, **fields: Any) -> None:
        """As many jobs as there are GPUs, all of them running."""
        for _ in self.state.gpus:
            self.add(**fields)
        self.place()

    def place(self) -> None:
        Scan(self.state).carry_out(self.state.apply)


def test_the_first_in_line_take_the_places_of_those_that_need_the_same() -> None:
    lab = Lab()
    lab.full()
    waiting = [lab.add() for _ in range(20)]
    # As many as may take over before the next turn, one after the other in each place.
    most = 2 * (MOST_ENDS_IN_A_TURN - 1)
    assert planned(lab.state) == Takeovers((1, 2), tuple(waiting[:most]))


def test_by_priority_and_then_by_number() -> None:
    lab = Lab()
    lab.full()
    usual = lab.add()
    urgent = [lab.add(priority=-1), lab.add(priority=-1)]
    assert planned(lab.state).standbys == (*urgent, usual)


def test_planning_takes_nobody_out_of_line() -> None:
    lab = Lab()
    lab.full()
    for _ in range(50):
        lab.add()
    assert planned(lab.state) == planned(lab.state)
    assert lab.state.ready.count == 50


def test_a_job_that_was_called_off_stands_by_no_more() -> None:
    lab = Lab()
    lab.full()
    third, fourth, fifth = (lab.add() for _ in range(3))
    lab.state.apply(ev.JobCancelled(NOW_MS, third, Cause.CANCELLED))
    assert planned(lab.state).standbys == (fourth, fifth)


def test_a_job_that_was_put_aside_and_came_back_stands_by_once() -> None:
    lab = Lab()
    lab.full()
    third = lab.add()
    lab.state.apply(ev.JobHeld(NOW_MS, third))
    lab.state.apply(ev.JobReleased(NOW_MS, third))
    assert planned(lab.state).standbys == (third,)


def test_nobody_goes_before_one_that_needs_something_else() -> None:
    lab = Lab()
    lab.full()
    lab.add(Need(2))
    lab.add()
    assert planned(lab.state) == NO_TAKEOVERS


def test_those_before_one_that_needs_something_else_may_take_over() -> None:
    lab = Lab()
    lab.full()
    third = lab.add()
    lab.add(Need(2))
    lab.add()
    assert planned(lab.state) == Takeovers((1, 2), (third,))


def test_a_job_that_shares_or_learns_or_counts_cpus_takes_no_place_without_a_turn() -> None:
    for need in (
        Need(1, share_milli=500),
        Need(1, mem_mib=100),
        Need(1, kind="train.py"),
        Need(1, cpus=1),
        Need(0, cpus=1),
        Need(2),
    ):
        lab = Lab()
        lab.state.apply(ev.GpuAdded(NOW_MS, "0", 1000))
        lab.add(need)
        lab.place()
        for _ in range(20):
            lab.add(need)
        assert planned(lab.state) == NO_TAKEOVERS, need


def test_an_end_that_others_wait_for_lets_the_plan_decide() -> None:
    lab = Lab()
    lab.full()
    lab.add(requires=(Requirement(1, must_succeed=True),), priority=-1)
    last = lab.add()
    assert planned(lab.state) == Takeovers((2,), (last,))


def test_a_standby_whose_end_others_wait_for_is_not_to_be_followed_in_its_turn() -> None:
    lab = Lab(gpus=1)
    lab.full()
    required, other = lab.add(), lab.add(terms=Terms(grace_ms=7))
    lab.add(requires=(Requirement(required, must_succeed=True),))
    lab.state.apply(ev.TakeoversPlanned(NOW_MS, planned(lab.state)))
    standbys = (Standby(required, 1, Terms().grace_ms, False), Standby(other, 1, 7, True))
    assert allowed(lab.state) == AllowTakeovers(((1, 1),), standbys)


def test_an_end_for_which_nobody_waits_any_more_does_not() -> None:
    lab = Lab()
    lab.full()
    after = lab.add(requires=(Requirement(1, must_succeed=True),), priority=-1)
    lab.add()
    lab.state.apply(ev.JobCancelled(NOW_MS, after, Cause.CANCELLED))
    assert planned(lab.state).attempts == (1, 2)


def test_the_last_of_a_range_that_others_wait_for_lets_the_plan_decide() -> None:
    lab = Lab()
    lab.full()
    others = [lab.add() for _ in range(8)]
    lab.add(requires=(Requirement(1, must_succeed=False, last_id=others[-1]),), priority=-1)
    assert planned(lab.state).attempts == (1, 2), "there are more of them than can end at once"
    for job_id in others[1:]:
        lab.state.apply(ev.JobCancelled(NOW_MS, job_id, Cause.CANCELLED))
    assert planned(lab.state) == NO_TAKEOVERS


def test_a_gpu_that_takes_no_more_is_not_given_on() -> None:
    lab = Lab()
    lab.full()
    third = lab.add()
    lab.state.apply(ev.GpuDrained(NOW_MS, "0"))
    assert planned(lab.state) == Takeovers((2,), (third,))


def test_a_gpu_that_others_use_is_not_given_on() -> None:
    lab = Lab()
    lab.full()
    third = lab.add()
    lab.state.apply(ev.GpusMeasured(NOW_MS, {"1": GpuReading(NOW_MS, others=1)}))
    assert planned(lab.state) == Takeovers((1,), (third,))


def test_what_is_being_stopped_is_not_relieved() -> None:
    lab = Lab()
    lab.full()
    third = lab.add()
    lab.state.apply(ev.StopRequested(NOW_MS, 1, 1, Cause.CANCELLED))
    assert planned(lab.state) == Takeovers((2,), (third,))


def test_jobs_of_a_terminal_neither_give_their_place_nor_take_one() -> None:
    lab = Lab()
    lab.add(terms=Terms(attached=True))
    lab.add()
    lab.place()
    third = lab.add()
    lab.add(terms=Terms(attached=True))
    lab.add()
    assert planned(lab.state) == Takeovers((2,), (third,))


def test_an_adopted_job_does_not_give_its_place() -> None:
    lab = Lab()
    lab.add(terms=Terms(adopted="4711 5 boot python train.py"))
    lab.add()
    lab.place()
    third = lab.add()
    assert planned(lab.state) == Takeovers((2,), (third,))


def test_while_the_queue_or_their_group_is_paused_nobody_takes_over() -> None:
    lab = Lab()
    lab.full(group="sweep")
    lab.add(group="sweep")
    assert planned(lab.state) != NO_TAKEOVERS
    lab.state.apply(ev.QueuePaused(NOW_MS, "sweep"))
    assert planned(lab.state) == NO_TAKEOVERS
    lab.state.apply(ev.QueueResumed(NOW_MS, "sweep"))
    lab.state.apply(ev.QueuePaused(NOW_MS, None))
    assert planned(lab.state) == NO_TAKEOVERS


def test_one_behind_a_paused_group_may_take_over() -> None:
    lab = Lab()
    lab.full()
    lab.add(group="sweep")
    last = lab.add()
    lab.state.apply(ev.QueuePaused(NOW_MS, "sweep"))
    assert planned(lab.state) == Takeovers((1, 2), (last,))


def test_a_place_is_given_on_within_a_group() -> None:
    lab = Lab()
    lab.full(group="one")
    lab.add(group="other")
    assert planned(lab.state) == NO_TAKEOVERS


def test_the_plan_is_kept_only_as_far_as_somebody_may_have_to_be_found_again() -> None:
    lab = Lab()
    lab.full()
    lab.add()
    relief = planned(lab.state)
    lab.state.take_change()
    lab.state.apply(ev.TakeoversPlanned(NOW_MS, relief))
    assert lab.state.take_change().standbys
    lab.state.apply(ev.TakeoversPlanned(NOW_MS, replace_attempts(relief)))
    assert not lab.state.take_change()


def replace_attempts(relief: Takeovers) -> Takeovers:
    return relief._replace(attempts=(1,))


def test_an_exit_says_nothing_of_relief_by_itself() -> None:
    exited = ev.AttemptExited(NOW_MS, 1, 1, Exit(code=0))
    assert exited.taken_over_by is None
    assert replace(exited, taken_over_by=(2, 1)).taken_over_by == (2, 1)


def test_those_who_were_loaded_as_cohorts_stand_by_in_their_order() -> None:
    cohorts = [
        Cohort(Need(), Terms(), 0, None, [1, 4, 6, 9]),
        Cohort(Need(), Terms(grace_ms=7), 0, None, [3, 5, 7]),
        Cohort(Need(), Terms(), -1, None, [8]),
    ]
    gpus = [Gpu(str(index)) for index in range(5)]
    lab = Lab(0)
    lab.state = State.restored(
        [], gpus, [], cohorts=cohorts, now_ms=NOW_MS, next_job_id=10, paused=False, cpus=1,
        at_cluster_most=1,
    )  # fmt: skip
    lab.place()
    assert sorted(lab.state.active) == [1, 3, 4, 5, 8]
    assert planned(lab.state).standbys == (6, 7, 9)
    lab.state.apply(ev.JobCancelled(NOW_MS, 6, Cause.CANCELLED))
    assert planned(lab.state).standbys == (7, 9)


def test_that_very_many_wait_for_a_job_is_known_by_the_first_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    find, asked = Jobs.get, list[int]()

    def counting(jobs: Jobs, job_id: int) -> Job | None:
        asked.append(job_id)
        return find(jobs, job_id)

    looked_at = []
    for many in (10, 2_000):
        lab = Lab()
        lab.full()
        for _ in range(many):
            lab.add(requires=(Requirement(1, must_succeed=True),))
        lab.add()
        asked.clear()
        with monkeypatch.context() as patch:
            patch.setattr(Jobs, "get", counting)
            assert planned(lab.state).attempts == (2,)
        looked_at.append(len(asked))
    assert looked_at[0] == looked_at[1]
