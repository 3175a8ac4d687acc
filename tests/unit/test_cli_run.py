"""`stoker run`: the job in the user's terminal, its signals, its exit code, its records."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.cli.attached import Presses
from unit.cli_run import Terminal, argv, environment, process
from unit.scripted_daemon import GONE, Answer, Script, ScriptedDaemon
from waiting import PATIENCE_S, eventually

PYTHON = sys.executable
ENDED: Answer = {"event": "ended", "state": "succeeded", "exit_code": 0, "signal": None, "text": ""}


class Turn:
    """A daemon's side of an attached job: when it is granted, and what it may run."""

    def __init__(self, home: Path, *command: str) -> None:
        self.home = home
        self.command = list(command)
        self.dir = home / "attempt"
        self.dir.mkdir()
        self.env = {**environment(home), "STOKER_JOB_ID": "7"}

    def granted(self, attempt: int = 1) -> Answer:
        return {
            "event": "granted",
            "attempt": attempt,
            "dir": str(self.dir),
            "argv": self.command,
            "env": self.env,
        }

    def ended(self) -> bool:
        return (self.dir / "exit").exists()

    def play(self, request: Answer) -> Iterator[Answer]:
        yield self.granted()
        eventually(self.ended, "the job's end is put on record")
        yield ENDED

    def script(self) -> Script:
        return {
            "submit": {"ids": [7]},
            "attach": self.play,
            "attach_started": {},
            "cancel": {"ids": [7]},
        }

    @property
    def pid(self) -> int:
        return int((self.dir / "pid").read_text().split()[0])


def python(code: str) -> list[str]:
    return [PYTHON, "-c", code]


def started(turn: Turn) -> bool:
    return (turn.dir / "pid").exists()


def test_the_job_runs_here_and_its_exit_code_is_ours(tmp_path: Path) -> None:
    code = "import os, sys; print(os.environ['STOKER_JOB_ID'], sys.stdin.read()); sys.exit(3)"
    turn = Turn(tmp_path, *python(code))
    with ScriptedDaemon(tmp_path, turn.script()) as daemon:
        done = subprocess.run(
            argv("run", "--gpus", "1", "--", *turn.command),
            env=environment(tmp_path),
            input=b"from stdin",
            capture_output=True,
            timeout=PATIENCE_S,
        )
        eventually(lambda: daemon.sent("attach_started"), "the daemon is told of the start")
    assert (done.returncode, done.stderr) == (3, b"")
    assert done.stdout == b"7 from stdin\n"
    [submitted] = daemon.sent("submit")
    assert submitted["attached"] is True
    assert daemon.sent("attach") == [{"job_id": 7, "claims": True}]
    assert daemon.sent("attach_started") == [{"job_id": 7, "attempt": 1, "pid": turn.pid}]
    assert (turn.dir / "exit").read_text() == "exited 3\n"
    for name in ("pid", "exit"):
        assert (turn.dir / name).stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in turn.dir.iterdir()) == ["exit", "pid"]


def test_the_pid_is_on_record_with_its_start_time_before_the_command_begins(tmp_path: Path) -> None:
    record = tmp_path / "attempt" / "pid"
    code = (
        "import os; record = open(%r).read().split();"
        "stat = open('/proc/self/stat').read().rpartition(')')[2].split();"
        "assert record[:2] == [str(os.getpid()), stat[19]], (record, stat[19]);"
        "assert record[2] == str(os.stat('/proc/self/ns/pid').st_ino), record;"
        "boot = open('/proc/sys/kernel/random/boot_id').read().strip();"
        "assert record[3:] == [boot, str(os.getsid(0))], record"
    )
    turn = Turn(tmp_path, *python(code % str(record)))
    with ScriptedDaemon(tmp_path, turn.script()):
        ran = process(tmp_path, "run", "--", *turn.command)
    assert (ran.code, ran.err) == (0, "")


def test_a_signal_that_ends_the_job_is_on_record_and_in_the_exit_code(tmp_path: Path) -> None:
    turn = Turn(tmp_path, "sh", "-c", "kill -KILL $$")
    with ScriptedDaemon(tmp_path, turn.script()):
        ran = process(tmp_path, "run", "--", *turn.command)
    assert ran.code == 137
    assert (turn.dir / "exit").read_text() == "signalled 9\n"


