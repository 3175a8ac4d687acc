"""Attempts whose processes are copies of a server are like all others, whatever becomes of it."""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from contract.executor_benches import LocalBench, active_job, start
from stoker.core import commands as cmd
from stoker.core import events as ev
from stoker.core.model import Exit
from stoker.executors import warm_servers as warm_servers_module
from stoker.executors.ledger import read_ledger
from stoker.executors.spawn import Made
from stoker.executors.warm_servers import IdleCopy, WarmServers
from stoker.library.calling import Call
from stoker.library.calls import Calls
from stoker.library.channel import worker_words
from stoker.library.pickling import pickled_call
from stoker.ports import OURS
from stoker_home import all_gone, is_running
from waiting import eventually
from warm_processes import servers_and_copies

SHOWS_ITSELF = """
import json, os, sys
print(json.dumps({"pid": os.getpid(), "session": os.getsid(0), "cwd": os.getcwd(),
    "env": dict(os.environ), "argv": sys.argv, "parent": os.getppid(),
    "fds": sorted(os.listdir("/proc/self/fd")),
    "warm": "--warm-server" in open("/proc/self/cmdline").read(),
    "marker": [one for one in open("/proc/self/environ").read().split("\\0")
               if one.startswith("STOKER_ATTEMPT_ID=")]}))
"""


class Warm:
    """An executor with calls that want to be warm."""

    def __init__(self, local: LocalBench, calls: Calls) -> None:
        self.local = local
        self.calls = calls
        self._others = itertools.count(900)
        self._were_spare: set[int] = set()

    @property
    def warm_servers(self) -> WarmServers:
        return self.local.executor._warm_servers

    def calls_with(
        self,
        job_id: int,
        function: Callable[..., Any],
        *args: Any,
        modules: str = "",
        **fields: Any,
    ) -> None:
        """From now on the job is this call."""
        file = self.calls.write(pickled_call(Call(function, args, {}), function))
        self.local.runs(job_id, *worker_words(file, "call", modules), **fields)

    def runs(self, job_id: int, text: str, modules: str = "", **fields: Any) -> None:
        """From now on the job is a call that runs this text."""
        self.calls_with(job_id, exec, text, {}, modules=modules, **fields)

    def light(self, modules: str = "", **fields: Any) -> None:
        """Have a server with all of its copies, by a call that has begun it."""
        job_id = next(self._others)
        self.runs(job_id, "pass", modules, **fields)
        self.local.order(start(job_id))
        self.local.until(ev.AttemptExited, job_id)
        [server] = self.warm_servers._warm_servers[-1:]

        def full() -> bool:
            server.hear()
            return len(server.copies) == warm_servers_module._IDLE_COPIES

        eventually(full, "all copies are there")

    def processes(self, *told: int) -> list[int]:
        return servers_and_copies(os.getpid(), *told)

    def starts(self, *commands: cmd.Start) -> None:
        """Order these; who was a copy before is known later."""
        for server in self.warm_servers._warm_servers:
            self._were_spare |= {copy.process.pid for copy in server.copies}
        self.local.order(*commands)

    def pid_of(self, job_id: int) -> int:
        pid = self.local.until(ev.AttemptStarted, job_id).pid
        assert pid is not None
        return pid

    def is_warm(self, job_id: int) -> bool:
        return self.pid_of(job_id) in self._were_spare

    def exit_of(self, job_id: int) -> Exit:
        return self.local.until(ev.AttemptExited, job_id).exit


@pytest.fixture
def warm(local: LocalBench, tmp_path: Path) -> Iterator[Warm]:
    calls = Calls(str(tmp_path / "calls"))
    yield Warm(local, calls)
    calls.close()


def test_a_warm_call_has_the_umask_of_its_submitter(warm: Warm) -> None:
    text = "import os; print(oct(os.umask(0)))"
    for number, umask in enumerate((0o027, 0o007), 1):
        warm.light(umask=umask)
        warm.runs(number, text, umask=umask)
        warm.starts(start(number))
        warm.exit_of(number)
        assert warm.local.log(number).strip() == oct(umask)
        assert (number, 1) in warm.local.on_disk.when_told, "it was a copy of a server"


def shown(warm: Warm, job_id: int, **fields: Any) -> dict[str, Any]:
    import json

    warm.runs(job_id, SHOWS_ITSELF, **fields)
    warm.starts(start(job_id, gpus=("0", "GPU-abc")))
    assert warm.exit_of(job_id) == Exit(code=0), warm.local.log(job_id)
    found: dict[str, Any] = json.loads(warm.local.log(job_id))
    return found


