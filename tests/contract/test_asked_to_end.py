"""Who is asked to end when a job is stopped: its session first, the rest when that has gone."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from contract.executor_benches import LocalBench, active_job, start
from contract.test_shortage import no_files
from stoker.core import commands as cmd
from stoker.core import events as ev
from stoker.core.model import Exit
from stoker_home import is_running, pid_in
from waiting import eventually

GRACE_MS = 300  # of every job that `start` gives


def apart(pid_file: Path, then: str = "exec sleep 600") -> str:
    """A helper in a session of its own, for a shell."""
    return f"""setsid sh -c 'echo $$ > {pid_file}; {then}' &"""


def asked(local: LocalBench, job_id: int = 1) -> set[int]:
    """The pids of those that got their SIGTERM."""
    running = local.executor._attempts.running.get((job_id, 1))
    return set() if running is None else {process.pid for process in running.asked}


def until_main_is_gone(local: LocalBench, pid: int) -> None:
    eventually(lambda: local.observe() is not None and not os.path.exists(f"/proc/{pid}"), "reaped")


def test_a_helper_is_asked_to_end_before_a_short_grace_time_is_over(
    local: LocalBench, tmp_path: Path
) -> None:
    told, pid_file = tmp_path / "told", tmp_path / "pid"
    helper = f'trap "echo asked > {told}; exit 0" TERM; while :; do sleep 0.02; done'
    local.runs(1, "sh", "-c", f"{apart(pid_file, helper)} exec sleep 600")
    local.order(start(1))
    main, pid = local.until(ev.AttemptStarted, 1).pid, pid_in(pid_file)
    assert main is not None
    stopped_at_ms = local.now_ms
    local.order(cmd.Terminate(1, 1, force=False))
    assert asked(local) == {main}
    gone = f"/proc/{main}"
    eventually(
        lambda: local.executor.observe(stopped_at_ms) is not None and not os.path.exists(gone)
    )
    # The clock stands still until here, so that the helper's moment begins now.
    local.executor.observe(stopped_at_ms)
    assert pid not in asked(local), "it has a moment to clean up by itself"
    local.executor.observe(stopped_at_ms + GRACE_MS // 2 + 30)
    local.now_ms = stopped_at_ms + GRACE_MS // 2 + 30
    eventually(told.exists, "it is asked before it would be killed")
    assert local.until(ev.AttemptExited, 1).exit == Exit(signal=15)


@pytest.mark.parametrize("grace_ms", [0, GRACE_MS])
def test_leftovers_of_a_job_that_ended_by_itself_are_asked_before_they_are_killed(
    local: LocalBench, tmp_path: Path, grace_ms: int
) -> None:
    ready, told = tmp_path / "ready", tmp_path / "told"
    child = f'trap "echo asked > {told}; exit 0" TERM; touch {ready}; while :; do sleep 0.02; done'
    local.runs(1, "sh", "-c", f"sh -c '{child}' & while ! [ -e {ready} ]; do :; done; exit 5")
    local.order(cmd.Start(1, 1, ("0",), grace_ms=grace_ms))
    now_ms = local.now_ms  # The clock stands still, so that none is killed yet.
    eventually(lambda: local.executor.observe(now_ms) is not None and told.exists(), "it is asked")
    assert local.until(ev.AttemptExited, 1).exit == Exit(code=5)


def test_nothing_is_due_any_more_once_a_stopped_job_is_over(
    local: LocalBench, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    local.runs(1, "sh", "-c", f"{apart(pid_file)} exec sleep 600")
    local.order(start(1))
    pid_in(pid_file)
    local.order(cmd.Terminate(1, 1, force=False))
    assert local.executor._stopping.rest_ms, "the helper is to be asked later"
    local.order(cmd.Terminate(1, 1, force=True))
    local.until(ev.AttemptExited, 1)
    local.executor.acknowledged(local.observe())
    local.observe()
    assert local.executor.next_wakeup_ms() is None


def test_a_helper_is_given_its_moment_though_the_main_process_has_gone(
    local: LocalBench, tmp_path: Path
) -> None:
    near_file, far_file = tmp_path / "near", tmp_path / "far"
    near = f'trap "" TERM; echo $$ > {near_file}; while :; do sleep 0.02; done'
    go = tmp_path / "go"
    wait = f"while ! [ -e {go} ]; do sleep 0.02; done"
    local.runs(1, "sh", "-c", f"{apart(far_file)} sh -c '{near}' & {wait}; exit 0")
    local.order(cmd.Start(1, 1, ("0",), grace_ms=100_000))
    main = local.until(ev.AttemptStarted, 1).pid
    assert main is not None
    far, left = pid_in(far_file), pid_in(near_file)
    go.touch()
    until_main_is_gone(local, main)
    assert left in asked(local) and far not in asked(local)
    local.order(cmd.Terminate(1, 1, force=False))
    assert far not in asked(local), "it may have work to do when the others have gone"
    local.observe()
    assert far not in asked(local)
    os.kill(left, signal.SIGKILL)
    local.now_ms += 2_000
    local.observe()
    local.now_ms += 2_000
    eventually(lambda: local.observe() is not None and far in asked(local), "then it is asked too")
    local.order(cmd.Terminate(1, 1, force=True))
    assert local.until(ev.AttemptExited, 1).exit == Exit(code=0)


def behind_a_shell(local: LocalBench, tmp_path: Path, grace_ms: int) -> tuple[int, int, int]:
    """A shell that ends at once, its program that does not, and a helper of that: their pids."""
    near_file, far_file = tmp_path / "near", tmp_path / "far"
    near = f'trap "" TERM; echo $$ > {near_file}; while :; do sleep 0.02; done'
    local.runs(1, "sh", "-c", f"{apart(far_file)} sh -c '{near}'; true")
    local.order(cmd.Start(1, 1, ("0",), grace_ms=grace_ms))
    shell = local.until(ev.AttemptStarted, 1).pid
    assert shell is not None
    return shell, pid_in(near_file), pid_in(far_file)


def test_a_helper_is_left_alone_while_a_program_of_the_shell_that_ended_saves_its_work(
    local: LocalBench, tmp_path: Path
) -> None:
    shell, near, far = behind_a_shell(local, tmp_path, grace_ms=100_000)
    stopped_at_ms = local.now_ms
    local.order(cmd.Terminate(1, 1, force=False))
    until_main_is_gone(local, shell)
    for local.now_ms in range(stopped_at_ms, stopped_at_ms + 40_000, 900):
        local.observe()
        assert near in asked(local) and far not in asked(local)
    os.kill(near, signal.SIGKILL)
    eventually(lambda: not is_running(near))
    local.now_ms += 100
    local.observe()
    assert far not in asked(local), "its moment begins now"
    local.now_ms += 1_100
    local.observe()
    assert far in asked(local)
    assert local.until(ev.AttemptExited, 1).exit == Exit(signal=15)


def test_a_helper_is_asked_after_half_of_the_grace_time_if_a_program_of_the_shell_goes_on(
    local: LocalBench, tmp_path: Path
) -> None:
    shell, near, far = behind_a_shell(local, tmp_path, grace_ms=100_000)
    stopped_at_ms = local.now_ms
    local.order(cmd.Terminate(1, 1, force=False))
    until_main_is_gone(local, shell)
    local.now_ms = stopped_at_ms + 49_000
    local.observe()
    assert far not in asked(local)
    local.now_ms = stopped_at_ms + 50_000
    with no_files():
        local.observe()
        assert local.executor.next_wakeup_ms() is not None
    local.now_ms += 1_000
    local.observe()
    assert far in asked(local)
    local.order(cmd.Terminate(1, 1, force=True))
    assert local.until(ev.AttemptExited, 1).exit == Exit(signal=15)
    assert not is_running(near)


def test_a_new_executor_gives_a_helper_its_moment_after_its_program(
    local: LocalBench, tmp_path: Path
) -> None:
    shell, near, far = behind_a_shell(local, tmp_path, grace_ms=100_000)
    local.order(cmd.Terminate(1, 1, force=False))
    until_main_is_gone(local, shell)
    local.started_again(active_job(1, started=True, stopping=True, grace_ms=100_000))
    local.observe()  # Before the order comes again.
    local.order(cmd.Terminate(1, 1, force=False))
    for _ in range(5):
        local.now_ms += 900
        local.observe()
        assert near in asked(local) and far not in asked(local)
    os.kill(near, signal.SIGKILL)
    eventually(lambda: not is_running(near))
    local.now_ms += 100
    local.observe()
    assert far not in asked(local), "its moment begins now"
    local.order(cmd.Terminate(1, 1, force=True))
    local.until(ev.AttemptExited, 1)
    assert not is_running(far)


def test_the_executor_wakes_to_ask_the_rest_while_the_main_process_goes_on(
    local: LocalBench, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    local.runs(1, "sh", "-c", f"trap : TERM; {apart(pid_file)} while :; do sleep 0.02; done")
    local.order(cmd.Start(1, 1, ("0",), grace_ms=10_000))
    pid = pid_in(pid_file)
    local.until(ev.AttemptStarted, 1)
    local.executor.acknowledged(local.observe())
    stopped_at_ms = local.now_ms
    local.order(cmd.Terminate(1, 1, force=False))
    moments_ms = []
    while (wakeup_ms := local.executor.next_wakeup_ms()) is not None and pid not in asked(local):
        assert wakeup_ms not in moments_ms, "it would be woken for ever"
        moments_ms.append(wakeup_ms)
        local.executor.observe(wakeup_ms)
    assert pid in asked(local) and moments_ms[-1] == stopped_at_ms + 5_000
    local.order(cmd.Terminate(1, 1, force=True))
    local.until(ev.AttemptExited, 1)


def test_the_executor_wakes_to_ask_the_rest_once_the_main_process_has_gone(
    local: LocalBench, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    local.runs(1, "sh", "-c", f"{apart(pid_file)} exec sleep 600")
    local.order(cmd.Start(1, 1, ("0",), grace_ms=10_000))
    main, pid = local.until(ev.AttemptStarted, 1).pid, pid_in(pid_file)
    assert main is not None
    local.executor.acknowledged(local.observe())
    local.order(cmd.Terminate(1, 1, force=False))
    now_ms = local.now_ms
    # A zombie is yet to be reaped: its end is news, for which nothing has to wake the executor.
    gone = f"/proc/{main}"
    eventually(lambda: local.executor.observe(now_ms) is not None and not os.path.exists(gone))
    while pid not in asked(local):
        wakeup_ms = local.executor.next_wakeup_ms()
        assert wakeup_ms is not None and now_ms < wakeup_ms < now_ms + 1_000
        now_ms = wakeup_ms
        local.executor.observe(now_ms)
    local.now_ms = now_ms
    assert local.until(ev.AttemptExited, 1).exit == Exit(signal=15)


def test_a_new_executor_knows_the_session_of_a_main_process_that_has_gone(
    local: LocalBench, tmp_path: Path
) -> None:
    near_file, far_file, go = (tmp_path / name for name in ("near", "far", "go"))
    near = f'trap "" TERM; echo $$ > {near_file}; while :; do sleep 0.02; done'
    wait = f"while ! [ -e {go} ]; do sleep 0.02; done"
    local.runs(1, "sh", "-c", f"{apart(far_file)} sh -c '{near}' & {wait}; exit 0")
    local.order(cmd.Start(1, 1, ("0",), grace_ms=100_000))
    main = local.until(ev.AttemptStarted, 1).pid
    assert main is not None
    far, left = pid_in(far_file), pid_in(near_file)
    go.touch()
    until_main_is_gone(local, main)
    local.started_again(active_job(1, started=True, grace_ms=100_000))
    local.order(cmd.Terminate(1, 1, force=False))
    assert left in asked(local) and far not in asked(local)
    local.order(cmd.Terminate(1, 1, force=True))
    local.until(ev.AttemptExited, 1)


# The loader has no handler any more, and what it forks has one again: `exec` does this, too.
FORKS_THROUGH_A_LOADER = """
import os, signal, sys
def save(number, frame): print("saved", flush=True)
signal.signal(signal.SIGUSR1, save)
if os.fork() == 0:
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    if os.fork() == 0:
        signal.signal(signal.SIGUSR1, save)
        print("grandchild", flush=True)
    while True: signal.pause()
