"""What an executor of local processes does where there are no more files: nothing is guessed."""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from contract.executor_benches import ENDS_WELL, IGNORES, RUNS_ON, LocalBench, start
from stoker.core import commands as cmd
from stoker.core import events as ev
from stoker.executors.processes import ProcessId, has_marker, is_alive, send, stat_of
from stoker.executors.shortage import shortage
from stoker_home import is_running
from waiting import eventually


@contextmanager
def no_files(left: int = 0) -> Iterator[None]:
    """No more files can be opened in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = set(map(int, os.listdir("/proc/self/fd")))
    # The listing itself had one open.
    free = [number for number in range(len(taken) + left + 2) if not _is_open(number)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[left], hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def test_where_no_file_can_be_opened_nothing_is_said_of_a_process() -> None:
    stat = stat_of(os.getpid())
    assert stat is not None
    for ask in (
        lambda: stat_of(os.getpid()),
        lambda: is_alive(stat.id),
        lambda: has_marker(os.getpid(), b"A=b"),
        lambda: send(stat.id, 0),
    ):
        with no_files(), pytest.raises(OSError, match="Too many open files"):
            ask()
    assert not is_alive(ProcessId(stat.id.pid, stat.id.start_time + 1))


def test_a_start_without_files_puts_the_attempt_back_and_the_rest_of_the_turn_with_it(
    local: LocalBench,
) -> None:
    for job_id in (1, 2):
        local.has(job_id, ENDS_WELL)
    with no_files():
        local.order(start(1), start(2))
        facts = local.observe()
    assert [type(fact) for fact in facts] == [ev.AttemptPutBack] * 2
    assert {fact.spent for fact in facts if isinstance(fact, ev.AttemptPutBack)} == {False}
    local.executor.acknowledged(facts)
    assert local.observe() == []
    local.order(start(1), start(2))  # Under the same numbers.
    for job_id in (1, 2):
        assert local.until(ev.AttemptExited, job_id).exit.code == 0


def test_a_process_that_is_there_is_watched_whatever_files_are_left(local: LocalBench) -> None:
    """It is made with the last descriptor, and then looked at with the one kept for that."""
    for left in range(1, 5):
        local.has(left, ENDS_WELL)
        with no_files(left):
            local.order(start(left))
        back = [fact for fact in local.observe() if isinstance(fact, ev.AttemptPutBack)]
        if back:
            local.executor.acknowledged(back)
            local.order(start(left))
        assert local.until(ev.AttemptExited, left).exit.code == 0
        assert local.made.count(local.made[-1]) == 1


def test_a_limit_below_what_is_open_already_puts_jobs_back(patient: LocalBench) -> None:
    """The C library does not hand on a descriptor that is over the limit."""
    spawner = patient.executor._spawner
    low, high = spawner._no_input, fcntl.fcntl(spawner._no_input, fcntl.F_DUPFD_CLOEXEC, 900)
    spawner._no_input = high
    try:
        patient.has(1, ENDS_WELL)
        with no_files(4):
            patient.order(start(1))
        back = patient.until(ev.AttemptPutBack, 1)
        assert "too many files" in back.what
        patient.executor.acknowledged([back])
        patient.order(start(1))
        assert patient.until(ev.AttemptExited, 1).exit.code == 0
    finally:
        spawner._no_input = low
        os.close(high)


def test_an_attempt_is_not_over_because_there_are_no_files_to_look_at_it(
    local: LocalBench,
) -> None:
    local.has(1, IGNORES)
    local.order(start(1))
    pid = local.until(ev.AttemptStarted, 1).pid
    assert pid is not None
    eventually(lambda: "ready" in local.log(1))
    with no_files():
        local.order(cmd.Terminate(1, 1, force=False))
        local.order(cmd.Terminate(1, 1, force=False))
        assert local.executor.next_wakeup_ms() is not None
        assert not [fact for fact in local.observe() if isinstance(fact, ev.AttemptExited)]
    assert is_running(pid)
    local.order(cmd.Terminate(1, 1, force=True))
    assert local.until(ev.AttemptExited, 1).exit.signal == 9


@pytest.mark.parametrize("force", [False, True])
def test_a_main_process_is_ended_though_there_are_no_files_to_look_for_the_others(
    local: LocalBench, force: bool
) -> None:
    """One that was made a moment ago must not begin after its job was cancelled."""
    local.has(1, RUNS_ON)
    local.order(start(1))
    local.until(ev.AttemptStarted, 1)
    with no_files():
        local.order(cmd.Terminate(1, 1, force=force))
        assert local.executor.next_wakeup_ms() is not None
    assert local.until(ev.AttemptExited, 1).exit.signal == (9 if force else 15)


def test_who_could_not_be_asked_to_end_for_want_of_files_is_asked_later(local: LocalBench) -> None:
    """The others of its session: the main process, which was asked, goes on until they end."""
    child = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    goes_on = "trap : TERM; while kill -0 $! 2>/dev/null; do wait; done; exit 0"
    local.runs(1, "sh", "-c", f'sh -c "{child}" & {goes_on}')
    local.order(start(1))
    local.until(ev.AttemptStarted, 1)
    eventually(lambda: "ready" in local.log(1), "its child is prepared")
    with no_files():
        local.order(cmd.Terminate(1, 1, force=False))
    local.order(cmd.Terminate(1, 1, force=False))
    assert local.until(ev.AttemptExited, 1).exit.code == 0


def open_files() -> list[str]:
    """What is open, by what it is: the numbers say nothing, and one is that of this very look."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/self/fd/{fd}"))
    return sorted(found)


def test_no_descriptor_is_left_behind_by_attempts_that_ended(local: LocalBench) -> None:
    def one_after_the_other(first: int) -> None:
        for job_id in range(first, first + 10):
            local.has(job_id, ENDS_WELL)
            local.order(start(job_id))
            local.executor.acknowledged([local.until(ev.AttemptExited, job_id)])

    one_after_the_other(1)
    gc.collect()  # What tests before this one have left open is let go now, and not meanwhile.
    before = open_files()
    one_after_the_other(11)
    local.has(21, "can't be started")
    local.order(start(21))
    local.until(ev.AttemptNotStarted, 21)
    with no_files():
        local.has(22, RUNS_ON)
        local.order(start(22))
    assert open_files() == before


FAULT_OF = [
    (errno.ENOENT, None), (errno.EACCES, None), (errno.ENOTDIR, None), (errno.ENOEXEC, None),
    (errno.E2BIG, None), (errno.ELOOP, None), (errno.EISDIR, None), (errno.EPERM, None),
    (errno.EAGAIN, False), (errno.EMFILE, False), (errno.ENFILE, False), (errno.ENOMEM, False),
    (errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EIO, True),
]  # fmt: skip


@pytest.mark.parametrize(("error", "alone"), FAULT_OF, ids=lambda value: str(value))
def test_the_jobs_fault_is_told_from_the_machines(error: int, alone: bool | None) -> None:
    """`alone`: on a file that its user has named, the shortage is of that job alone."""
    ours, own = shortage(error, "/f"), shortage(error, "/f", own=True)
    assert (ours is None) == (own is None) == (alone is None)
    if ours is not None and own is not None:
        assert (ours.alone, own.alone) == (False, alone)


def test_a_disk_that_became_read_only_is_the_machines_fault_only_where_our_files_are() -> None:
    assert shortage(errno.EROFS, "/log") is not None
    assert shortage(errno.EROFS, "/out", own=True) is None