# --- what an attempt sees -------------------------------------------------------------------------


def test_a_warm_call_sees_what_a_cold_one_sees(warm: Warm, tmp_path: Path) -> None:
    there = tmp_path / "wörk dir"
    there.mkdir()
    env = {"PATH": os.environ["PATH"], "MINE": "ä ö\n", "CUDA_VISIBLE_DEVICES": "9"}
    fields: dict[str, Any] = {"cwd": str(there), "env": env, "extra_env": {"MINE": "x"}}
    warm.light(**fields)
    seen = shown(warm, 5, **fields)
    warm.warm_servers._put_out(warm.warm_servers._warm_servers[-1])
    cold = shown(warm, 6, **fields)
    assert (seen.pop("warm"), cold.pop("warm")) == (True, False)
    marker = f"STOKER_ATTEMPT_ID={warm.local.instance}:5.1"
    assert seen.pop("marker") == [marker] and f"{marker[18:]}" == seen["env"]["STOKER_ATTEMPT_ID"]
    assert seen["session"] == seen.pop("pid") and seen.pop("session")
    for one, job_id in ((cold, 6), (seen, 5)):
        assert f"/{job_id}.1" in one["env"].pop("STOKER_METRICS")
        assert one["env"].pop("STOKER_CHECKPOINT_DIR").endswith(f"/checkpoints/0000/{job_id}")
        for name in ("STOKER_JOB_ID", "STOKER_ATTEMPT_ID", "MASTER_PORT"):
            del one["env"][name]
    for name in ("marker", "pid", "session"):
        del cold[name]
    assert seen == cold
    assert seen["env"]["CUDA_VISIBLE_DEVICES"] == "0,GPU-abc" and seen["parent"] == os.getpid()


def test_what_a_warm_call_starts_has_its_marker(warm: Warm) -> None:
    warm.light()
    warm.runs(1, "import os; os.system('echo $STOKER_ATTEMPT_ID $STOKER_JOB_ID')")
    warm.starts(start(1))
    assert warm.is_warm(1) and warm.exit_of(1).ok
    assert warm.local.log(1) == f"{warm.local.instance}:1.1 1\n"


def test_output_and_errors_of_a_warm_call_go_to_the_files_that_were_named(
    warm: Warm, tmp_path: Path
) -> None:
    out, err = tmp_path / "o.txt", tmp_path / "e.txt"
    warm.light()
    warm.runs(
        1, "import sys; print('out'); print('err', file=sys.stderr)", out=str(out), err=str(err)
    )
    warm.starts(start(1))
    assert warm.is_warm(1) and warm.exit_of(1).ok
    assert (out.read_text(), err.read_text()) == ("out\n", "err\n")


def test_each_copy_has_a_thread_number_and_random_numbers_of_its_own(warm: Warm) -> None:
    warm.light("random,threading")
    text = """
import os, random, threading, time
# The C library goes by what it has noted: here it makes the id of a clock of it.
assert ~(time.pthread_getcpuclockid(threading.get_ident()) >> 3) == os.getpid()
assert threading.get_native_id() == os.getpid()
print(random.random())
"""
    for job_id in (1, 2):
        warm.runs(job_id, text, "random,threading")
    warm.starts(start(1), start(2))
    assert [warm.is_warm(1), warm.is_warm(2)] == [True, True]
    assert warm.exit_of(1).ok and warm.exit_of(2).ok, warm.local.log(1)
    assert warm.local.log(1) != warm.local.log(2)


def test_numpy_draws_other_numbers_in_each_copy(
    warm: Warm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A stand-in: what counts is that the copy has it seeded anew.
    (tmp_path / "numpy").mkdir()
    (tmp_path / "numpy" / "__init__.py").write_text("")
    text = "import os\nseeded = []\ndef seed(): seeded.append(os.getpid())\n"
    (tmp_path / "numpy" / "random.py").write_text(text)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    warm.light("numpy.random")
    warm.runs(1, "import os, numpy.random as r; assert r.seeded == [os.getpid()]", "numpy.random")
    warm.starts(start(1))
    assert warm.is_warm(1) and warm.exit_of(1).ok, warm.local.log(1)


# --- how it ends ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "how"),
    [
        ("pass", Exit(code=0)),
        ("raise ValueError('no data')", Exit(code=1)),
        ("import sys; sys.exit(3)", Exit(code=3)),
        ("import sys; sys.exit('so there')", Exit(code=1)),
        ("import os; os._exit(5)", Exit(code=5)),
        ("import os; os.kill(os.getpid(), 9)", Exit(signal=9)),
        ("import os; os.abort()", Exit(signal=signal.SIGABRT)),
        ("raise KeyboardInterrupt", Exit(signal=signal.SIGINT)),
    ],
)
def test_a_warm_call_ends_as_a_cold_one_does(warm: Warm, text: str, how: Exit) -> None:
    warm.light()
    warm.runs(1, text)
    warm.starts(start(1))
    assert warm.is_warm(1)
    assert warm.exit_of(1) == how


