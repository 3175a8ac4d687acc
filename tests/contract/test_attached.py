"""Attempts that run in their users' terminals: who may start them, and that only one does."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.executor_benches import LocalBench, active_job
from contract.test_shortage import no_files
from stoker.core import commands as cmd
from stoker.core import events as ev
from stoker.core.model import Cause, Exit
from stoker.executors import acceptances as acceptances_on_disk
from stoker.executors.acceptances import (
    Accepted,
    Failed,
    prepared_void,
    read_acceptance,
    void,
)
from stoker.executors.attempt_dir import make_attempt_dir, write_exit
from stoker.executors.environment import MARKER
from stoker.executors.ledger import Key
from stoker.executors.namespaces import located, own_namespace
from stoker.executors.processes import ProcessId, stat_of
from stoker.executors.unseen import UnseenAttempts
from stoker.machine import boot_id
from stoker.wholefile import write_whole
from waiting import eventually


def test_an_attached_job_is_offered_to_its_client_until_it_is_started(local: LocalBench) -> None:
    local.runs(1, "sleep", "600")
    order = cmd.StartAttached(1, 1, ("0",), grace_ms=300)
    local.order(order)
    local.order(order)
    assert [grant.argv for grant in local.grants] == [["sleep", "600"]] * 2
    assert local.grants[0].env["CUDA_VISIBLE_DEVICES"] == "0"
    local.executor.attached_failed((1, 1), "no such program", Cause.NOT_STARTED)
    local.order(order)
    assert len(local.grants) == 2
    assert local.until(ev.AttemptNotStarted, 1).why == "no such program"


def offered(local: LocalBench, *words: str) -> Path:
    """A job that was granted to its client; its directory."""
    local.runs(1, *words)
    local.order(cmd.StartAttached(1, 1, ("0",), grace_ms=300))
    return local.directory(1)


def accepts(directory: Path, process: ProcessId) -> None:
    """As a client does it."""
    space, session = os.stat("/proc/self/ns/pid").st_ino, os.getsid(0)
    record = f"{process.pid} {process.start_time} {space} {boot_id()} {session}\n"
    (directory / "mine").write_text(record)
    os.link(directory / "mine", directory / "pid")


@pytest.fixture
def at_the_gate() -> Iterator[ProcessId]:
    """A process as a client has made it, which has not begun, and blocks signals until it does."""
    gate_out, gate_in = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        os.read(gate_out, 1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        os._exit(0)
    stat = stat_of(pid)
    assert stat is not None
    yield stat.id
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        pass  # It was ended, and reaped by the test.
    os.close(gate_out)
    os.close(gate_in)


def is_pending(pid: int, number: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    return bool(int(status.split("ShdPnd:")[1].split()[0], 16) >> (number - 1) & 1)


def test_a_terminal_that_is_gone_before_the_start_calls_the_job_off(local: LocalBench) -> None:
    directory = offered(local, "sleep", "600")
    local.executor.attached_failed((1, 1), "its terminal was gone", Cause.TERMINAL_GONE)
    assert local.until(ev.AttemptNotStarted, 1).cause is Cause.TERMINAL_GONE
    with pytest.raises(FileExistsError):
        accepts(directory, ProcessId(1, 1))


def test_a_client_killed_between_its_acceptance_and_the_start_calls_the_job_off(
    local: LocalBench,
) -> None:
    """The process that was to become the job sees it, and writes it down; so it never began."""
    directory = offered(local, "sleep", "600")
    dies = (
        "import os, sys\n"
        "from stoker.cli.attached import AttachedProcess\n"
        "AttachedProcess._accept = lambda self, pid: os.kill(os.getpid(), 9)\n"
        "AttachedProcess(['sleep', '600'], dict(os.environ), '/', sys.argv[1])\n"
    )
    client = subprocess.run([sys.executable, "-c", dies, str(directory)], check=False)
    assert client.returncode == -signal.SIGKILL
    failed = eventually(lambda: read_acceptance(str(directory)), "the process has seen it")
    assert isinstance(failed, Failed)
    local.executor.attached_failed((1, 1), "its terminal was gone", Cause.TERMINAL_GONE)
    fact = local.until(ev.AttemptNotStarted, 1)
    assert (fact.cause, fact.why) == (Cause.TERMINAL_GONE, "its terminal was gone")


def test_a_command_that_its_client_could_not_start_is_its_own_fault(local: LocalBench) -> None:
    directory = offered(local, "sleep", "600")
    (directory / "pid").write_text("failed can't run sleep: Permission denied\n")
    local.executor.attached_failed((1, 1), "its terminal was gone", Cause.TERMINAL_GONE)
    fact = local.until(ev.AttemptNotStarted, 1)
    assert (fact.cause, fact.why) == (Cause.NOT_STARTED, "can't run sleep: Permission denied")


def test_what_is_stopped_before_it_is_accepted_can_not_be_accepted_any_more(
    local: LocalBench,
) -> None:
    directory = offered(local, "sleep", "600")
    local.order(cmd.Terminate(1, 1, force=False))
    [fact] = local.observe()
    assert isinstance(fact, ev.AttemptNotStarted) and fact.why == "stopped before it started"
    with pytest.raises(FileExistsError):
        accepts(directory, ProcessId(1, 1))


@pytest.mark.parametrize("force", [False, True])
def test_what_is_stopped_after_it_was_accepted_is_ended_be_it_that_it_has_not_begun(
    local: LocalBench, at_the_gate: ProcessId, force: bool
) -> None:
    directory = offered(local, "sleep", "600")
    accepts(directory, at_the_gate)
    local.order(cmd.Terminate(1, 1, force=force))
    assert local.until(ev.AttemptStarted, 1).pid == at_the_gate.pid
    assert not any(isinstance(fact, ev.AttemptNotStarted) for fact in local.observe())
    if not force:
        # What it blocks is waiting for it, and ends it before its program begins.
        eventually(lambda: is_pending(at_the_gate.pid, signal.SIGTERM), "it is told to end")
        local.order(cmd.Terminate(1, 1, force=True))
    ended = os.waitid(os.P_PID, at_the_gate.pid, os.WEXITED | os.WNOWAIT)
    assert ended is not None and ended.si_status == signal.SIGKILL
    write_exit(str(directory), Exit(signal=9))
    os.waitpid(at_the_gate.pid, 0)
    assert local.until(ev.AttemptExited, 1).exit == Exit(signal=9)


@pytest.mark.parametrize("left", [0, 1, 2])
@pytest.mark.parametrize("by", ["a cancel", "its client", "a new offer"])
def test_what_was_accepted_is_not_given_up_because_there_are_no_files_to_look_at_it(
    local: LocalBench, at_the_gate: ProcessId, by: str, left: int
) -> None:
    directory = offered(local, "sleep", "600")
    accepts(directory, at_the_gate)
    before = len(os.listdir("/proc/self/fd"))

    def heard() -> None:
        if by == "a cancel":
            local.order(cmd.Terminate(1, 1, force=False))
        elif by == "its client":
            local.executor.attached_started((1, 1), at_the_gate.pid)
        else:
            local.order(cmd.StartAttached(1, 1, ("0",), grace_ms=300))

    with no_files(left):
        for _ in range(3):
            heard()
            facts = local.observe()
        assert not any(isinstance(fact, ev.AttemptNotStarted) for fact in facts)
        assert local.executor.next_wakeup_ms() is not None
    if by == "a new offer":
        heard()  # Orders come again.
    assert local.until(ev.AttemptStarted, 1).pid == at_the_gate.pid
    assert len(local.grants) == 1
    watched = 1  # a pidfd, and no more
    assert len(os.listdir("/proc/self/fd")) == before + watched
    local.order(cmd.Terminate(1, 1, force=True))
    os.waitid(os.P_PID, at_the_gate.pid, os.WEXITED | os.WNOWAIT)
    write_exit(str(directory), Exit(signal=9))
    os.waitpid(at_the_gate.pid, 0)
    assert local.until(ev.AttemptExited, 1).exit == Exit(signal=9)


def test_what_left_the_session_ends_with_a_cancel_that_could_not_be_obeyed_at_once(
    local: LocalBench,
) -> None:
    """The main process has ended by itself by the time there are files to look."""
    directory = offered(local, "sleep", "600")
    marker = {**os.environ, MARKER: local.executor._attempts.marker((1, 1))}
    main = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    apart = subprocess.Popen(["sleep", "600"], env=marker, start_new_session=True)
    stat = stat_of(main.pid)
    assert stat is not None
    accepts(directory, stat.id)
    with no_files():
        local.order(cmd.Terminate(1, 1, force=False))
        local.observe()
    write_exit(str(directory), Exit(code=0))
    main.communicate()
    local.until(ev.AttemptStarted, 1)
    assert not any(isinstance(fact, ev.AttemptExited) for fact in local.observe())
    local.order(cmd.Terminate(1, 1, force=True))
    assert apart.wait() in (-signal.SIGTERM, -signal.SIGKILL)
    assert local.until(ev.AttemptExited, 1).exit == Exit(code=0)


def test_while_a_grant_can_not_be_taken_back_nothing_is_said_of_its_end(
    local: LocalBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = offered(local, "sleep", "600")

    def full(*paths: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("stoker.executors.acceptances.os.link", full)
        local.order(cmd.Terminate(1, 1, force=False))
        assert local.observe() == []
        assert local.executor.next_wakeup_ms() is not None
        local.order(cmd.Terminate(1, 1, force=True))
        assert local.observe() == []
    assert sorted(path.name for path in directory.iterdir()) == []
    local.until(ev.AttemptNotStarted, 1)
    assert (directory / "pid").read_text() == "void\n"


def test_what_could_not_be_taken_back_yet_is_not_granted_again_and_ends_by_the_first_order(
    local: LocalBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    offered(local, "sleep", "600")

    def full(*paths: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("stoker.executors.acceptances.os.link", full)
        local.order(cmd.Terminate(1, 1, force=False))
        local.executor.attached_failed((1, 1), "its terminal was gone", Cause.TERMINAL_GONE)
        local.order(cmd.StartAttached(1, 1, ("0",), grace_ms=300))
    assert len(local.grants) == 1
    assert local.until(ev.AttemptNotStarted, 1).why == "stopped before it started"


def test_a_job_that_its_client_could_not_start_says_why_though_the_client_is_gone(
    local: LocalBench,
) -> None:
    directory = offered(local, "sleep", "600")
    (directory / "pid").write_text("failed can't run x: no such thing\n")
    local.executor.attached_failed((1, 1), "its terminal was gone", Cause.TERMINAL_GONE)
    assert local.until(ev.AttemptNotStarted, 1).why == "can't run x: no such thing"


def test_a_job_that_was_seen_to_begin_and_could_not_says_why(
    local: LocalBench, at_the_gate: ProcessId
) -> None:
    directory = offered(local, "sleep", "600")
    accepts(directory, at_the_gate)
    assert local.executor.attached_started((1, 1), at_the_gate.pid)
    write_whole(f"{directory}/pid", b"failed can't run x: no such thing\n")
    os.kill(at_the_gate.pid, signal.SIGKILL)
    os.waitpid(at_the_gate.pid, 0)
    assert local.until(ev.AttemptNotStarted, 1).why == "can't run x: no such thing"


def test_an_acceptance_that_was_not_reported_is_found_when_its_client_is_gone(
    local: LocalBench, at_the_gate: ProcessId
) -> None:
    accepts(offered(local, "sleep", "600"), at_the_gate)
    local.executor.attached_failed((1, 1), "its terminal was gone", Cause.TERMINAL_GONE)
    assert local.until(ev.AttemptStarted, 1).pid == at_the_gate.pid
    assert not any(isinstance(fact, ev.AttemptNotStarted) for fact in local.observe())


def test_after_a_restart_what_was_not_accepted_is_taken_back_and_queued_again(
    local: LocalBench,
) -> None:
    directory = offered(local, "sleep", "600")
    local.started_again(active_job(1, started=False, attached=True))
    [evicted] = local.observe()
    assert isinstance(evicted, ev.AttemptEvicted) and evicted.cause is Cause.REQUEUED
    with pytest.raises(FileExistsError):
        accepts(directory, ProcessId(1, 1))
    local.order(cmd.StartAttached(1, 1, ("0",), grace_ms=300))
    assert len(local.grants) == 1, "what is void is not granted again"


def test_after_a_restart_what_was_accepted_is_watched(
    local: LocalBench, at_the_gate: ProcessId
) -> None:
    accepts(offered(local, "sleep", "600"), at_the_gate)
    local.started_again(active_job(1, started=False, attached=True))
    assert local.until(ev.AttemptStarted, 1).pid == at_the_gate.pid


def test_an_attached_job_that_was_over_before_its_client_was_heard_has_its_exit_code(
    local: LocalBench,
) -> None:
    directory = offered(local, "sh", "-c", "exit 5")
    ended = ProcessId(2**22 - 5, 1)
    accepts(directory, ended)
    write_exit(str(directory), Exit(code=5))
    assert local.executor.attached_started((1, 1), ended.pid)
    local.until(ev.AttemptStarted, 1)
    assert local.until(ev.AttemptExited, 1).exit == Exit(code=5)


def test_a_client_that_names_a_process_it_never_put_down_is_not_believed(
    local: LocalBench,
) -> None:
    offered(local, "true")
    assert not local.executor.attached_started((1, 1), os.getpid())


@pytest.mark.parametrize("prepared", [True, False])
def test_an_acceptance_that_comes_first_wins_however_close_the_two_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prepared: bool
) -> None:
    directory = tmp_path / "attempts" / "1-1"
    directory.mkdir(parents=True)
    if prepared:
        Path(prepared_void(str(directory))).write_text("void\n")
    mine = Accepted(ProcessId(7, 8), own_namespace(), session=os.getsid(0))

    def too_late(path: str) -> bool:
        accepts(directory, mine.process)  # Between the look and the making of the name.
        return make_attempt_dir(path)

    monkeypatch.setattr("stoker.executors.acceptances.make_attempt_dir", too_late)
    assert void(str(directory)) == mine
    assert sorted(path.name for path in directory.iterdir()) == ["mine", "pid"]


def test_an_acceptance_of_an_earlier_boot_is_of_a_process_that_is_gone(
    local: LocalBench, at_the_gate: ProcessId
) -> None:
    directory = offered(local, "sleep", "600")
    words = f"{at_the_gate.pid} {at_the_gate.start_time} {own_namespace()} another-boot 1\n"
    (directory / "pid").write_text(words)
    local.started_again(active_job(1, started=False, attached=True))
    [fact] = local.observe()
    assert isinstance(fact, ev.AttemptVanished) and fact.why == "it ran when the machine went down"


def test_a_pid_of_another_namespace_is_not_looked_up_in_ours(at_the_gate: ProcessId) -> None:
    assert located(Accepted(at_the_gate, own_namespace())) == at_the_gate
    assert located(Accepted(at_the_gate, own_namespace() + 1)) is None


def test_a_process_of_another_namespace_is_known_by_its_pid_there_and_its_start(
    at_the_gate: ProcessId, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = own_namespace()
    monkeypatch.setattr("stoker.executors.namespaces.own_namespace", lambda: theirs + 1)
    assert located(Accepted(at_the_gate, theirs)) == at_the_gate
    later = ProcessId(at_the_gate.pid, at_the_gate.start_time + 1)
    assert located(Accepted(later, theirs)) is None


def test_what_is_out_of_sight_and_ends_while_it_is_looked_at_has_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[Key, Exit | None]] = []
    unseen = UnseenAttempts(lambda key: str(tmp_path), lambda *end: told.append(end))

    def ends_now(lock: str) -> bool:
        write_exit(str(tmp_path), Exit(code=5))
        return False

    monkeypatch.setattr("stoker.executors.unseen.is_locked", ends_now)
    unseen.watch((1, 1), now_ms=0)
    unseen.look(now_ms=0)
    assert told == [((1, 1), Exit(code=5))]


def test_a_signal_that_a_client_could_not_be_asked_for_is_asked_for_again(tmp_path: Path) -> None:
    directory = tmp_path / "attempt"
    unseen = UnseenAttempts(lambda key: str(directory), lambda key, how: None)
    unseen.watch((1, 1), now_ms=0)
    unseen.stop((1, 1), force=False)  # It can't be written: there is no such directory.
    directory.mkdir()
    unseen.stop((1, 1), force=False)
    assert (directory / "stop").read_text() == f"{signal.SIGTERM}\n"


@pytest.mark.parametrize("text", ["", "12", "12 x 3 b\n", "vo", "void", "12 34 5\n", "\xff\n"])
def test_an_acceptance_that_can_not_be_read_is_no_reason_to_start_another(
    local: LocalBench, text: str
) -> None:
    directory = offered(local, "sleep", "600")
    (directory / "pid").write_bytes(text.encode("latin-1"))
    local.order(cmd.Terminate(1, 1, force=False))
    local.until(ev.AttemptVanished, 1)


def test_a_grant_that_its_client_could_not_take_for_want_of_room_is_put_back_without_a_file(
    local: LocalBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    offered(local, "true")
    monkeypatch.setattr(acceptances_on_disk, "void", no_room)
    local.executor.attached_failed((1, 1), "can't write", Cause.NOT_STARTED, errno.ENOSPC)
    [fact] = local.observe()
    assert isinstance(fact, ev.AttemptPutBack) and fact.spent


def no_room(directory: str) -> Accepted:
    raise OSError(errno.ENOSPC, "no space left on device")


def test_a_grant_is_void_on_a_disk_that_takes_no_data(
    local: LocalBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = offered(local, "true")

    def full(path: str, data: bytes, mode: int = 0o600, *, flush: bool = False) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(acceptances_on_disk, "write_whole", full)
    local.order(cmd.Terminate(1, 1, force=False))
    [fact] = local.observe()
    assert isinstance(fact, ev.AttemptNotStarted)
    assert (directory / "pid").read_text() == "void\n"
