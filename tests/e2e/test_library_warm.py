"""Calls of `Executor(warm=...)`: what is loaded beforehand, and that all else is as ever."""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from library_home import fifo, gpus_seen, library, tell, until_told
from stoker import Executor, JobFailed, JobFuture
from stoker_home import StokerHome, all_gone, is_running, kill_and_wait
from waiting import PATIENCE_S, eventually
from warm_processes import servers_and_copies

__all__ = ["library"]


@pytest.fixture
def warm(library: StokerHome, monkeypatch: pytest.MonkeyPatch) -> Iterator[StokerHome]:
    """A Stoker without warm_servers, before and after."""
    monkeypatch.syspath_prepend(str(library.work))
    yield library
    for daemon in library.daemons():
        for pid in servers_and_copies(daemon):
            kill_and_wait(pid)


def who_am_i() -> tuple[bool, int, int]:
    """Whether it is a copy of a warm_server, its pid and that of its session."""
    with open("/proc/self/cmdline", "rb") as file:
        return b"--warm-server" in file.read().split(b"\0"), os.getpid(), os.getsid(0)


def warmed_up(executor: Executor) -> Executor:
    """The same once its calls are warm."""
    eventually(lambda: executor.submit(who_am_i).result(PATIENCE_S)[0], "calls are warm")
    return executor


def warm_server_of(home: StokerHome) -> int:
    """The warm_server's process, which is older than its idle copies."""
    return servers_and_copies(home.daemon_pid())[0]


def process_of(future: JobFuture[Any], home: StokerHome) -> int:
    return home.until_pid(future.job_id or 0)


def test_a_warm_call_gives_its_result_and_prints_to_its_own_log(warm: StokerHome) -> None:
    def speak(number: int) -> tuple[int, tuple[bool, int, int]]:
        print("number", number)
        return number * 2, who_am_i()

    with warmed_up(Executor(warm=True)) as executor:
        futures = [executor.submit(speak, number) for number in range(6)]
        found = [future.result(PATIENCE_S) for future in futures]
    assert [number for number, _ in found] == [0, 2, 4, 6, 8, 10]
    assert [future.log() for future in futures] == [f"number {n}\n" for n in range(6)]
    pids = [pid for _, (_, pid, _) in found]
    assert len(set(pids)) == 6 and all(pid == session for _, (_, pid, session) in found)
    assert [warm.job(f.job_id or 0)["pid"] for f in futures] == pids
    assert all(warm.job(f.job_id or 0)["exit_code"] == 0 for f in futures)


def test_an_exception_of_a_warm_call_is_raised_with_its_traceback(warm: StokerHome) -> None:
    def broken() -> None:
        raise ValueError("no data")

    with warmed_up(Executor(warm=True)) as executor:
        future = executor.submit(broken)
        with pytest.raises(ValueError, match="no data") as caught:
            future.result(PATIENCE_S)
    assert "in broken" in str(caught.value.__cause__)
    assert "warm_server.py" not in future.log()


def test_each_warm_call_has_gpus_of_its_own(warm: StokerHome) -> None:
    with warmed_up(Executor(gpus_per_job=2, warm=True)) as executor:
        seen = [executor.submit(gpus_seen) for _ in range(6)]
    assert {future.result() for future in seen} == {"0,1", "2,3"}


def test_a_module_that_was_named_is_loaded_once_and_others_as_they_are_now(
    warm: StokerHome,
) -> None:
    (warm.work / "heavy.py").write_text("import os\nLOADED_BY = os.getpid()\n")
    (warm.work / "mine.py").write_text("VALUE = 1\n")

    def look() -> tuple[int, int]:
        import heavy  # type: ignore[import-not-found]
        import mine  # type: ignore[import-not-found]

        return heavy.LOADED_BY, mine.VALUE

    with warmed_up(Executor(warm=["heavy"])) as executor:
        warm_server = warm_server_of(warm)
        assert executor.submit(look).result(PATIENCE_S) == (warm_server, 1)
        (warm.work / "mine.py").write_text("VALUE = 22\n")
        assert executor.submit(look).result(PATIENCE_S) == (warm_server, 22)