def test_threads_and_exit_functions_of_a_warm_call_are_waited_for(warm: Warm) -> None:
    warm.light()
    text = """
import atexit, sys, threading
atexit.register(sys.stdout.write, "at exit")
main = threading.main_thread()
def after():
    main.join()
    print("after the call")
threading.Thread(target=after).start()
"""
    warm.runs(1, text)
    warm.starts(start(1))
    assert warm.is_warm(1) and warm.exit_of(1).ok
    assert warm.local.log(1) == "after the call\nat exit"


def test_a_warm_call_is_stopped_with_all_that_it_has_started(warm: Warm, tmp_path: Path) -> None:
    warm.light()
    warm.runs(1, "import os, subprocess; subprocess.run(['sh', '-c', 'echo $$; exec sleep 600'])")
    warm.starts(start(1))
    assert warm.is_warm(1)
    child = int(eventually(lambda: warm.local.log(1).strip(), "it has a child"))
    warm.local.order(cmd.Terminate(1, 1, force=False))
    assert warm.exit_of(1) == Exit(signal=signal.SIGTERM)
    assert not is_running(child)
    eventually(lambda: len(warm.processes()) == 9, "neither server nor copies were ended")


def test_the_ledger_names_a_spare_before_it_is_told(
    warm: Warm, monkeypatch: pytest.MonkeyPatch
) -> None:
    warm.light()
    [path] = warm.local.ledgers.iterdir()
    noted = []
    become = IdleCopy.become

    def looking(copy: IdleCopy, *order: Any) -> Made:
        entries = read_ledger(path)
        noted.append((entries.intent, entries.idle_copy == copy.process))
        return become(copy, *order)

    monkeypatch.setattr(IdleCopy, "become", looking)
    warm.runs(1, "pass")
    warm.starts(start(1))
    assert warm.is_warm(1) and warm.exit_of(1).ok
    assert noted == [((1, 1), True)]
    assert read_ledger(path).pids[1, 1].pid == warm.pid_of(1)


# --- whose it is ----------------------------------------------------------------------------------


def test_gpu_memory_of_a_warm_call_is_its_jobs_but_not_that_of_the_server(
    warm: Warm,
) -> None:
    warm.light()
    waiting = warm.processes()
    assert warm.local.executor.owners(waiting) == dict.fromkeys(waiting, OURS)
    warm.runs(7, "import time; print('on', flush=True); time.sleep(600)")
    warm.starts(start(7))
    pid = warm.pid_of(7)
    assert pid in waiting, "it was seen before, as nobody's"
    assert warm.local.executor.owners([pid]) == {pid: 7}
    eventually(lambda: warm.local.log(7), "it runs")
    # Who knows of no attempt goes by the marker.
    warm.local.executor._attempts.running.clear()
    assert warm.local.executor.owners([pid]) == {pid: 7}


def until_reaped(warm: Warm, *pids: int) -> None:
    def all_reaped() -> bool:
        warm.local.observe()
        return not any(Path(f"/proc/{pid}").exists() for pid in pids)

    eventually(all_reaped, "none is left, not even as a zombie")


# --- what becomes of a server ---------------------------------------------------------------------


def test_without_a_spare_a_call_starts_cold_and_the_next_ones_warm(warm: Warm) -> None:
    warm.runs(1, "pass")
    warm.starts(start(1))
    assert not warm.is_warm(1) and warm.exit_of(1).ok
    warm.light()
    warm.runs(2, "pass")
    warm.starts(start(2))
    assert warm.is_warm(2)


def test_a_warm_server_is_shared_by_calls_that_are_alike_and_by_no_others(warm: Warm) -> None:
    env = {"PATH": os.environ["PATH"], "STOKER_HOME": str(warm.local.root)}
    warm.light()
    others: list[dict[str, Any]] = [
        {"env": {**env, "OTHER": "1"}},
        {"extra_env": {"OMP_NUM_THREADS": "1"}},
        {"modules": "textwrap"},
        {"cwd": "/"},
    ]
    for number, fields in enumerate(others, 1):
        warm.runs(number, "pass", **fields)
        warm.starts(start(number))
        assert not warm.is_warm(number)
    # There are four at most: the first was used least lately, and has gone.
    assert len(warm.warm_servers._warm_servers) == 4
    warm.runs(9, "pass")
    warm.starts(start(9))
    assert not warm.is_warm(9)


