"""What a job on this machine sees, and what becomes of all of its processes."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from contract.executor_benches import EXITS_7, LocalBench, start
from stoker.core import commands as cmd
from stoker.core import events as ev
from stoker.core.model import Exit
from stoker_home import all_gone, is_running, pid_in
from waiting import eventually

# Prints what it was given as one line of JSON.
SHOWS_ITSELF = (
    "import json, os, sys; print(json.dumps({'argv': sys.argv[1:], 'cwd': os.getcwd(), "
    "'env': dict(os.environ), 'sid': os.getsid(0), 'pid': os.getpid(), "
    "'fds': sorted(os.listdir('/proc/self/fd'))}))"
)


def shown(local: LocalBench, job_id: int, **fields: object) -> dict[str, object]:
    local.runs(job_id, sys.executable, "-c", SHOWS_ITSELF, "one", "two words", **fields)
    local.order(start(job_id, gpus=("0", "GPU-abc")))
    assert local.until(ev.AttemptExited, job_id).exit == Exit(code=0), local.log(job_id)
    found: dict[str, object] = json.loads(local.log(job_id))
    return found


def test_a_job_has_its_own_environment_and_its_gpus(local: LocalBench) -> None:
    env = {"PATH": os.environ["PATH"], "MINE": "ä ö\n", "CUDA_VISIBLE_DEVICES": "9"}
    seen = shown(local, 5, env=env, extra_env={"EXTRA": "1", "MINE": "changed"})["env"]
    assert isinstance(seen, dict)
    assert seen["EXTRA"] == "1" and seen["MINE"] == "changed"
    assert seen["CUDA_VISIBLE_DEVICES"] == "0,GPU-abc"
    assert seen["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert (seen["STOKER_JOB_ID"], seen["STOKER_ATTEMPT"]) == ("5", "1")
    assert seen["STOKER_GPUS"] == "0,GPU-abc"
    assert "STOKER_HOME" not in seen, "nothing of the executor's own environment is handed on"


def test_a_job_runs_in_its_directory_and_leads_a_session_of_its_own(
    local: LocalBench, tmp_path: Path
) -> None:
    there = tmp_path / "wörk dir"
    there.mkdir()
    seen = shown(local, 1, cwd=str(there))
    assert seen["cwd"] == str(there) and seen["argv"] == ["one", "two words"]
    assert seen["sid"] == seen["pid"]
    assert os.getcwd() == "/", "the executor itself keeps no directory busy"


def test_a_job_inherits_no_descriptor_of_the_daemon(local: LocalBench) -> None:
    assert shown(local, 1)["fds"] == ["0", "1", "2", "3"]  # 3 is the listing itself


def test_a_job_has_no_input_and_one_private_log(local: LocalBench) -> None:
    local.runs(1, "sh", "-c", "cat; echo out; echo err >&2")
    local.order(start(1))
    assert local.until(ev.AttemptExited, 1).exit.ok
    assert local.log(1) == "out\nerr\n"
    folder = local.directory(1).parent
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [file.name for file in folder.iterdir()] == ["1.1.log"]
    assert (folder / "1.1.log").stat().st_mode & 0o777 == 0o600


def test_output_and_errors_go_to_the_files_that_were_named(
    local: LocalBench, tmp_path: Path
) -> None:
    out, err = tmp_path / "o.txt", tmp_path / "e.txt"
    out.write_text("from an earlier job\n")
    files = {"out": str(out), "err": str(err)}
    local.runs(1, "sh", "-c", "echo out; echo err >&2", **files, options={"overwrite": True})
    local.order(start(1))
    local.until(ev.AttemptExited, 1)
    assert (out.read_text(), err.read_text()) == ("out\n", "err\n")


def test_what_is_in_the_files_stays_unless_a_job_says_otherwise(
    local: LocalBench, tmp_path: Path
) -> None:
    out = tmp_path / "o.txt"
    out.write_text("from another job\n")
    local.runs(1, "echo", "out", out=str(out))
    local.order(start(1))
    local.until(ev.AttemptExited, 1)
    assert out.read_text() == "from another job\nout\n"


def test_with_only_a_file_for_errors_the_log_has_the_rest(
    local: LocalBench, tmp_path: Path
) -> None:
    err = tmp_path / "e.txt"
    local.runs(1, "sh", "-c", "echo out; echo err >&2", err=str(err))
    local.order(start(1))
    local.until(ev.AttemptExited, 1)
    assert (local.log(1), err.read_text()) == ("out\n", "err\n")


def test_a_later_attempt_goes_on_in_the_files_of_the_first(
    local: LocalBench, tmp_path: Path
) -> None:
    out = tmp_path / "o.txt"
    local.runs(1, "sh", "-c", "echo $STOKER_ATTEMPT", out=str(out))
    for attempt in (1, 2):
        local.order(start(1, attempt))
        fact = local.until(ev.AttemptExited, 1)
        local.executor.acknowledged(local.observe())
        assert fact.attempt == attempt
    assert out.read_text() == "1\n2\n"


def test_a_string_is_run_by_the_users_shell(local: LocalBench) -> None:
    local.runs(1, argv=(), shell="echo $0; x=3; exit $x", env={"SHELL": "/bin/bash"})
    local.order(start(1))
    assert local.until(ev.AttemptExited, 1).exit == Exit(code=3)
    assert local.log(1) == "/bin/bash\n"


@pytest.mark.parametrize("shell", ["/bin", "/no/such/shell", "bash", "/etc/passwd"])
def test_a_shell_that_is_no_program_is_not_taken(local: LocalBench, shell: str) -> None:
    local.runs(1, argv=(), shell="echo ran", env={"SHELL": shell})
    local.order(start(1))
    assert local.until(ev.AttemptExited, 1).exit == Exit(code=0)
    assert local.log(1) == "ran\n"


@pytest.mark.parametrize("shell", [None, "echo"])
def test_the_ids_of_its_gpus_are_appended_where_that_was_asked_for(
    local: LocalBench, shell: str | None
) -> None:
    argv = ("echo",) if shell is None else ()
    local.runs(1, argv=argv, shell=shell, gpu_arg=True)
    local.order(start(1, gpus=("0", "3")))
    local.until(ev.AttemptExited, 1)
    assert local.log(1) == "--gpu 0 3\n"


@pytest.mark.parametrize("shell", [None, "echo alone"])
def test_nothing_is_appended_where_a_job_has_no_gpu(local: LocalBench, shell: str | None) -> None:
    argv = ("echo", "alone") if shell is None else ()
    local.runs(1, argv=argv, shell=shell, gpu_arg=True)
    local.order(start(1, gpus=()))
    local.until(ev.AttemptExited, 1)
    assert local.log(1) == "alone\n"


def test_gpus_with_long_ids_are_appended_by_the_numbers_that_people_know(
    local: LocalBench,
) -> None:
    local.runs(1, "echo", gpu_arg=True)
    local.order(cmd.Start(1, 1, ("GPU-a", "GPU-b"), grace_ms=300, labels=("0", "3")))
    local.until(ev.AttemptExited, 1)
    assert local.log(1) == "--gpu 0 3\n"


def test_a_script_without_a_first_line_is_run_by_sh(local: LocalBench, tmp_path: Path) -> None:
    script = tmp_path / "plain"
    script.write_text("exit 4\n")
    script.chmod(0o755)
    local.runs(1, str(script))
    local.order(start(1))
    assert local.until(ev.AttemptExited, 1).exit == Exit(code=4)


def test_a_program_that_was_run_before_is_looked_at_anew_when_it_has_changed(
    local: LocalBench, tmp_path: Path
) -> None:
    script = tmp_path / "train"
    for job_id, text in enumerate(["#!/bin/sh\nexit 3\n", "exit 4\n", "#!/no/such/shell\n"], 1):
        script.write_text(text)
        script.chmod(0o755)
        local.runs(job_id, str(script))
        local.order(start(job_id))
        if job_id < 3:
            assert local.until(ev.AttemptExited, job_id).exit == Exit(code=2 + job_id)
    assert "No such file" in local.until(ev.AttemptNotStarted, 3).why


def test_where_the_kernel_refuses_the_quick_way_the_other_is_taken(
    quick: LocalBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def refused(*order: object) -> None:
        tried.append(order)
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("stoker.executors._quickspawn.spawn", refused)
    for job_id in (1, 2):
        quick.has(job_id, EXITS_7)
        quick.order(start(job_id))
        assert quick.until(ev.AttemptExited, job_id).exit == Exit(code=7)
    assert len(tried) == 1


def test_what_can_not_be_loaded_has_neither_started_nor_exited(
    quick: LocalBench, tmp_path: Path
) -> None:
    interpreter, script = tmp_path / "interpreter", tmp_path / "train"
    shutil.copy("/bin/sh", interpreter)
    script.write_text(f"#!{interpreter}\nexit 3\n")
    script.chmod(0o755)
    for job_id in (1, 2):
        quick.runs(job_id, str(script))
    quick.order(start(1))
    assert quick.until(ev.AttemptExited, 1).exit == Exit(code=3)
    interpreter.unlink()  # The script itself is as it was when it could be run.
    quick.order(start(2))
    assert quick.until(ev.AttemptNotStarted, 2).why == f"{script}: No such file or directory"
    assert [type(fact) for fact in quick.observe() if fact.job_id == 2] == [ev.AttemptNotStarted]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"argv": ("no-such-program",)}, "no-such-program: command not found"),
        ({"argv": ("/etc/passwd",)}, "/etc/passwd: Permission denied"),
        ({"argv": ("true",), "cwd": "/no/such/dir"}, "/no/such/dir: No such file or directory"),
        ({"argv": ("true",), "out": "/no/dir/x"}, "/no/dir/x: No such file or directory"),
        ({"argv": ("true", "x" * 200_000)}, "true: Argument list too long"),
        ({"argv": ("true", "a\0b")}, "embedded null byte"),
        ({"argv": ("true",), "out": "/tmp/a\udc00\ud800"}, "surrogates not allowed"),
    ],
)
def test_what_can_not_be_started_says_why_and_the_next_job_starts(
    local: LocalBench, fields: dict[str, object], why: str
) -> None:
    local.runs(1, **fields)
    local.runs(2, "true")
    local.order(start(1), start(2, gpus=("1",)))
    assert why in local.until(ev.AttemptNotStarted, 1).why
    assert local.until(ev.AttemptExited, 2).exit.ok


def test_a_user_whom_the_password_file_does_not_know_has_a_shell_all_the_same(
    local: LocalBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 3_999_999_999)
    local.runs(1, argv=(), shell="exit 6", env={"PATH": os.environ["PATH"]})
    local.order(start(1))
    assert local.until(ev.AttemptExited, 1).exit == Exit(code=6)


# ---------------------------------------------------------------------- the whole tree


def test_what_is_left_in_a_jobs_session_is_ended_with_it(local: LocalBench, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    local.runs(1, "sh", "-c", f"sleep 600 & echo $! > {pid_file}; exit 5")
    local.order(start(1))
    assert local.until(ev.AttemptExited, 1).exit == Exit(code=5)
    assert not is_running(pid_in(pid_file))


def test_a_leftover_that_ignores_the_request_is_killed_after_the_grace_time(
    local: LocalBench, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    child = f'trap "" TERM; echo $$ > {pid_file}; while :; do sleep 0.05; done'
    local.runs(1, "sh", "-c", f"sh -c '{child}' & while ! [ -s {pid_file} ]; do :; done; exit 5")
    local.order(start(1))
    assert local.until(ev.AttemptExited, 1).exit == Exit(code=5)
    assert not is_running(pid_in(pid_file))


def test_a_process_that_took_its_own_session_stays_after_a_normal_end(
    local: LocalBench, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    local.runs(
        1, "sh", "-c",
        f"setsid sh -c 'echo $$ > {pid_file}; exec sleep 600' & "
        f"while ! [ -s {pid_file} ]; do :; done",
    )  # fmt: skip
    local.order(start(1))
    assert local.until(ev.AttemptExited, 1).exit.ok
    assert is_running(pid_in(pid_file)), "it was meant to stay"


def test_a_process_that_took_its_own_session_is_stopped_when_the_job_is(
    local: LocalBench, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    local.runs(
        1, "sh", "-c",
        f"setsid sh -c 'echo $$ > {pid_file}; exec sleep 600' & exec sleep 600",
    )  # fmt: skip
    local.order(start(1))
    detached = pid_in(pid_file)
    local.order(cmd.Terminate(1, 1, force=False))
    assert local.until(ev.AttemptExited, 1).exit == Exit(signal=15)
    assert not is_running(detached)


def test_an_attempt_is_over_only_when_its_last_process_is_gone(
    local: LocalBench, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    child = f'trap "" TERM; echo $$ > {pid_file}; while :; do sleep 0.05; done'
    local.runs(1, "sh", "-c", f"setsid sh -c '{child}' & exec sleep 600")
    local.order(start(1))
    stubborn = pid_in(pid_file)
    main = local.until(ev.AttemptStarted, 1).pid
    assert main is not None
    local.order(cmd.Terminate(1, 1, force=False))
    eventually(lambda: local.observe() and not os.path.exists(f"/proc/{main}"), "main was reaped")
    assert not any(isinstance(fact, ev.AttemptExited) for fact in local.observe())
    assert is_running(stubborn)
    local.order(cmd.Terminate(1, 1, force=True))
    assert local.until(ev.AttemptExited, 1).exit == Exit(signal=15)
    assert not is_running(stubborn)


def test_a_stopped_process_heeds_the_request_to_end(local: LocalBench) -> None:
    local.runs(1, "sleep", "600")
    local.order(start(1))
    pid = local.until(ev.AttemptStarted, 1).pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    local.order(cmd.Terminate(1, 1, force=False))
    assert local.until(ev.AttemptExited, 1).exit == Exit(signal=15)


def test_each_process_is_asked_to_end_once(local: LocalBench) -> None:
    counts = "trap 'echo asked' TERM; echo ready; while :; do sleep 0.02; done"
    local.runs(1, "sh", "-c", counts)
    local.order(start(1))
    eventually(lambda: "ready" in local.log(1))
    for _ in range(5):
        local.order(cmd.Terminate(1, 1, force=False))
    eventually(lambda: "asked" in local.log(1))
    local.order(cmd.Terminate(1, 1, force=True))
    local.until(ev.AttemptExited, 1)
    assert local.log(1).count("asked") == 1


def test_the_signal_before_the_limit_reaches_the_job(local: LocalBench) -> None:
    local.runs(1, "sh", "-c", "trap 'exit 42' USR1; echo ready; while :; do sleep 0.02; done")
    local.order(start(1))
    eventually(lambda: "ready" in local.log(1))
    local.order(cmd.Warn(1, 1, signal=signal.SIGUSR1))
    assert local.until(ev.AttemptExited, 1).exit == Exit(code=42)


# A training script whose data loaders are forked from it, and inherit its handler.
FORKS_LOADERS = """
import os, signal, sys
signal.signal(signal.SIGUSR1, lambda number, frame: print("saved", os.getpid(), flush=True))
for _ in range(3):
    if os.fork() == 0:
        print("loader", flush=True)
        while True: signal.pause()
