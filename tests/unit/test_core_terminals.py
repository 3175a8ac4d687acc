"""Jobs that run in terminals: none is placed before its client is there to start it."""

from __future__ import annotations

from stoker.core import events as ev
from stoker.core import reasons as why
from stoker.core.commands import StartAttached, Terminate, commands_for
from stoker.core.forecast import expected_start
from stoker.core.model import Cause, JobState
from unit.core_scene import Scene


def test_a_job_is_placed_once_its_client_is_there() -> None:
    scene = Scene(1)
    job = scene.submit(attached=True, terminal=False)
    assert scene.plan() == {}
    assert scene.why(job) == why.NeedsTerminal()
    scene.apply(ev.TerminalCame(scene.now, job))
    assert scene.plan() == {job: ("0",)}
    assert commands_for(scene.state) == [StartAttached(job, 1, ("0",), 30_000)]


def test_a_job_whose_client_has_left_lets_others_go_first() -> None:
    scene = Scene(1)
    job = scene.submit(attached=True)
    other = scene.submit()
    scene.apply(ev.TerminalLeft(scene.now, job))
    assert scene.plan() == {other: ("0",)}
    assert scene.why(job) == why.NeedsTerminal()


def test_whatever_else_a_job_waited_for_it_is_not_placed_without_its_client() -> None:
    scene = Scene(2)
    first = scene.running()
    jobs = [
        scene.submit(attached=True, terminal=False, held=True),
        scene.submit(attached=True, terminal=False, after=[first]),
        scene.submit(attached=True, terminal=False, at_ms=scene.now + 1_000),
    ]
    scene.apply(ev.JobReleased(scene.now, jobs[0]))
    scene.exited(first, 0)
    scene.pass_s(2)
    assert scene.state.next_timer_ms() is None
    assert scene.plan() == {}
    scene.apply(*(ev.TerminalCame(scene.now, job) for job in jobs))
    assert list(scene.plan()) == jobs[:2]


def test_a_client_that_comes_does_not_let_a_held_job_go() -> None:
    scene = Scene(1)
    job = scene.submit(attached=True, held=True)
    assert scene.plan() == {}
    assert scene.why(job) == why.IsHeld()


def test_what_ends_is_no_longer_known_to_have_a_client() -> None:
    scene = Scene(1)
    job = scene.submit(attached=True)
    assert list(scene.state.terminals) == [job]
    scene.cancel(job)
    assert not scene.state.terminals


def test_an_attempt_that_is_taken_back_waits_again_and_costs_no_retry() -> None:
    scene = Scene(1)
    job = scene.submit(attached=True)
    scene.plan()
    evicted = ev.AttemptEvicted(scene.now, job, 1, Cause.REQUEUED, "the daemon was restarted")
    scene.apply(evicted)
    assert scene.job(job).state is JobState.WAITING and not scene.job(job).failures
    assert not scene.state.gpus["0"].held_by
    scene.pass_s(2)
    assert scene.plan() == {job: ("0",)}
    assert scene.job(job).attempt == 2


def test_a_cancelled_attempt_keeps_its_gpu_until_its_end_is_told() -> None:
    scene = Scene(1)
    job = scene.submit(attached=True)
    other = scene.submit()
    scene.plan()
    scene.cancel(job)
    assert scene.plan() == {}
    assert commands_for(scene.state) == [Terminate(job, 1, False)]
    scene.not_started(job)
    assert scene.outcomes[job].cause is Cause.CANCELLED
    assert scene.plan() == {other: ("0",)}


def test_a_forecast_counts_those_whose_clients_are_there() -> None:
    scene = Scene(1)
    here = scene.submit(attached=True)
    after = scene.submit()
    away = scene.submit(attached=True, terminal=False)
    starts = {job: expected_start(scene.state, job, lambda _: (1_000,)) for job in (here, after)}
    expected = {job: start and start.at_ms for job, start in starts.items()}
    assert expected == {here: scene.now, after: scene.now + 1_000}
    assert expected_start(scene.state, away, lambda _: (1_000,)) is None


def test_a_job_whose_start_failed_after_its_client_had_left_is_known_to_wait_for_it() -> None:
    scene = Scene(1)
    job = scene.submit(attached=True)
    scene.plan()
    scene.apply(ev.TerminalLeft(scene.now, job))
    assert not scene.state.unattended
    scene.apply(ev.AttemptEvicted(scene.now, job, 1, Cause.REQUEUED, "no inodes are left"))
    assert list(scene.state.unattended) == [job]
    scene.apply(ev.TerminalCame(scene.now, job))
    assert not scene.state.unattended


def test_a_job_whose_client_never_came_is_known_to_wait_for_it() -> None:
    scene = Scene(1)
    first = scene.running()
    jobs = [
        scene.submit(attached=True, terminal=False),
        scene.submit(attached=True, terminal=False, after=[first]),
    ]
    assert list(scene.state.unattended) == jobs
    scene.cancel(jobs[0])
    assert list(scene.state.unattended) == jobs[1:]