print("ready", flush=True)
signal.pause()
sys.exit(42)
"""


def test_the_signal_before_the_limit_spares_grandchildren_too(
    local: LocalBench, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(FORKS_THROUGH_A_LOADER)
    local.runs(1, sys.executable, str(script))
    local.order(start(1))
    eventually(lambda: "grandchild" in local.log(1) and "ready" in local.log(1))
    local.order(cmd.Warn(1, 1, signal=signal.SIGUSR1))
    assert local.until(ev.AttemptExited, 1).exit == Exit(code=42)
    assert local.log(1).count("saved") == 1


# ---------------------------------------------------------------------- the making of a process


def descriptors() -> dict[str, str]:
    """What this process has open."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[name] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            pass  # The listing itself.
    return found


@pytest.mark.parametrize(
    "files",
    [
        {"cwd": "gone"},
        {"out": "gone/o"},
        {"err": "gone/e"},
        {"out": "o", "err": "gone/e"},
        {"out": "o", "err": "."},
        {"out": "o", "err": "pipe"},
    ],
)
def test_a_start_that_fails_leaves_no_descriptor_umask_or_directory_behind(
    local: LocalBench, tmp_path: Path, files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    os.mkfifo(tmp_path / "pipe")
    paths = {option: str(tmp_path / name) for option, name in files.items()}
    local.runs(1, "true", umask=0o027, **paths)
    before, umask = descriptors(), os.umask(0o022)
    os.umask(umask)
    local.order(start(1))
    local.until(ev.AttemptNotStarted, 1)
    assert descriptors() == before
    assert os.getcwd() == "/", "the executor itself keeps no directory busy"
    assert os.umask(umask) == umask


@pytest.mark.parametrize("option", ["out", "err"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_named_file_is_emptied_by_the_first_attempt_only_and_only_if_the_job_says_so(
    local: LocalBench, tmp_path: Path, option: str, overwrite: bool
) -> None:
    path = tmp_path / "file"
    path.write_text("old\n")
    options = {"overwrite": True} if overwrite else {}
    speak = "echo $STOKER_ATTEMPT; echo $STOKER_ATTEMPT >&2"
    local.runs(1, "sh", "-c", speak, options=options, **{option: str(path)})
    for attempt in (1, 2):
        local.order(start(1, attempt))
        assert local.until(ev.AttemptExited, 1).attempt == attempt
        local.executor.acknowledged(local.observe())
    of_each = (
        2 if option == "out" else 1
    )  # Errors go where the output goes, if nothing else is said.
    expected = "".join(f"{attempt}\n" * of_each for attempt in (1, 2))
    assert path.read_text() == ("" if overwrite else "old\n") + expected