def test_a_module_that_can_not_be_loaded_leaves_calls_to_themselves(warm: StokerHome) -> None:
    def needs_it() -> None:
        import no_such_module  # type: ignore[import-not-found] # noqa: F401

    with pytest.warns(RuntimeWarning, match="there is no module no_such_module"):
        unwarmed = Executor(warm=["no_such_module"])
    with unwarmed as executor:
        assert list(executor.map(abs, range(8))) == list(range(8))
        with pytest.raises(ModuleNotFoundError):
            executor.submit(needs_it).result(PATIENCE_S)
    assert "start cold: no_such_module can't be loaded: ModuleNotFoundError" in warm.log_text()


def one_by_submit(executor: Executor) -> None:
    executor.submit(abs, 1).result(PATIENCE_S)


def one_by_map(executor: Executor) -> None:
    next(executor.map(abs, [1]))  # Not to its end, where it would look once more.


@pytest.mark.parametrize("one_more", [one_by_submit, one_by_map])
def test_that_modules_can_not_be_loaded_beforehand_is_told_to_the_caller(
    warm: StokerHome, one_more: Callable[[Executor], None]
) -> None:
    text = "threading.Thread(target=time.sleep, args=(9e6,), daemon=True).start()"
    module = f"busy_{one_more.__name__}"
    (warm.work / f"{module}.py").write_text(f"import threading, time\n{text}\n")
    executor = Executor(warm=[module])

    def warned() -> list[warnings.WarningMessage]:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            one_more(executor)
        return found

    [said] = eventually(warned, "it is told")
    assert said.category is RuntimeWarning and said.filename == __file__
    how = "start as usual, and not warm: 2 threads run in a process"
    assert str(said.message).startswith(f"calls with warm=[{module}] {how}")
    assert not warned()  # Once is enough.


def until_cold(root: str, module: str) -> None:
    """Return once the daemon has said why calls with this module are not warm."""

    def said() -> bool:
        files = Path(root, "calls").glob("*/cold")
        return any(f"{module}\t" in file.read_text() for file in files)

    eventually(said, "the daemon says it")


def by_map(executor: Executor, *call: str) -> None:
    assert list(executor.map(until_cold, *([word] for word in call))) == [None]


def by_chunks(executor: Executor, *call: str) -> None:
    calls = ([word, word] for word in call)
    assert list(executor.map(until_cold, *calls, chunksize=2)) == [None, None]


def by_shutdown(executor: Executor, *call: str) -> None:
    future = executor.submit(until_cold, *call)
    executor.shutdown()
    assert future.result() is None


def by_the_end_of_with(executor: Executor, *call: str) -> None:
    with executor:
        future = executor.submit(until_cold, *call)
    assert future.result() is None


@pytest.mark.parametrize("end", [by_map, by_chunks, by_shutdown, by_the_end_of_with])
@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("raise KeyError('no data')\n", "{} can't be loaded: KeyError: 'no data'"),
        ("import os; os._exit(3)\n", "the process that was to load them has ended early"),
    ],
)
def test_a_program_that_only_waits_for_its_calls_is_told_that_they_were_not_warm(
    warm: StokerHome, end: Callable[..., None], source: str, why: str
) -> None:
    module = f"odd_{end.__name__}_{len(source)}"  # No other test has been told of it.
    (warm.work / f"{module}.py").write_text(source)
    executor = Executor(warm=[module])
    with pytest.warns(RuntimeWarning) as found:
        end(executor, warm.home.root, module)
    [said] = found
    text = f"calls with warm=[{module}] start as usual, and not warm: {why.format(module)}"
    assert str(said.message) == text
    assert said.filename == __file__  # and not a line of the library's


@pytest.mark.parametrize(
    "options", [{"keep_children": True}, {"visible": "all"}, {"on_cluster": True}]
)
def test_options_with_which_no_call_can_be_warm_are_told_to_the_caller(
    library: StokerHome, options: dict[str, Any]
) -> None:
    with pytest.warns(RuntimeWarning, match="start as usual, and not warm: they"):
        Executor(warm=True, **options)


