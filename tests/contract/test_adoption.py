"""What each half-finished attempt of an earlier daemon means: one test a row of the table."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.executor_benches import LocalBench, active_job, start
from stoker.core import commands as cmd
from stoker.core import events as ev
from stoker.core.model import Exit
from stoker.executors import processes
from stoker.executors.adoption import Finding, Gone, Living, NeverStarted, Past
from stoker.executors.attempt_dir import make_attempt_dir, write_exit
from stoker.executors.elsewhere import Elsewhere
from stoker.executors.environment import MARKER, marker
from stoker.executors.ledger import LedgerWriter, read_ledger
from stoker.executors.processes import ProcessId, Stat, stat_of
from stoker.machine import here
from stoker_home import is_running, kill_and_wait, pid_in
from waiting import eventually

KEY = (7, 1)
MARK = marker(f"adoption-{os.getpid()}", *KEY)
DEAD_KEEPER = ProcessId(2**22 - 3, 1)


class Remains:
    """What an earlier daemon left in a directory."""

    def __init__(self, root: Path) -> None:
        self.attempts, self.ledgers = root / "attempts", root / "ledgers"
        self.attempts.mkdir()
        self.ledgers.mkdir()
        self.directory = self.attempts / "0000" / "7.1"
        self.path = self.ledgers / "earlier.ledger"

    def ledger(self, keeper: ProcessId = DEAD_KEEPER) -> LedgerWriter:
        return LedgerWriter(self.path, keeper)

    def has_directory(self) -> None:
        make_attempt_dir(str(self.directory))

    def has_exit(self, how: Exit) -> None:
        self.has_directory()
        write_exit(str(self.directory), how)

    def of_an_earlier_boot(self) -> None:
        lines = self.path.read_text().splitlines(keepends=True)
        words = lines[0].split()
        words[1] = "00000000-0000-0000-0000-000000000000"
        self.path.write_text(" ".join(words) + "\n" + "".join(lines[1:]))

    def of_another_container(self) -> None:
        namespace = here().namespace
        self.path.write_text(self.path.read_text().replace(f" {namespace}\n", " 4026530000-5\n"))

    def mean(self, attached: bool = False) -> Finding:
        return Past(self.attempts, self.ledgers).find(KEY, MARK, attached)


@pytest.fixture
def remains(tmp_path: Path) -> Remains:
    return Remains(tmp_path)


@pytest.fixture
def living(tmp_path: Path) -> Iterator[ProcessId]:
    """A process that runs."""
    env = {"PATH": os.environ["PATH"], "STOKER_HOME": str(tmp_path), MARKER: MARK}
    child = subprocess.Popen(["sleep", "600"], env=env, start_new_session=True)
    try:
        # The kernel closes the pipe by which Popen waits for exec before the environment is there.
        mark = f"{MARKER}={MARK}".encode()
        eventually(lambda: processes.has_marker(child.pid, mark), "its environment is there")
        yield identity(child.pid)
    finally:
        child.kill()
        child.wait()


def identity(pid: int) -> ProcessId:
    stat = stat_of(pid)
    assert stat is not None
    return stat.id


def ended() -> ProcessId:
    """A process that was there and is gone."""
    child = subprocess.Popen(["sleep", "600"])
    known = identity(child.pid)
    child.kill()
    child.wait()
    return known


# ---------------------------------------------------------------------- the table, row by row


def test_an_exit_in_its_directory_means_that_it_ended_so(remains: Remains) -> None:
    ledger = remains.ledger()
    ledger.intend(KEY)
    ledger.record(KEY, ended())
    remains.has_exit(Exit(code=42))
    found = remains.mean()
    assert isinstance(found, Gone) and found.exit == Exit(code=42)
    assert found.at_ms is not None and abs(found.at_ms - time.time() * 1000) < 60_000


def test_an_exit_in_the_ledger_means_that_it_ended_so(remains: Remains, living: ProcessId) -> None:
    ledger = remains.ledger()
    ledger.intend(KEY)
    ledger.record(KEY, living)  # It was not reaped yet.
    ledger.ended(KEY, Exit(code=42), 123_456)
    found = remains.mean()
    assert isinstance(found, Gone) and found.exit == Exit(code=42)
    assert (found.at_ms, found.process) == (123_456, living)


def test_a_signal_in_its_directory_means_that_it_ended_so(remains: Remains) -> None:
    remains.has_exit(Exit(signal=11))
    found = remains.mean()
    assert isinstance(found, Gone) and found.exit == Exit(signal=11)


def test_a_pid_whose_very_process_is_there_means_that_it_runs(
    remains: Remains, living: ProcessId
) -> None:
    ledger = remains.ledger()
    ledger.intend(KEY)
    ledger.record(KEY, living)
    assert remains.mean() == Living(living)


def test_a_pid_whose_process_is_gone_without_an_exit_means_that_nobody_saw_its_end(
    remains: Remains,
) -> None:
    ledger = remains.ledger()
    ledger.intend(KEY)
    ledger.record(KEY, ended())
    remains.has_directory()
    found = remains.mean()
    assert isinstance(found, Gone) and found.exit is None and found.why


def test_what_ends_in_the_moment_in_which_it_is_looked_at_has_its_exit_code(
    remains: Remains, living: ProcessId, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = remains.ledger()
    ledger.intend(KEY)
    ledger.record(KEY, living)

    def ends_now(process: ProcessId) -> bool:
        remains.has_exit(Exit(code=3))
        return False

    monkeypatch.setattr("stoker.executors.adoption.is_alive", ends_now)
    found = remains.mean()
    assert isinstance(found, Gone) and found.exit == Exit(code=3)


def test_a_pid_that_another_process_has_now_is_not_taken_for_the_job(
    remains: Remains, living: ProcessId
) -> None:
    ledger = remains.ledger()
    ledger.intend(KEY)
    ledger.record(KEY, ProcessId(living.pid, living.start_time - 1))
    found = remains.mean()
    assert isinstance(found, Gone) and found.exit is None


def test_an_intent_of_which_the_keeper_says_none_means_never_started(remains: Remains) -> None:
    ledger = remains.ledger()
    ledger.intend(KEY)
    ledger.withdraw()
    ledger.complete()
    remains.has_directory()
    assert remains.mean() == NeverStarted()


def test_an_intent_of_which_nobody_can_say_is_looked_for_by_its_marker(
    remains: Remains, living: ProcessId
) -> None:
    remains.ledger().intend(KEY)
    assert remains.mean() == Living(living)


def test_an_intent_of_which_nobody_can_say_and_no_marker_is_lost_and_not_run_again(
    remains: Remains,
) -> None:
    remains.ledger().intend(KEY)
    found = remains.mean()
    assert isinstance(found, Gone) and found.exit is None


def test_neither_directory_nor_ledger_means_never_started(remains: Remains) -> None:
    assert remains.mean() == NeverStarted()


def test_a_directory_without_an_intent_means_never_started(remains: Remains) -> None:
    remains.ledger().intend((8, 1))
    remains.has_directory()
    assert remains.mean() == NeverStarted()


@pytest.mark.parametrize("with_pid", [True, False])
def test_anything_of_an_earlier_boot_was_running_when_the_machine_went_down(
    remains: Remains, living: ProcessId, with_pid: bool
) -> None:
    ledger = remains.ledger()
    ledger.intend(KEY)
    if with_pid:
        ledger.record(KEY, living)
    remains.of_an_earlier_boot()
    found = remains.mean()
    assert isinstance(found, Gone) and found.exit is None
    assert "machine went down" in found.why


def test_a_pid_of_another_container_is_not_looked_up_here(remains: Remains) -> None:
    ledger = remains.ledger()
    ledger.intend(KEY)
    ledger.record(KEY, processes.this_process())
    assert isinstance(remains.mean(), Living)
    remains.of_another_container()
    found = remains.mean()
    assert isinstance(found, Gone) and found.exit is None and "container ended" in found.why


def test_a_job_of_another_container_that_is_seen_by_its_marker_runs(
    remains: Remains, living: ProcessId
) -> None:
    ledger = remains.ledger()
    ledger.intend(KEY)
    ledger.record(KEY, ProcessId(7, 7))
    remains.of_another_container()
    assert remains.mean() == Living(living)


@pytest.mark.parametrize("attached", [True, False])
def test_nothing_of_another_machine_is_looked_up_here(remains: Remains, attached: bool) -> None:
    other = here()._replace(machine="other", host="alpha", boot="other")
    kept = json.dumps({"place": other._asdict(), "given_up": []})
    past = Past(remains.attempts, remains.ledgers, Elsewhere(kept, shared=True))
    remains.has_directory()
    me = processes.this_process()
    (remains.directory / "pid").write_text(f"{me.pid} {me.start_time}\n")
    found = past.find(KEY, MARK, attached)
    assert isinstance(found, Gone) and found.exit is None and "alpha" in found.why
    write_exit(str(remains.directory), Exit(code=3))
    found = past.find(KEY, MARK, attached)
    assert isinstance(found, Gone) and found.exit == Exit(code=3)


def test_an_exit_of_an_earlier_boot_is_still_true(remains: Remains, living: ProcessId) -> None:
    ledger = remains.ledger()
    ledger.intend(KEY)
    ledger.record(KEY, living)
    remains.of_an_earlier_boot()
    remains.has_exit(Exit(code=3))
    found = remains.mean()
    assert isinstance(found, Gone) and found.exit == Exit(code=3)


def test_a_zombie_that_nobody_reaps_is_gone(
    remains: Remains, monkeypatch: pytest.MonkeyPatch
) -> None:
    zombie = ProcessId(4321, 99)
    ledger = remains.ledger()
    ledger.intend(KEY)
    ledger.record(KEY, zombie)

    def left_to_process_1(pid: int) -> Stat | None:
        return Stat(zombie, "Z", 1, 4321, 4321) if pid == zombie.pid else None

    monkeypatch.setattr(processes, "stat_of", left_to_process_1)
    found = remains.mean()
    assert isinstance(found, Gone) and found.exit is None


# ---------------------------------------------------------------------- in the user's terminal


def test_the_pid_that_a_client_wrote_down_means_that_it_runs(
    remains: Remains, living: ProcessId
) -> None:
    remains.has_directory()
    (remains.directory / "pid").write_text(f"{living.pid} {living.start_time}\n")
    assert remains.mean(attached=True) == Living(living)
    (remains.directory / "pid").write_text(f"{living.pid} {living.start_time - 1}\n")
    found = remains.mean(attached=True)
    assert isinstance(found, Gone) and found.exit is None


# ---------------------------------------------------------------------- ledgers cut short


def test_a_line_that_was_cut_short_counts_for_nothing(remains: Remains) -> None:
    whole = remains.ledger()
    whole.intend(KEY)
    whole.record(KEY, ProcessId(1234, 56789))
    text = remains.path.read_text()
    before_pid = text.index("pid 7")
    for length in range(before_pid, len(text)):
        remains.path.write_text(text[:length])
        entries = read_ledger(remains.path)
        assert (entries.pids, entries.intent) == ({}, KEY)
        # Whoever writes there next, the keeper say, makes no line out of the torn one.
        keeper = LedgerWriter(remains.path, None)
        keeper.complete()
        keeper.close()
        entries = read_ledger(remains.path)
        assert (entries.pids, entries.intent, entries.complete) == ({}, KEY, True)


def test_a_pid_for_which_there_was_no_room_is_written_before_the_next_intent(
    remains: Remains, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = remains.ledger()
    ledger.intend(KEY)
    real_write = os.write

    def almost_full(fd: int, data: bytes) -> int:
        return real_write(fd, data[:9])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", almost_full)
        ledger.record(KEY, ProcessId(1234, 56789))
        with pytest.raises(OSError, match="No space left"):
            ledger.intend((8, 1))
    assert read_ledger(remains.path).intent == KEY
    ledger.intend((8, 1))
    entries = read_ledger(remains.path)
    assert entries.pids == {KEY: ProcessId(1234, 56789)}
    assert entries.intent == (8, 1)


def test_ledgers_that_speak_of_nothing_that_goes_on_are_deleted(remains: Remains) -> None:
    ledger = remains.ledger()
    ledger.intend(KEY)
    ledger.record(KEY, ended())
    past = Past(remains.attempts, remains.ledgers)
    past.tidy([KEY])
    assert remains.path.exists()
    past.tidy([])
    assert not remains.path.exists()


def test_a_ledger_with_an_open_intent_of_what_goes_on_is_kept(remains: Remains) -> None:
    remains.ledger().intend(KEY)
    past = Past(remains.attempts, remains.ledgers)
    past.tidy([KEY])
    assert read_ledger(remains.path).intent == KEY, "else the next daemon would start it again"
    past.tidy([(8, 1)])
    assert not remains.path.exists()


def test_what_a_rewrite_of_a_ledger_left_that_was_cut_off_is_deleted(remains: Remains) -> None:
    unfinished = remains.path.with_name(f"{remains.path.name}.new")
    remains.ledger()
    unfinished.touch()
    Past(remains.attempts, remains.ledgers).tidy([])
    assert not unfinished.exists()


def test_an_intent_is_waited_for_until_the_living_keeper_has_sorted_it_out(
    remains: Remains, living: ProcessId, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = remains.ledger(keeper=living)
    ledger.intend(KEY)
    real_sleep = time.sleep

    def keeper_is_done(seconds: float) -> None:
        ledger.withdraw()
        ledger.complete()
        real_sleep(0)

    monkeypatch.setattr(time, "sleep", keeper_is_done)
    assert remains.mean() == NeverStarted()


def test_an_intent_that_only_our_own_keeper_could_sort_out_is_not_waited_for(
    remains: Remains, monkeypatch: pytest.MonkeyPatch
) -> None:
    remains.ledger(keeper=identity(os.getppid())).intend(KEY)
    monkeypatch.delattr(time, "sleep")
    assert isinstance(remains.mean(), Gone)


# ---------------------------------------------------------------------- through the executor


def test_a_job_that_goes_on_is_watched_to_its_end(local: LocalBench) -> None:
    local.runs(1, "sleep", "600")
    local.order(start(1))
    pid = local.until(ev.AttemptStarted, 1).pid
    assert pid is not None
    local.started_again(active_job(1, started=True))
    assert local.observe() == []
    # This process is the parent, and takes the part of the keeper.
    write_exit(str(local.directory(1)), Exit(signal=9))
    kill_and_wait(pid)
    os.waitpid(pid, 0)
    assert local.until(ev.AttemptExited, 1).exit == Exit(signal=9)


def test_a_job_whose_end_nobody_wrote_down_has_vanished(local: LocalBench) -> None:
    local.runs(1, "sleep", "600")
    local.order(start(1))
    pid = local.until(ev.AttemptStarted, 1).pid
    assert pid is not None
    local.started_again(active_job(1, started=True))
    kill_and_wait(pid)
    os.waitpid(pid, 0)
    assert local.until(ev.AttemptVanished, 1).why


def test_a_started_job_of_which_there_is_no_trace_has_vanished(local: LocalBench) -> None:
    local.started_again(active_job(1, started=True))
    assert local.until(ev.AttemptVanished, 1).why


@pytest.mark.parametrize("stopping", [True, False])
def test_what_an_ended_job_left_behind_is_ended_before_the_job_is_over(
    local: LocalBench, tmp_path: Path, stopping: bool
) -> None:
    pid_file = tmp_path / "pid"
    child = f'trap "" TERM; echo $$ > {pid_file}; while :; do sleep 0.05; done'
    setsid = "setsid " if stopping else ""
    local.runs(1, "sh", "-c", f"{setsid}sh -c '{child}' & exec sleep 600")
    local.order(start(1))
    stubborn = pid_in(pid_file)
    main = local.until(ev.AttemptStarted, 1).pid
    assert main is not None
    # The daemon died just after it had learned how the main process ended.
    write_exit(str(local.directory(1)), Exit(code=3))
    kill_and_wait(main)
    os.waitpid(main, 0)
    local.started_again(active_job(1, started=True, stopping=stopping))
    assert not any(isinstance(fact, ev.AttemptExited) for fact in local.observe())
    assert is_running(stubborn)
    if stopping:
        local.order(cmd.Terminate(1, 1, force=True))
    assert local.until(ev.AttemptExited, 1).exit == Exit(code=3)
    eventually(lambda: not is_running(stubborn))
