"""What every executor promises: orders count once, facts are repeated, endings are exact."""

from __future__ import annotations

import pytest

from contract.executor_benches import (
    EXITS_7,
    IGNORES,
    KILLS_ITSELF,
    MISSING,
    RUNS_ON,
    Bench,
    LocalBench,
    SimBench,
    SlurmBench,
    active_job,
    start,
)
from stoker.core import commands as cmd
from stoker.core import events as ev
from stoker.core.model import Cause, Exit
from waiting import eventually


def test_an_exit_code_is_told_exactly(bench: Bench) -> None:
    bench.has(1, EXITS_7)
    bench.order(start(1))
    assert bench.until(ev.AttemptExited, 1).exit == Exit(code=7)


def test_a_signal_is_told_exactly(bench: Bench) -> None:
    bench.has(1, KILLS_ITSELF)
    bench.order(start(1))
    assert bench.until(ev.AttemptExited, 1).exit == Exit(signal=9)


def test_a_start_that_is_ordered_again_and_again_happens_once(bench: Bench) -> None:
    bench.has(1, RUNS_ON)
    for _ in range(3):
        bench.order(start(1))
    first = bench.until(ev.AttemptStarted, 1)
    bench.order(start(1))
    facts = [f for f in bench.executor.observe(2_000_000) if isinstance(f, ev.AttemptStarted)]
    assert facts == [first]
    if isinstance(bench, SimBench):
        assert len(bench.world.processes) == 1
    bench.order(cmd.Terminate(1, 1, force=True))
    bench.until(ev.AttemptExited, 1)


def test_a_start_that_is_ordered_again_after_the_end_does_not_happen(bench: Bench) -> None:
    bench.has(1, EXITS_7)
    bench.order(start(1))
    bench.until(ev.AttemptExited, 1)
    bench.order(start(1))
    exits = [f for f in bench.executor.observe(2_000_000) if isinstance(f, ev.AttemptExited)]
    assert len(exits) == 1


def test_facts_are_repeated_until_they_are_settled_and_then_no_more(bench: Bench) -> None:
    bench.has(1, EXITS_7)
    bench.order(start(1))
    exited = bench.until(ev.AttemptExited, 1)
    for _ in range(2):
        facts = bench.executor.observe(2_000_000)
        assert exited in facts
        assert any(isinstance(fact, ev.AttemptStarted) for fact in facts)
    bench.executor.acknowledged(facts)
    assert bench.executor.observe(2_000_000) == []


def test_only_the_facts_that_were_settled_are_forgotten(bench: Bench) -> None:
    for job_id in (1, 2):
        bench.has(job_id, RUNS_ON)
        bench.order(start(job_id, gpus=(str(job_id),)))
    first = bench.until(ev.AttemptStarted, 1)
    second = bench.until(ev.AttemptStarted, 2)
    bench.executor.acknowledged([first])
    facts = bench.executor.observe(2_000_000)
    assert [f for f in facts if not isinstance(f, ev.AttemptAccepted)] == [second]
    for job_id in (1, 2):
        bench.order(cmd.Terminate(job_id, 1, force=True))
        bench.until(ev.AttemptExited, job_id)


def test_a_job_that_is_asked_to_stop_stops(bench: Bench) -> None:
    bench.has(1, RUNS_ON)
    bench.order(start(1))
    bench.until(ev.AttemptStarted, 1)
    bench.order(cmd.Terminate(1, 1, force=False))
    assert bench.until(ev.AttemptExited, 1).exit == Exit(signal=15)


def test_a_job_that_ignores_the_request_is_ended_by_force(bench: Bench) -> None:
    bench.has(1, IGNORES)
    bench.order(start(1))
    bench.until(ev.AttemptStarted, 1)
    if isinstance(bench, LocalBench | SlurmBench):
        real = bench
        eventually(lambda: "ready" in real.log(1))
    bench.order(cmd.Terminate(1, 1, force=False))
    assert not any(isinstance(f, ev.AttemptExited) for f in bench.executor.observe(2_000_000))
    bench.order(cmd.Terminate(1, 1, force=True))
    assert bench.until(ev.AttemptExited, 1).exit == Exit(signal=9)


def test_an_order_to_stop_may_be_repeated(bench: Bench) -> None:
    bench.has(1, RUNS_ON)
    bench.order(start(1))
    bench.until(ev.AttemptStarted, 1)
    for force in (False, False, True, True):
        bench.order(cmd.Terminate(1, 1, force=force))
    exited = bench.until(ev.AttemptExited, 1)
    bench.order(cmd.Terminate(1, 1, force=True))
    exits = [f for f in bench.executor.observe(2_000_000) if isinstance(f, ev.AttemptExited)]
    assert exits == [exited]


def test_what_is_stopped_before_it_started_never_starts(bench: Bench) -> None:
    bench.has(1, RUNS_ON)
    bench.order(cmd.Terminate(1, 1, force=False))
    assert bench.until(ev.AttemptNotStarted, 1).cause is Cause.NOT_STARTED
    bench.order(start(1))
    assert not any(isinstance(f, ev.AttemptStarted) for f in bench.executor.observe(2_000_000))


def test_a_command_that_can_not_be_started_is_told_with_its_reason(bench: Bench) -> None:
    bench.has(1, MISSING)
    bench.order(start(1))
    told = bench.until(ev.AttemptNotStarted, 1)
    assert told.cause is Cause.NOT_STARTED and told.why
    bench.order(start(1))
    # On a node it is known only there, so the cluster has begun with it.
    before = (ev.AttemptAccepted, ev.AttemptStarted) if isinstance(bench, SlurmBench) else ()
    facts = bench.executor.observe(2_000_000)
    assert [fact for fact in facts if not isinstance(fact, before)] == [told]


def test_the_signal_before_the_limit_is_told_when_it_was_sent(bench: Bench) -> None:
    if isinstance(bench, SlurmBench):
        pytest.skip("a cluster sends it by itself")
    bench.has(1, RUNS_ON)
    bench.order(start(1))
    bench.until(ev.AttemptStarted, 1)
    bench.order(cmd.Warn(1, 1, signal=10))
    bench.until(ev.WarningSent, 1)
    bench.order(cmd.Terminate(1, 1, force=True))
    bench.until(ev.AttemptExited, 1)


def test_a_new_executor_tells_of_a_start_that_was_not_committed(bench: Bench) -> None:
    bench.has(1, RUNS_ON)
    bench.order(start(1))
    bench.until(ev.AttemptStarted, 1)
    bench.started_again(active_job(1, started=False))
    bench.until(ev.AttemptStarted, 1)
    bench.order(start(1))  # The state still asks for it, and it is the same process.
    bench.order(cmd.Terminate(1, 1, force=True))
    if isinstance(bench, SimBench):  # Here no parent is left that would see the exit code.
        bench.until(ev.AttemptExited, 1)


def test_a_new_executor_starts_what_was_never_started(bench: Bench) -> None:
    bench.has(1, EXITS_7)
    bench.started_again(active_job(1, started=False))
    assert bench.executor.observe(2_000_000) == []
    bench.order(start(1))
    assert bench.until(ev.AttemptExited, 1).exit == Exit(code=7)


@pytest.mark.parametrize("attempt", [1, 2])
def test_attempts_of_a_job_are_told_apart(bench: Bench, attempt: int) -> None:
    bench.has(1, EXITS_7)
    bench.order(start(1, attempt))
    assert bench.until(ev.AttemptExited, 1).attempt == attempt