@pytest.mark.parametrize(
    ("end", "code", "number"),
    [
        (lambda: sys.exit(3), 3, None),
        (lambda: os._exit(5), 5, None),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), None, signal.SIGSEGV),
    ],
)
def test_how_a_warm_call_ended_is_exact(
    warm: StokerHome, end: Any, code: int | None, number: int | None
) -> None:
    with warmed_up(Executor(warm=True)) as executor:
        with pytest.raises(JobFailed) as caught:
            executor.submit(end).result(PATIENCE_S)
        assert (caught.value.job_exit_code, caught.value.job_signal) == (code, number)


def test_a_warm_call_can_be_cancelled(warm: StokerHome) -> None:
    with warmed_up(Executor(warm=True)) as executor:
        future = executor.submit(time.sleep, 600)
        pid = process_of(future, warm)
        assert future.cancel()
        job = warm.until_final(future.job_id or 0)[0]
    assert (job["state"], job["signal"]) == ("cancelled", signal.SIGTERM)
    assert not is_running(pid)


def test_a_warm_call_has_its_time_limit_and_its_retries(warm: StokerHome) -> None:
    def second_time() -> str:
        if os.environ["STOKER_ATTEMPT"] == "1":
            time.sleep(600)
        return os.environ["STOKER_ATTEMPT"]

    executor = Executor(warm=True, time_limit="2s", retries=1)
    with warmed_up(executor):
        assert executor.submit(second_time).result(PATIENCE_S) == "2"


def test_warm_calls_go_on_without_the_daemon_and_their_ends_are_known(warm: StokerHome) -> None:
    def then_exit(path: str, code: int) -> None:
        until_told(path)
        os._exit(code)

    pipes = [fifo(warm.work, f"go{number}") for number in range(2)]
    with warmed_up(Executor(warm=True)) as executor:
        ends = [executor.submit(then_exit, path, 40 + n) for n, path in enumerate(pipes)]
        pids = [process_of(future, warm) for future in ends]
        waiting = servers_and_copies(warm.daemon_pid(), *pids)
        warm.kill_daemon()
        eventually(lambda: all_gone(waiting), "warm_server and idle copies end with their daemon")
        tell(pipes[0])
        eventually(lambda: not is_running(pids[0]), "one ends with or without a daemon")
        assert is_running(pids[1])
        tell(pipes[1])
        for number, future in enumerate(ends):
            with pytest.raises(JobFailed) as caught:
                future.result(PATIENCE_S)
            assert caught.value.job_exit_code == 40 + number
        warmed_up(executor)  # The next daemon has a warm_server of its own.


def test_a_warm_server_that_is_killed_is_no_loss_to_its_calls(warm: StokerHome) -> None:
    path = fifo(warm.work)
    with warmed_up(Executor(warm=True)) as executor:
        running = executor.submit(until_told, path)
        pid = process_of(running, warm)
        waiting = servers_and_copies(warm.daemon_pid(), pid)
        kill_and_wait(waiting[0])
        eventually(lambda: all_gone(waiting), "its idle copies end too")
        assert is_running(pid)
        assert list(executor.map(abs, range(-4, 4))) == [4, 3, 2, 1, 0, 1, 2, 3]
        tell(path)
        assert running.result(PATIENCE_S) == "told"
        assert warm.job(running.job_id or 0)["exit_code"] == 0
        warmed_up(executor)
        kill_and_wait(warm_server_of(warm))  # Idle this time.
        assert executor.submit(abs, -3).result(PATIENCE_S) == 3
        warmed_up(executor)


def test_a_daemon_that_is_stopped_leaves_no_warm_server_behind(warm: StokerHome) -> None:
    with warmed_up(Executor(warm=True)):
        waiting = servers_and_copies(warm.daemon_pid())
        assert waiting
    warm.call("shutdown", mode="leave")
    eventually(lambda: all_gone(waiting), "all have gone")
    warm.start()