def test_the_job_starts_with_clean_signals_in_its_own_directory(tmp_path: Path) -> None:
    code = (
        "import os, signal; assert not signal.pthread_sigmask(signal.SIG_BLOCK, []);"
        "status = open('/proc/self/status').read();"
        "ignored = int(status.split('SigIgn:')[1].split()[0], 16);"
        # Python itself ignores SIGPIPE and SIGXFSZ; for the other two see `ignored_signals`.
        "assert ignored & ~(1 << 12 | 1 << 24 | 3 << 31) == 0, hex(ignored); print(os.getcwd())"
    )
    (tmp_path / "sub").mkdir()
    turn = Turn(tmp_path, *python(code))
    with ScriptedDaemon(tmp_path, turn.script()):
        ran = process(tmp_path, "run", "--cwd", "sub", "--", *turn.command)
    assert (ran.code, ran.out, ran.err) == (0, f"{tmp_path}/sub\n", "")


def test_the_job_does_not_inherit_what_python_ignores(tmp_path: Path) -> None:
    turn = Turn(tmp_path, "grep", "SigIgn", "/proc/self/status")
    with ScriptedDaemon(tmp_path, turn.script()):
        ran = process(tmp_path, "run", "--", *turn.command)
    assert ignored_signals(ran.out) == 0


def ignored_signals(line: str) -> int:
    """The mask in a SigIgn line, without the C library's own 32 and 33.

    Whatever `make` starts ignores them, since posix_spawn makes it so.
    """
    return int(line.split()[1], 16) & ~(3 << 31)


def test_nohup_holds_for_the_job_too(tmp_path: Path) -> None:
    turn = Turn(tmp_path, "grep", "SigIgn", "/proc/self/status")
    with ScriptedDaemon(tmp_path, turn.script()):
        done = subprocess.run(
            ["nohup", *argv("run", "--", *turn.command)], env=environment(tmp_path),
            capture_output=True, timeout=PATIENCE_S, cwd=tmp_path,
        )  # fmt: skip
    assert ignored_signals(done.stdout.decode()) == 1 << (signal.SIGHUP - 1)


def test_output_goes_to_the_files_that_were_named(tmp_path: Path) -> None:
    turn = Turn(tmp_path, "sh", "-c", "echo out; echo err >&2")
    (tmp_path / "o").write_text("of an earlier job\n")
    with ScriptedDaemon(tmp_path, turn.script()):
        ran = process(
            tmp_path, "run", "--out", "o", "--err", "e", "--overwrite", "--", *turn.command
        )
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert ((tmp_path / "o").read_text(), (tmp_path / "e").read_text()) == ("out\n", "err\n")


