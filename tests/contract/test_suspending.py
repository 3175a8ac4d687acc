"""Which processes of an attempt are stopped and continued, in which order; when that is told."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from contract.executor_benches import LocalBench, active_job, start
from contract.test_shortage import no_files
from stoker.core import commands as cmd
from stoker.core import events as ev
from stoker.executors import suspending
from stoker.executors.processes import ProcessId, send, stat_of
from stoker_home import pid_in
from waiting import eventually

SUSPEND, CONTINUE = cmd.Suspend(1, 1, 1), cmd.Continue(1, 1, 1)


def state_of(pid: int) -> str:
    """As `ps` shows it."""
    stat = stat_of(pid)
    return "gone" if stat is None else stat.state


def three_generations(local: LocalBench, at: Path) -> list[int]:
    """A job whose child has a session of its own, and a child too; the oldest first."""
    inner = f"echo $$ > {at}/2; sleep 600 & echo $! > {at}/3; wait"
    local.runs(1, "sh", "-c", f"echo $$ > {at}/1; setsid sh -c '{inner}' & wait")
    local.order(start(1))
    local.until(ev.AttemptStarted, 1)
    return [pid_in(at / name) for name in ("1", "2", "3")]


def told(local: LocalBench) -> list[type[ev.Fact]]:
    """What is told of suspensions, and not acknowledged yet."""
    kinds = (ev.AttemptSuspended, ev.AttemptContinued)
    return [type(fact) for fact in local.executor.observe(local.now_ms) if isinstance(fact, kinds)]


def test_parents_are_stopped_before_their_children_and_continued_after_them(
    local: LocalBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = three_generations(local, tmp_path)
    sent: list[tuple[int, int]] = []

    def noted(process: ProcessId, number: int) -> bool:
        sent.append((process.pid, number))
        return send(process, number)

    monkeypatch.setattr(suspending, "send", noted)
    local.order(SUSPEND)
    assert local.until(ev.AttemptSuspended, 1).nth == 1
    assert [state_of(pid) for pid in pids] == ["T", "T", "T"]
    assert list(dict.fromkeys(sent)) == [(pid, signal.SIGSTOP) for pid in pids]
    sent.clear()
    local.order(CONTINUE)
    assert local.until(ev.AttemptContinued, 1).nth == 1
    assert sent == [(pid, signal.SIGCONT) for pid in reversed(pids)]
    assert "T" not in {state_of(pid) for pid in pids}


def test_it_is_told_only_when_none_of_its_processes_runs(
    local: LocalBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = three_generations(local, tmp_path)
    monkeypatch.setattr(suspending, "send", lambda process, number: True)  # none stops yet
    local.order(SUSPEND)
    for later_ms in (0, 30, 100, 1_000, 5_000):
        local.now_ms += later_ms
        assert told(local) == []
        wakeup_ms = local.executor.next_wakeup_ms()
        assert wakeup_ms is not None and local.now_ms < wakeup_ms <= local.now_ms + 1_000
    monkeypatch.setattr(suspending, "send", send)
    local.now_ms += 1_000
    local.until(ev.AttemptSuspended, 1)
    assert {state_of(pid) for pid in pids} == {"T"}
    local.order(cmd.Terminate(1, 1, force=True))


def test_a_child_that_is_made_while_its_parent_is_being_stopped_is_stopped_too(
    local: LocalBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "child"
    local.runs(1, "sh", "-c", f"trap 'sleep 600 & echo $! > {made}' USR1; while :; do :; done")
    local.order(start(1))
    main = local.until(ev.AttemptStarted, 1).pid
    assert main is not None

    def late(process: ProcessId, number: int) -> bool:
        """It makes a child between the look and the signal."""
        if not made.exists():
            os.kill(main, signal.SIGUSR1)
            pid_in(made)
        return send(process, number)

    eventually(lambda: state_of(main) == "R", "the shell runs")
    monkeypatch.setattr(suspending, "send", late)
    local.order(SUSPEND)
    local.until(ev.AttemptSuspended, 1)
    assert (state_of(main), state_of(pid_in(made))) == ("T", "T")
    local.order(cmd.Terminate(1, 1, force=True))


def test_an_order_comes_again_while_no_file_can_be_opened(
    local: LocalBench, tmp_path: Path
) -> None:
    pids = three_generations(local, tmp_path)
    with no_files():
        local.order(SUSPEND)
        assert told(local) == []
    local.until(ev.AttemptSuspended, 1)
    with no_files():
        local.order(CONTINUE)
        assert told(local) == [ev.AttemptSuspended]
    assert {state_of(pid) for pid in pids} == {"T"}
    local.order(CONTINUE)
    local.until(ev.AttemptContinued, 1)
    assert "T" not in {state_of(pid) for pid in pids}


def test_what_has_no_process_any_more_has_gone_on(local: LocalBench) -> None:
    local.order(cmd.Continue(7, 1, 3))
    assert local.until(ev.AttemptContinued, 7).nth == 3


def test_an_adopted_attempt_is_suspended_by_the_next_daemon_if_it_runs(
    local: LocalBench, tmp_path: Path
) -> None:
    pids = three_generations(local, tmp_path)
    job = active_job(1, started=True)
    assert job.active is not None
    job.active.suspended_at_ms, job.active.suspensions = local.now_ms, 1
    local.started_again(job)
    local.until(ev.AttemptSuspended, 1)
    assert {state_of(pid) for pid in pids} == {"T"}
    local.order(cmd.Terminate(1, 1, force=True))
