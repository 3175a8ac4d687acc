"""The keeper: a daemon dies, and how each of its children ends is written down all the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.core.model import Exit
from stoker.executors.attempt_dir import read_exit
from stoker.executors.environment import MARKER
from stoker.executors.ledger import Entries, read_ledger
from stoker_home import (
    SRC,
    all_gone,
    is_running,
    kill_and_wait,
    parent_of,
    pid_in,
    processes_with,
)
from waiting import eventually

# A daemon cut down to what the keeper sees of it: a ledger, children, and a sudden death.
PREAMBLE = """
import os, signal, sys
from pathlib import Path
from stoker.executors.attempt_dir import attempt_dir_text, make_attempt_dir
from stoker.executors.keeper import ledger_path
from stoker.executors.ledger import LedgerWriter
from stoker.executors.processes import stat_of
root = Path(sys.argv[1])
keeper = stat_of(os.getppid()).id
ledger = LedgerWriter(ledger_path(root / "ledgers", keeper), keeper)
def intend(job):
    make_attempt_dir(attempt_dir_text(str(root / "attempts"), job, 1))
    ledger.intend((job, 1))
def spawn(job, script):
    env = {**os.environ, "STOKER_ATTEMPT_ID": f"test:{job}.1"}
    return os.posix_spawn("/bin/sh", ["sh", "-c", script], env, setsid=True)
def run(job, script):
    intend(job)
    pid = spawn(job, script)
    ledger.record((job, 1), stat_of(pid).id)
    return pid
def die():
    os.kill(os.getpid(), signal.SIGKILL)
"""


class Kept:
    """A keeper and its daemon, which did as the script says."""

    def __init__(self, root: Path, script: str) -> None:
        self.root = root
        (root / "attempts").mkdir()
        (root / "ledgers").mkdir()
        (root / "daemon.py").write_text(PREAMBLE + script)
        python = sys.executable
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": SRC, "STOKER_HOME": str(root)}
        subprocess.run(
            [python, "-m", "stoker.executors.keeper", str(root / "attempts"),
             str(root / "ledgers"), python, str(root / "daemon.py"), str(root)],
            env=env, check=True,
        )  # fmt: skip

    def ledger(self) -> Entries:
        """What the ledger says once the keeper has sorted it out."""

        def settled() -> Entries | None:
            for path in (self.root / "ledgers").glob("*.ledger"):
                entries = read_ledger(path)
                if entries.complete:
                    return entries
            return None

        found = eventually(settled, "the keeper has settled the ledger")
        assert found is not None
        return found

    def exit(self, job_id: int) -> Exit:
        directory = str(self.root / "attempts" / "0000" / f"{job_id}.1")
        found = eventually(lambda: read_exit(directory), f"job {job_id} has an exit")
        assert found is not None
        return found

    def end(self) -> None:
        """Kill all that there is."""
        for pid in processes_with(f"STOKER_HOME={self.root}".encode()):
            kill_and_wait(pid)
        self.until_gone()

    def until_gone(self) -> None:
        eventually(lambda: not processes_with(f"STOKER_HOME={self.root}".encode()), "all is gone")


@pytest.mark.parametrize("code", [0, 1, 77, 255])
def test_exit_codes_after_the_daemons_death_are_exact(tmp_path: Path, code: int) -> None:
    go = tmp_path / "go"
    kept = Kept(tmp_path, f"run(1, 'while ! [ -e {go} ]; do sleep 0.02; done; exit {code}'); die()")
    kept.ledger()
    go.touch()
    assert kept.exit(1) == Exit(code=code)
    kept.until_gone()


def test_signals_after_the_daemons_death_are_exact(tmp_path: Path) -> None:
    kept = Kept(tmp_path, "run(1, 'kill -SEGV $$'); run(2, 'kill -9 $$'); die()")
    assert kept.exit(1) == Exit(signal=11)
    assert kept.exit(2) == Exit(signal=9)
    kept.until_gone()


def test_a_child_that_had_ended_but_was_not_reaped_is_written_down(tmp_path: Path) -> None:
    script = "run(1, 'exit 9'); os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT); die()"
    kept = Kept(tmp_path, script)
    assert kept.exit(1) == Exit(code=9)
    kept.until_gone()


def test_an_exit_that_can_not_be_written_yet_is_kept_by_its_zombie_until_it_can(
    tmp_path: Path,
) -> None:
    # A file stands where the folder of the attempts is to be: no directory can be made there.
    script = "(root / 'attempts' / '0000').touch(); ledger.intend((1, 1));" + (
        "pid = spawn(1, 'exit 9'); ledger.record((1, 1), stat_of(pid).id);"
        "(root / 'pid').write_text(f'{pid}\\n'); die()"
    )
    kept = Kept(tmp_path, script)
    kept.ledger()
    job = pid_in(tmp_path / "pid")
    # It is tried more than once, and the zombie stays all the while.
    keeper = parent_of(job)
    tries = eventually(lambda: switches(keeper), "the keeper has tried")
    eventually(lambda: switches(keeper) > tries + 2, "the keeper has tried again")
    assert not is_running(job) and parent_of(job) == keeper
    (tmp_path / "attempts" / "0000").unlink()
    assert kept.exit(1) == Exit(code=9)
    kept.until_gone()


def switches(pid: int) -> int:
    """How often a process has gone to sleep."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(text.split("\nvoluntary_ctxt_switches:")[1].split()[0])


