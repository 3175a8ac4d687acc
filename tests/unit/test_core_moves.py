"""The literal table of moves between states: each is reached, and any other is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, cast, get_args

import pytest

from stoker.core import events as ev
from stoker.core.laws import IllegalMove
from stoker.core.model import FINAL, Cause, JobState, Need, Terms
from stoker.core.moves import MOVES
from stoker.core.moves import move as really_move
from stoker.core.state import HANDLERS, State
from unit.core_scene import Scene

S = JobState
LEGAL = {(a, b) for (a, _), targets in MOVES.items() for b in targets if b is not a}


def held(scene: Scene) -> int:
    return scene.submit(held=True)


def waiting(scene: Scene) -> int:
    return scene.submit()


def running(scene: Scene, retries: int = 0) -> int:
    job = scene.submit(retries=retries)
    scene.plan()
    scene.started(job)
    return job


def stopping(scene: Scene, cause: Cause = Cause.CANCELLED, retries: int = 0) -> int:
    job = running(scene, retries)
    scene.apply(ev.StopRequested(scene.now, job, 1, cause))
    return job


def skipped(scene: Scene, *, is_held: bool) -> int:
    first = scene.submit(held=True)
    job = scene.submit(after=[first], held=is_held)
    scene.cancel(first)
    return job


def held_then_released(scene: Scene) -> int:
    job = held(scene)
    scene.apply(ev.JobReleased(scene.now, job))
    return job


def held_then_cancelled(scene: Scene) -> int:
    job = held(scene)
    scene.cancel(job)
    return job


def waiting_then_held(scene: Scene) -> int:
    job = waiting(scene)
    scene.apply(ev.JobHeld(scene.now, job))
    return job


def waiting_then_cancelled(scene: Scene) -> int:
    job = waiting(scene)
    scene.cancel(job)
    return job


def running_then_ended(code: int, retries: int = 0) -> Callable[[Scene], int]:
    def happens(scene: Scene) -> int:
        job = running(scene, retries)
        scene.exited(job, code)
        return job

    return happens


def running_then_vanished(scene: Scene) -> int:
    job = running(scene)
    scene.vanished(job)
    return job


def terminal_gone_before_the_start(scene: Scene) -> int:
    job = scene.submit(attached=True)
    scene.plan()
    scene.not_started(job, Cause.TERMINAL_GONE)
    return job


def with_the_cluster(scene: Scene, retries: int = 0) -> int:
    job = scene.submit(on_cluster=True, retries=retries)
    scene.plan()
    scene.accepted(job)
    return job


def started_by_the_cluster(scene: Scene) -> int:
    job = with_the_cluster(scene)
    scene.started(job)
    return job


def refused_by_the_cluster(scene: Scene) -> int:
    job = with_the_cluster(scene)
    scene.not_started(job)
    return job


def with_the_cluster_then_cancelled(scene: Scene) -> int:
    job = with_the_cluster(scene)
    scene.cancel(job)
    return job


def called_off_at_the_cluster(scene: Scene) -> int:
    job = with_the_cluster(scene)
    scene.cut_short(job, Cause.CANCELLED)
    return job


def with_the_cluster_then_evicted(scene: Scene) -> int:
    job = with_the_cluster(scene)
    scene.evicted(job)
    return job


def with_the_cluster_then_not_wanted(scene: Scene) -> int:
    first = started_by_the_cluster(scene)
    job = scene.submit(on_cluster=True, after=[first])
    scene.plan()
    scene.exited(first, 1)
    scene.not_started(job)
    return job


def stopping_then_ended(cause: Cause, retries: int = 0) -> Callable[[Scene], int]:
    def happens(scene: Scene) -> int:
        job = stopping(scene, cause, retries)
        scene.exited(job, 143)
        return job

    return happens


def done_when_its_slice_is_over(scene: Scene) -> int:
    job = stopping(scene, Cause.SLICE)
    scene.exited(job, 0)
    return job


REACHED: dict[tuple[JobState, JobState], Callable[[Scene], int]] = {
    (S.HELD, S.WAITING): held_then_released,
    (S.HELD, S.CANCELLED): held_then_cancelled,
    (S.HELD, S.SKIPPED): lambda scene: skipped(scene, is_held=True),
    (S.WAITING, S.HELD): waiting_then_held,
    (S.WAITING, S.SUBMITTED): lambda scene: with_the_cluster(scene),
    (S.WAITING, S.RUNNING): running,
    (S.WAITING, S.CANCELLED): waiting_then_cancelled,
    (S.WAITING, S.SKIPPED): lambda scene: skipped(scene, is_held=False),
    (S.SUBMITTED, S.RUNNING): started_by_the_cluster,
    (S.SUBMITTED, S.STOPPING): with_the_cluster_then_cancelled,
    (S.SUBMITTED, S.FAILED): refused_by_the_cluster,
    (S.SUBMITTED, S.CANCELLED): called_off_at_the_cluster,
    (S.SUBMITTED, S.WAITING): with_the_cluster_then_evicted,
    (S.RUNNING, S.STOPPING): stopping,
    (S.RUNNING, S.SUCCEEDED): running_then_ended(0),
    (S.RUNNING, S.FAILED): running_then_ended(1),
    (S.RUNNING, S.CANCELLED): terminal_gone_before_the_start,
    (S.RUNNING, S.LOST): running_then_vanished,
    (S.RUNNING, S.WAITING): running_then_ended(1, retries=1),
    (S.STOPPING, S.SUCCEEDED): done_when_its_slice_is_over,
    (S.STOPPING, S.CANCELLED): stopping_then_ended(Cause.CANCELLED),
    (S.STOPPING, S.STOPPED): stopping_then_ended(Cause.STOPPED_EARLY),
    (S.STOPPING, S.FAILED): stopping_then_ended(Cause.TIME_LIMIT),
    (S.STOPPING, S.SKIPPED): with_the_cluster_then_not_wanted,
    (S.STOPPING, S.WAITING): stopping_then_ended(Cause.TIME_LIMIT, retries=1),
}


def test_a_way_is_known_to_every_legal_move() -> None:
    assert set(REACHED) == LEGAL


@pytest.mark.parametrize("move", sorted(REACHED), ids=" to ".join)
def test_a_legal_move_is_made(
    move: tuple[JobState, JobState], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[JobState, JobState]] = []
    really = State.apply

    def noted(self: State, event: ev.Event) -> None:
        job = self.jobs.get(getattr(event, "job_id", 0))
        before = None if job is None else job.state
        really(self, event)
        if job is not None and before is not None and before is not job.state:
            made.append((before, job.state))

    monkeypatch.setattr(State, "apply", noted)
    scene = Scene(2)
    job = REACHED[move](scene)
    assert made[-1] == move
    assert scene.where(job) is move[1]


WAY_TO: dict[JobState, Callable[[Scene], int]] = {
    S.HELD: held,
    S.WAITING: waiting,
    S.SUBMITTED: with_the_cluster,
    S.RUNNING: running,
    S.STOPPING: stopping,
}


@pytest.mark.parametrize(
    "move",
    sorted({(a, b) for a in S if a not in FINAL for b in S} - LEGAL),
    ids=" to ".join,
)
def test_any_other_move_is_a_bug_and_raises(move: tuple[JobState, JobState]) -> None:
    scene = Scene(2)
    job = scene.job(WAY_TO[move[0]](scene))
    assert job.state is move[0]
    for event in MOVED_BY:
        if move[1] in MOVES.get((move[0], event), ()):
            continue  # It leaves the job where it is.
        scene.state.story.append(happened(event, scene.now, job.id))
        with pytest.raises(IllegalMove, match=f"job {job.id}: {move[0]} -> {move[1]}"):
            really_move(scene.state, job, move[1])
        assert job.state is move[0]


MOVED_BY = sorted({event for _, event in MOVES}, key=lambda event: event.__name__)


def happened(event: type[Any], now: int, job_id: int) -> ev.Event:
    """An event of that kind about the first attempt of a job; what else it says does not matter."""
    values = {"at_ms": now, "job_id": job_id, "attempt": 1}
    event_fields = {field.name: values.get(field.name) for field in fields(event)}
    return cast(ev.Event, event(**event_fields))


@pytest.mark.parametrize("state", WAY_TO)
@pytest.mark.parametrize("event", MOVED_BY, ids=lambda event: event.__name__)
def test_an_event_is_refused_wherever_the_table_does_not_name_it(
    event: type[Any], state: JobState
) -> None:
    if (state, event) in MOVES:
        assert MOVES[state, event], "where it may happen, the job is somewhere afterwards"
        return
    scene = Scene(2)
    job = WAY_TO[state](scene)
    with pytest.raises(IllegalMove, match=f"job {job}: it is {state}"):
        scene.state.apply(happened(event, scene.now, job))
    assert scene.where(job) is state


def test_a_final_job_is_no_longer_in_memory_and_can_not_be_moved() -> None:
    scene = Scene(1)
    job = running_then_ended(0)(scene)
    assert job not in scene.state.jobs
    for event in MOVED_BY:
        with pytest.raises(IllegalMove, match=f"job {job}: it is not in memory"):
            scene.state.apply(happened(event, scene.now, job))


@pytest.mark.parametrize(
    ("way", "event"),
    [
        (running, lambda now, job: ev.JobHeld(now, job)),
        (running, lambda now, job: ev.JobCancelled(now, job)),
        (running, lambda now, job: ev.AttemptPlaced(now, job, 2, ("1",))),
        (running, lambda now, job: ev.StopRequested(now, job, 2, Cause.CANCELLED)),
        (running, lambda now, job: ev.AttemptStarted(now, job, 2, None)),
        (running, lambda now, job: ev.JobsRemoved(now, (job,))),
        (running, lambda now, job: ev.AttemptAccepted(now, job, 1, "91")),
        (running, lambda now, job: ev.TerminalCame(now, job)),
        (stopping, lambda now, job: ev.JobHeld(now, job)),
        (waiting, lambda now, job: ev.JobReleased(now, job)),
        (waiting, lambda now, job: ev.AttemptPlaced(now, job, 2, ("0",))),
        (waiting, lambda now, job: ev.StopRequested(now, job, 0, Cause.CANCELLED)),
        (held, lambda now, job: ev.JobHeld(now, job)),
        (held, lambda now, job: ev.AttemptPlaced(now, job, 1, ("0",))),
    ],
)
def test_an_event_that_can_not_have_happened_raises(
    way: Callable[[Scene], int], event: Callable[[int, int], ev.Event]
) -> None:
    scene = Scene(2)
    job = way(scene)
    with pytest.raises(IllegalMove, match=f"job {job}: "):
        scene.state.apply(event(scene.now, job))


def test_an_illegal_move_tells_the_last_events_of_its_job_and_of_no_other() -> None:
    scene = Scene(2)
    other = running(scene)
    job = running(scene, retries=9)
    for number in range(1, 9):
        scene.exited(job, 1)
        scene.pass_s(400)
        scene.plan()
        assert scene.attempt(job).number == number + 1
        scene.started(job)
    scene.exited(other)
    with pytest.raises(IllegalMove) as refused:
        scene.apply(ev.JobHeld(scene.now, job))
    told = [line.strip() for line in str(refused.value).splitlines()[1:]]
    assert [line.split("(")[0] for line in told[-4:]] == [
        "AttemptExited",
        "AttemptPlaced",
        "AttemptStarted",
        "JobHeld",
    ]
    assert len(told) == 10, "enough to see how it came to that, and no more"
    assert all(f"job_id={job}," in line or f"job_id={job})" in line for line in told)


def test_every_kind_of_event_can_be_applied() -> None:
    assert set(HANDLERS) == set(get_args(ev.Event))


def test_every_fact_is_an_event() -> None:
    assert set(get_args(ev.Fact)) < set(get_args(ev.Event))


def test_a_job_id_is_given_only_once() -> None:
    scene = Scene(1)
    job = scene.submit()
    scene.cancel(job)
    with pytest.raises(IllegalMove, match="was given before"):
        scene.state.apply(ev.JobSubmitted(scene.now, job, Need(), Terms()))