print("ready", flush=True)
signal.pause()
sys.exit(42)
"""


@pytest.mark.parametrize("wrapper", ["", "true; "])
def test_the_signal_before_the_limit_spares_those_that_inherited_the_handler(
    local: LocalBench, tmp_path: Path, wrapper: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(FORKS_LOADERS)
    local.runs(1, "sh", "-c", f"{wrapper}{sys.executable} {script}; exit $?")
    local.order(start(1))
    eventually(lambda: local.log(1).count("loader") == 3 and "ready" in local.log(1))
    local.order(cmd.Warn(1, 1, signal=signal.SIGUSR1))
    assert local.until(ev.AttemptExited, 1).exit == Exit(code=42)
    assert local.log(1).count("saved") == 1


def test_the_signal_before_the_limit_reaches_each_of_several_trainings(local: LocalBench) -> None:
    each = "trap 'echo saved; exit 0' USR1; echo ready; while :; do sleep 0.02; done"
    local.runs(1, "sh", "-c", f'sh -c "{each}" & sh -c "{each}" & wait')
    local.order(start(1))
    eventually(lambda: local.log(1).count("ready") == 2)
    local.order(cmd.Warn(1, 1, signal=signal.SIGUSR1))
    assert local.until(ev.AttemptExited, 1).exit.ok
    assert local.log(1).count("saved") == 2


def test_what_left_the_session_is_asked_to_end_before_a_main_process_that_goes_on_is_killed(
    local: LocalBench, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    child = f"trap 'echo asked; exit 0' TERM; echo $$ > {pid_file}; while :; do sleep 0.02; done"
    local.runs(1, "sh", "-c", f'trap : TERM; setsid sh -c "{child}"; exit 3')
    local.order(start(1))
    pid_in(pid_file)
    local.order(cmd.Terminate(1, 1, force=False))
    assert local.until(ev.AttemptExited, 1).exit == Exit(code=3)
    assert "asked" in local.log(1)


def test_nobody_elses_process_is_touched(local: LocalBench) -> None:
    local.runs(1, "sleep", "600")
    local.runs(2, "sleep", "600")
    local.order(start(1), start(2, gpus=("1",)))
    other = local.until(ev.AttemptStarted, 2).pid
    assert other is not None
    local.order(cmd.Terminate(1, 1, force=True))
    local.until(ev.AttemptExited, 1)
    assert not all_gone([other])


def test_every_process_has_said_in_the_ledger_who_it_is_before_its_program_begins(
    quick: LocalBench,
) -> None:
    """The first of a program, which is waited for, and those that follow it."""
    for job_id in (1, 2):
        quick.runs(job_id, "cat", str(quick.ledger.path))
        quick.order(start(job_id))
        assert quick.until(ev.AttemptExited, job_id).exit.code == 0
        assert f"\nmade {job_id} 1 {quick.made[-1]}\n" in quick.log(job_id)