def test_an_exit_that_is_seen_before_the_daemons_own_is_written_down_too(tmp_path: Path) -> None:
    # The children of a process are handed on with its last thread, a moment before its parent is
    # told that it is dead. Here both have ended, and the job is the elder.
    script = """
import os, sys
from pathlib import Path
from stoker.executors.keeper import Keeper, ledger_path
from stoker.executors.ledger import LedgerWriter
from stoker.executors.processes import stat_of
root = Path(sys.argv[1])
me = stat_of(os.getpid()).id
ledger = LedgerWriter(ledger_path(root / "ledgers", me), me)
ledger.intend((1, 1))
job = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 7"], os.environ, setsid=True)
ledger.record((1, 1), stat_of(job).id)
daemon = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 0"], os.environ)
for pid in (job, daemon):
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
Keeper(root / "attempts", root / "ledgers").keep(daemon)
"""
    for name in ("attempts", "ledgers"):
        (tmp_path / name).mkdir()
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": SRC}
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], env=env, check=True, timeout=60)
    assert read_exit(str(tmp_path / "attempts" / "0000" / "1.1")) == Exit(code=7)


def test_a_child_of_the_last_intent_is_found_though_its_pid_was_not_noted(tmp_path: Path) -> None:
    go = tmp_path / "go"
    wait = f"while ! [ -e {go} ]; do sleep 0.02; done; exit 8"
    kept = Kept(tmp_path, f"run(1, 'exit 0'); intend(2); spawn(2, {wait!r}); die()")
    entries = kept.ledger()
    assert entries.intent is None and (2, 1) in entries.pids
    go.touch()
    assert kept.exit(2) == Exit(code=8)
    kept.until_gone()


@pytest.mark.parametrize("main_ended", [False, True])
def test_a_process_that_said_who_it_is_is_told_from_what_it_left_behind(
    tmp_path: Path, main_ended: bool
) -> None:
    """A job that the daemon had just made has a child that leads a session of its own."""
    pid_file, go = tmp_path / "pid", tmp_path / "go"
    wait = "true" if main_ended else f"while ! [ -e {go} ]; do sleep 0.02; done"
    detaches = f"setsid sh -c 'echo $$ > {pid_file}; exec sleep 600' & {wait}; exit 8"
    kept = Kept(
        tmp_path,
        f"""
intend(2)
fd, said = ledger.note_for((2, 1))
job = spawn(2, {detaches!r})
os.write(fd, b"%s%d\\n" % (said, job))
while not os.path.exists({str(pid_file)!r}) or not open({str(pid_file)!r}).read():
    pass
if {main_ended}:
    os.waitid(os.P_PID, job, os.WEXITED | os.WNOWAIT)
(root / "job").write_text(str(job))
die()
""",
    )
    entries = kept.ledger()
    assert entries.intent is None and entries.pids[2, 1].pid == int((tmp_path / "job").read_text())
    go.touch()
    assert kept.exit(2) == Exit(code=8)
    kill_and_wait(pid_in(pid_file))
    kept.until_gone()