def test_a_killed_warm_server_takes_nobody_along_and_another_takes_its_place(warm: Warm) -> None:
    warm.light()
    warm.runs(1, "import time, os; print('on', flush=True); time.sleep(600)")
    warm.starts(start(1))
    assert warm.is_warm(1)
    eventually(lambda: warm.local.log(1), "it runs")
    server, *copies = warm.processes()
    os.kill(server, signal.SIGKILL)
    until_reaped(warm, server, *copies)
    assert is_running(warm.pid_of(1))
    warm.light()
    warm.runs(2, "pass")
    warm.starts(start(2))
    assert warm.is_warm(2) and warm.exit_of(2).ok
    warm.local.order(cmd.Terminate(1, 1, force=True))
    assert warm.exit_of(1) == Exit(signal=signal.SIGKILL)


def test_a_call_whose_spare_was_killed_meanwhile_is_started_cold_and_once(warm: Warm) -> None:
    warm.light()
    server, *copies = warm.processes()
    os.kill(server, signal.SIGSTOP)
    for pid in copies:
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: all_gone(copies), "the copies are dead")
    warm.runs(1, "print('made')")
    warm.starts(start(1))
    assert not warm.is_warm(1) and warm.exit_of(1).ok
    assert warm.local.log(1) == "made\n"
    os.kill(server, signal.SIGCONT)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("raise ImportError('no such device')", "ImportError: no such device"),
        ("import sys; sys.exit(1)", "SystemExit: 1"),
        (
            "import _thread, time; _thread.start_new_thread(time.sleep, (600,))",
            "2 threads run in a process that has loaded them",
        ),
    ],
)
def test_modules_that_can_not_be_loaded_beforehand_leave_calls_cold(
    warm: Warm,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    text: str,
    why: str,
) -> None:
    (tmp_path / "stubborn.py").write_text(text)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    caplog.set_level("INFO")
    warm.runs(1, "pass", "stubborn")
    warm.starts(start(1))
    assert warm.exit_of(1).ok
    eventually(lambda: warm.local.observe() and why in caplog.text, "the server has given up")
    [server] = warm.warm_servers._warm_servers
    until_reaped(warm, server.pid)
    warm.runs(2, "pass", "stubborn")
    warm.starts(start(2))
    assert not warm.is_warm(2) and warm.exit_of(2).ok
    assert not warm.processes(), "it is not tried again for every call"


def test_a_warm_server_that_nobody_needs_ends_and_is_no_zombie(
    warm: Warm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_servers_module, "_IDLE_S", 0.3)
    warm.light()
    processes = warm.processes()
    eventually(lambda: warm.local.executor.has_news(), "the daemon is woken")
    until_reaped(warm, *processes)


def test_warm_servers_end_with_the_executor_and_calls_go_on(warm: Warm) -> None:
    warm.light()
    warm.runs(1, "import time; time.sleep(600)")
    warm.starts(start(1))
    pid = warm.pid_of(1)
    processes = warm.processes(pid)
    warm.local.started_again(active_job(1, started=True))
    assert not [one for one in processes if Path(f"/proc/{one}").exists()]
    assert is_running(pid)
    warm.local.order(cmd.Terminate(1, 1, force=True))


def test_an_order_that_does_not_fit_a_message_is_started_cold(warm: Warm) -> None:
    warm.light()
    long = "x" * 120_000
    warm.light(extra_env={"A": long, "B": long})
    warm.runs(1, "import os; print(len(os.environ['B']))", extra_env={"A": long, "B": long})
    warm.starts(start(1))
    assert not warm.is_warm(1) and warm.exit_of(1).ok
    assert warm.local.log(1) == "120000\n"


def test_what_the_system_refuses_is_refused_warm_too(warm: Warm) -> None:
    warm.light()
    for job_id, fields in enumerate(({"out": "/no/dir/x"}, {"err": "/no/dir/x"}), 1):
        warm.runs(job_id, "pass", **fields)
        warm.starts(start(job_id))
        why = warm.local.until(ev.AttemptNotStarted, job_id).why
        assert why == "/no/dir/x: No such file or directory"
    [ledger] = warm.local.ledgers.iterdir()
    assert read_ledger(ledger).intent is None
    warm.runs(3, "pass")
    warm.starts(start(3))
    assert warm.exit_of(3).ok