def test_a_script_without_an_interpreter_line_is_run_by_sh(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("echo $1\n")
    script.chmod(0o755)
    turn = Turn(tmp_path, str(script), "hello")
    with ScriptedDaemon(tmp_path, turn.script()):
        ran = process(tmp_path, "run", "--", *turn.command)
    assert (ran.code, ran.out, ran.err) == (0, "hello\n", "")


def test_a_command_that_can_not_start_is_told_to_the_user_and_to_the_daemon(tmp_path: Path) -> None:
    script = tmp_path / "broken"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    turn = Turn(tmp_path, str(script), "x")

    def play(request: Answer) -> Iterator[Answer]:
        yield turn.granted()

    with ScriptedDaemon(tmp_path, {**turn.script(), "attach": play}) as daemon:
        ran = process(tmp_path, "run", "--", *turn.command)
        eventually(lambda: daemon.sent("attach_started"), "the daemon is told of the trouble")
    assert ran.code == 127
    assert "No such file" in ran.err
    assert ran.err.count("\n") == 1
    [report] = daemon.sent("attach_started")
    assert report["error"]
    assert "pid" not in report
    # A daemon that was not told finds it there.
    assert [path.name for path in turn.dir.iterdir()] == ["pid"]
    assert (turn.dir / "pid").read_text() == f"failed {report['error']}\n"


def test_what_was_taken_back_is_not_started(tmp_path: Path) -> None:
    turn = Turn(tmp_path, "touch", str(tmp_path / "began"))
    (turn.dir / "pid").write_text("void\n")

    def play(request: Answer) -> Iterator[Answer]:
        yield turn.granted()
        yield {**ENDED, "state": "cancelled", "exit_code": None, "text": "no answer came"}

    with ScriptedDaemon(tmp_path, {**turn.script(), "attach": play}) as daemon:
        ran = process(tmp_path, "run", "--", *turn.command)
    assert (ran.code, ran.err) == (1, "stoker: job 7 cancelled: no answer came\n")
    assert not (tmp_path / "began").exists()
    assert not daemon.sent("attach_started")
    assert [path.name for path in turn.dir.iterdir()] == ["pid"]


# --- waiting ---


def test_a_job_that_waits_says_why_once_for_each_reason(tmp_path: Path) -> None:
    turn = Turn(tmp_path, "true", "x")
    patient = tmp_path / "patient"

    def play(request: Answer) -> Iterator[Answer]:
        yield {"event": "waiting", "text": "needs 1 GPU, 0 are free"}
        eventually(patient.exists, "the test has seen the reason")
        yield {"event": "waiting", "text": "needs 1 GPU, 0 are free"}
        yield {"event": "waiting", "text": "paused"}
        eventually(lambda: not patient.exists(), "the test has seen the other reason")
        yield from turn.play(request)

    with (
        ScriptedDaemon(tmp_path, {**turn.script(), "attach": play}),
        Terminal(tmp_path, "run", "--", *turn.command) as terminal,
    ):
        terminal.until(b"stoker: job 7 waits: needs 1 GPU, 0 are free\r\n")
        patient.touch()
        terminal.until(b"stoker: job 7 waits: paused\r\n")
        patient.unlink()
        assert terminal.wait() == 0
    assert terminal.screen.count(b"\n") == 2


def waiting(request: Answer) -> Iterator[Answer]:
    yield {"event": "waiting", "text": "needs a GPU"}


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_while_it_waits_takes_the_job_back(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    turn = Turn(tmp_path, "true", "x")
    with ScriptedDaemon(tmp_path, {**turn.script(), "attach": waiting}) as daemon:
        client = subprocess.Popen(
            argv("run", "--", *turn.command), env=environment(tmp_path), stderr=subprocess.PIPE
        )
        eventually(lambda: daemon.sent("attach"), "the client is attached")
        client.send_signal(number)
        client.communicate(timeout=PATIENCE_S)
        assert client.returncode == code
        assert daemon.sent("cancel") == [{"select": {"ids": ["7"]}}]
    assert not started(turn)


def test_a_job_that_is_cancelled_elsewhere_while_it_waits_ends_the_command(tmp_path: Path) -> None:
    ended = {**ENDED, "state": "cancelled", "exit_code": None, "text": "by its user"}
    turn = Turn(tmp_path, "true", "x")
    with ScriptedDaemon(tmp_path, {**turn.script(), "attach": ended}):
        ran = process(tmp_path, "run", "--", *turn.command)
    assert (ran.code, ran.err) == (1, "stoker: job 7 cancelled: by its user\n")


@pytest.mark.parametrize(
    ("verb", "state", "text", "said"),
    [
        ("run", "failed", "time limit", "stoker: job 7 was stopped: time limit"),
        ("run", "cancelled", None, "stoker: job 7 was stopped: cancelled"),
        ("shell", "cancelled", None, "stoker: job 7 was stopped: cancelled"),
        ("run", "failed", "signal 15 (SIGTERM)", None),
    ],
)
def test_a_job_that_is_stopped_from_elsewhere_says_so_in_its_terminal(
    tmp_path: Path, verb: str, state: str, text: str | None, said: str | None
) -> None:
    turn = Turn(tmp_path, "sh", "-c", "kill -TERM $$")

    def play(request: Answer) -> Iterator[Answer]:
        yield turn.granted()
        eventually(turn.ended, "the job's end is put on record")
        yield {**ENDED, "state": state, "exit_code": None, "signal": 15, "text": text}

    with ScriptedDaemon(tmp_path, {**turn.script(), "attach": play}):
        ran = process(tmp_path, verb, *(("--", *turn.command) if verb == "run" else ()))
    assert ran.code == 128 + signal.SIGTERM
    told = [line for line in ran.err.splitlines() if "job 7 was stopped" in line]
    assert told == ([] if said is None else [said])


def test_a_daemon_that_comes_back_while_the_job_waits_is_attached_to_again(tmp_path: Path) -> None:
    turn = Turn(tmp_path, "sh", "-c", "exit 4")
    plays = iter([lambda request: GONE, turn.play])

    def attach(request: Answer) -> Any:
        return next(plays)(request)

    with ScriptedDaemon(tmp_path, {**turn.script(), "attach": attach}) as daemon:
        ran = process(tmp_path, "run", "--", *turn.command)
    assert ran.code == 4
    assert len(daemon.sent("attach")) == 2
    assert len(daemon.sent("submit")) == 1


def test_a_daemon_that_dies_while_the_job_runs_changes_nothing(tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    turn = Turn(tmp_path, "sh", "-c", f"read line < {go}; exit 5")

    def play(request: Answer) -> Iterator[Answer]:
        yield turn.granted()
        yield GONE

    with ScriptedDaemon(tmp_path, {**turn.script(), "attach": play}):
        client = subprocess.Popen(argv("run", "--", *turn.command), env=environment(tmp_path))
        eventually(lambda: started(turn), "the job has begun")
    with go.open("w") as file:
        file.write("now\n")
    assert client.wait(PATIENCE_S) == 5
    assert (turn.dir / "exit").read_text() == "exited 5\n"


def test_a_job_that_is_retried_runs_here_again(tmp_path: Path) -> None:
    turn = Turn(tmp_path, "sh", "-c", "echo again; test -e second || { touch second; exit 1; }")

    def play(request: Answer) -> Iterator[Answer]:
        yield turn.granted()
        eventually(turn.ended, "the first attempt is over")
        for name in ("exit", "pid"):
            (turn.dir / name).unlink()
        yield {"event": "waiting", "text": "tries again in a moment"}
        yield turn.granted(attempt=2)
        eventually(turn.ended, "the second attempt is over")
        yield ENDED

    with ScriptedDaemon(tmp_path, {**turn.script(), "attach": play}) as daemon:
        ran = process(tmp_path, "run", "--retries", "1", "--out", "o", "--", *turn.command)
        eventually(lambda: len(daemon.sent("attach_started")) == 2, "both starts are told")
    assert ran.code == 0
    assert (tmp_path / "o").read_text() == "again\nagain\n"
    assert [report["attempt"] for report in daemon.sent("attach_started")] == [1, 2]


# --- signals while it runs ---

# Signals are blocked and waited for, so that none is lost in a moment between two waits. It has no
# handler for SIGINT, as Python has by itself.
STUBBORN = """\
import os, signal
told = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1}
signal.pthread_sigmask(signal.SIG_BLOCK, told)
signal.signal(signal.SIGINT, signal.SIG_DFL)
child = os.fork()
if child:
    print('ready', child, flush=True)
while True:
    number = signal.sigwait(told)
    with open('marks', 'a') as marks:
        marks.write(number.name + ' ')
"""


def marked(marks: Path, word: str) -> int:
    return marks.read_text().split().count(word) if marks.exists() else 0


def pending(pid: int, number: signal.Signals) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    masks = [
        line.split()[1] for line in status.splitlines() if line.startswith(("SigPnd", "ShdPnd"))
    ]
    return any(int(mask, 16) & (1 << (number - 1)) for mask in masks)


def test_the_first_ctrl_c_interrupts_the_second_terminates_the_third_kills(tmp_path: Path) -> None:
    turn = Turn(tmp_path, *python(STUBBORN))
    with (
        ScriptedDaemon(tmp_path, turn.script()),
        Terminal(tmp_path, "run", "--", *turn.command) as terminal,
    ):
        terminal.until(b"ready ")
        terminal.until(b"\n")
        child = int(terminal.screen.split()[1])
        # A terminal throws away output on Ctrl-C, so the job makes its marks in a file.
        marks = tmp_path / "marks"
        terminal.type(b"\x03")
        eventually(lambda: marked(marks, "SIGINT") == 2, "both processes are interrupted")
        assert marked(marks, "SIGTERM") == 0
        # The kernel makes one of two signals that are pending at once.
        eventually(lambda: not pending(terminal.pid, signal.SIGINT), "the client has taken it")
        terminal.type(b"\x03")
        eventually(lambda: marked(marks, "SIGTERM") == 2, "both processes are terminated")
        eventually(lambda: not pending(terminal.pid, signal.SIGINT), "the client has taken it")
        terminal.type(b"\x03")
        assert terminal.wait() == 137
    assert (turn.dir / "exit").read_text() == "signalled 9\n"
    eventually(lambda: not Path(f"/proc/{child}").exists(), "the job's child is killed with it")
    assert b"Traceback" not in terminal.screen


def test_ctrl_c_counts_as_one_more_only_within_two_seconds() -> None:
    presses = Presses()
    moments = [10.0, 11.9, 13.8, 16.0, 16.1, 600.0]
    assert [presses.one_more(at_s, handled=False) for at_s in moments] == [1, 2, 3, 1, 2, 1]


def test_ctrl_c_begins_anew_once_a_job_that_handled_it_does_not_any_more() -> None:
    """It may be about to end, and has taken this one, too, before the client looked."""
    presses = Presses()
    handled = [True, True, True, False, False, False]
    counts = [presses.one_more(10.0 + n / 10, handled=one) for n, one in enumerate(handled)]
    assert counts == [1, 2, 3, 1, 2, 3]


def test_the_terminals_ctrl_c_reaches_the_job_once(tmp_path: Path) -> None:
    code = (
        "import signal, time\n"
        "count = 0\n"
        "def tell(number, frame):\n"
        "    global count\n"
        "    count += 1\n"
        "signal.signal(signal.SIGINT, tell)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})\n"
        "print('ready', flush=True)\n"
        "signal.sigwait({signal.SIGUSR2})\n"
        "print('count', count, flush=True)\n"
    )
    turn = Turn(tmp_path, *python(code))
    with (
        ScriptedDaemon(tmp_path, turn.script()),
        Terminal(tmp_path, "run", "--", *turn.command) as terminal,
    ):
        terminal.until(b"ready")
        terminal.type(b"\x03")
        terminal.until(b"^C")
        # The client passes this one on, in the order in which they came.
        os.kill(terminal.pid, signal.SIGUSR2)
        terminal.until(b"count 1")
        assert terminal.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_signals_sent_to_the_client_are_passed_on_to_the_job(
    tmp_path: Path, number: signal.Signals
) -> None:
    turn = Turn(tmp_path, *python(STUBBORN))
    with ScriptedDaemon(tmp_path, turn.script()):
        client = subprocess.Popen(
            argv("run", "--", *turn.command), env=environment(tmp_path), stdout=subprocess.PIPE,
            cwd=tmp_path,
        )  # fmt: skip
        assert client.stdout is not None
        assert client.stdout.readline().startswith(b"ready")
        client.send_signal(number)
        eventually(lambda: marked(tmp_path / "marks", number.name) == 2, "both processes are told")
        assert client.poll() is None
        for pid in (turn.pid, *children(turn.pid)):
            os.kill(pid, signal.SIGKILL)
        client.communicate(timeout=PATIENCE_S)
        assert client.returncode == 137


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_when_the_terminal_dies_the_job_is_told_and_its_end_is_recorded(
    tmp_path: Path,
) -> None:
    code = (
        "import signal, sys\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})\n"
        "print('ready', flush=True)\n"
        "signal.sigwait({signal.SIGHUP})\n"
        "sys.exit(6)\n"
    )
    turn = Turn(tmp_path, *python(code))
    with (
        ScriptedDaemon(tmp_path, turn.script()),
        Terminal(tmp_path, "run", "--", *turn.command) as terminal,
    ):
        terminal.until(b"ready")
        terminal.hang_up()
        assert terminal.wait() == 6
    assert (turn.dir / "exit").read_text() == "exited 6\n"


def test_the_job_has_the_terminal_whose_settings_are_put_back_after_a_kill(
    tmp_path: Path,
) -> None:
    code = (
        "import os, sys, tty\n"
        "assert os.isatty(0) and os.isatty(1) and os.isatty(2)\n"
        "assert os.tcgetpgrp(0) == os.getpgrp()\n"
        "tty.setraw(0)\n"
        "print('raw', flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    turn = Turn(tmp_path, *python(code))
    with (
        ScriptedDaemon(tmp_path, turn.script()),
        Terminal(tmp_path, "run", "--", *turn.command) as terminal,
    ):
        terminal.until(b"raw")
        assert terminal.wait() == 137
        assert terminal.is_cooked()