def test_a_process_that_said_who_it_is_and_never_began_leaves_its_intent_to_be_tried_again(
    tmp_path: Path,
) -> None:
    """It could not become its program, and the daemon was killed when it had let it go."""
    script = """
run(1, 'exit 0')
intend(2)
fd, said = ledger.note_for((2, 1))
gone = spawn(2, 'exit 127')
os.waitpid(gone, 0)
os.write(fd, b"%s%d\\n" % (said, gone))
die()
"""
    kept = Kept(tmp_path, script)
    entries = kept.ledger()
    assert entries.intent is None and (2, 1) not in entries.pids
    kept.until_gone()


def test_a_child_that_has_not_yet_come_to_its_own_session_is_not_overlooked(
    tmp_path: Path,
) -> None:
    # What the kernel does on a busy machine: the daemon dies while its new child has not run yet.
    script = """
import time
intend(2)
if os.fork():
    die()
time.sleep(0.5)
os.setsid()
os.execve("/bin/sh", ["sh", "-c", "exit 8"], {**os.environ, "STOKER_ATTEMPT_ID": "test:2.1"})
"""
    kept = Kept(tmp_path, script)
    entries = kept.ledger()
    assert entries.intent is None and (2, 1) in entries.pids
    assert kept.exit(2) == Exit(code=8)
    kept.until_gone()


def test_an_intent_without_a_child_is_withdrawn(tmp_path: Path) -> None:
    kept = Kept(tmp_path, "run(1, 'exit 0'); intend(2); die()")
    entries = kept.ledger()
    assert entries.intent is None and (2, 1) not in entries.pids
    kept.until_gone()


def test_a_process_that_an_earlier_job_detached_is_not_taken_for_the_last_intents(
    tmp_path: Path,
) -> None:
    pid_file = tmp_path / "pid"
    detaches = f"setsid sh -c 'echo $$ > {pid_file}; exec sleep 600' & exit 0"
    kept = Kept(
        tmp_path,
        f"""
os.waitpid(run(1, {detaches!r}), 0)
while not os.path.exists({str(pid_file)!r}) or not open({str(pid_file)!r}).read():
    pass
intend(2)
die()
""",
    )
    entries = kept.ledger()
    assert (2, 1) not in entries.pids and entries.intent is None
    kill_and_wait(pid_in(pid_file))
    kept.until_gone()


# A idle_copy waits in the daemon's session until it is told, and then leads one of its own.
SPARE = """
import socket
from stoker.executors.processes import ticks_since_boot
def idle_copy(script, late=True):
    daemon = os.getpid()
    ours, its = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        while late and os.getppid() == daemon:
            os.sched_yield()  # As on a busy machine: it does not come to it before the daemon dies.
        if not its.recv(1):
            os._exit(0)
        os.environ["STOKER_ATTEMPT_ID"] = "test:2.1"
        os.setsid()
        os.execv("/bin/sh", ["sh", "-c", script])
    its.close()
    return stat_of(pid).id, ours
"""


@pytest.mark.parametrize("ended", [False, True])
def test_a_spare_that_was_told_is_the_last_intents_though_it_is_older_than_others(
    tmp_path: Path, ended: bool
) -> None:
    go = tmp_path / "go"
    wait = f"while ! [ -e {go} ]; do sleep 0.02; done; exit 8"
    then = "os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)" if ended else ""
    if ended:
        go.touch()
    script = f"""
process, link = idle_copy({wait!r}, late={not ended})
while ticks_since_boot() <= process.start_time:
    pass
run(1, 'exit 0')
ledger.intend((2, 1), None, process)
link.send(b"x")
{then}
die()
"""
    kept = Kept(tmp_path, SPARE + script)
    entries = kept.ledger()
    assert entries.intent is None and (2, 1) in entries.pids
    go.touch()
    assert kept.exit(2) == Exit(code=8)
    kept.until_gone()


def test_a_spare_that_was_not_told_is_nobodys_process(tmp_path: Path) -> None:
    script = """
process, link = idle_copy("exit 8")
ledger.intend((2, 1), None, process)
die()
"""
    kept = Kept(tmp_path, SPARE + script)
    entries = kept.ledger()
    assert entries.intent is None and (2, 1) not in entries.pids
    kept.until_gone()
    assert read_exit(str(tmp_path / "attempts" / "0000" / "2.1")) is None


def test_orphans_of_jobs_are_not_left_as_zombies_while_the_daemon_lives(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    go = tmp_path / "go"
    orphan = f"(setsid sh -c 'echo $$ > {pid_file}; while ! [ -e {go} ]; do sleep 0.02; done' &)"
    kept = Kept(tmp_path, f"os.waitpid(run(1, {orphan!r}), 0); signal.pause()")
    pid = pid_in(pid_file)
    go.touch()
    eventually(lambda: not Path(f"/proc/{pid}").exists(), "the keeper has reaped it")
    daemon = next(p for p in processes_with(f"STOKER_HOME={tmp_path}".encode()) if is_daemon(p))
    kill_and_wait(daemon)
    kept.until_gone()


def is_daemon(pid: int) -> bool:
    return b"daemon.py" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1]


def test_a_removed_attempt_directory_does_not_stop_the_keeper(tmp_path: Path) -> None:
    script = """
import shutil
pid = run(1, 'exit 3')
shutil.rmtree(attempt_dir_text(str(root / "attempts"), 1, 1))
run(2, 'exit 4')
die()
"""
    kept = Kept(tmp_path, script)
    assert kept.exit(2) == Exit(code=4)
    kept.until_gone()


@pytest.mark.parametrize("start", ["run(1, {})", "intend(1); spawn(1, {})"], ids=["noted", "made"])
def test_a_full_disk_at_the_daemons_death_costs_no_exit_code(tmp_path: Path, start: str) -> None:
    go = tmp_path / "go"
    wait = f"while ! [ -e {go} ]; do sleep 0.02; done; exit 6"
    # The file size limit stands for the full disk: the ledger can take no more.
    script = f"""
import resource
{start.format(repr(wait))}
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
size = os.path.getsize(ledger.path)
resource.prlimit(os.getppid(), resource.RLIMIT_FSIZE, (size, size))
die()
"""
    kept = Kept(tmp_path, script)
    keeper = eventually(
        lambda: [
            p
            for p in processes_with(f"STOKER_HOME={tmp_path}".encode())
            if b"stoker.executors.keeper" in Path(f"/proc/{p}/cmdline").read_bytes()
        ]
    )
    go.touch()
    assert kept.exit(1) == Exit(code=6)
    kept.until_gone()
    eventually(lambda: all_gone(keeper), "the keeper has gone too")


def test_the_keeper_is_nobodys_child(tmp_path: Path) -> None:
    kept = Kept(tmp_path, "signal.pause()")
    found = eventually(
        lambda: [
            p for p in processes_with(f"STOKER_HOME={tmp_path}".encode()) if is_daemon(p) and MARKER
        ]
    )
    assert parent_of(parent_of(found[0])) != os.getpid()
    kill_and_wait(found[0])
    kept.until_gone()
