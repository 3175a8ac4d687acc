"""Calls of the Python library while the daemon dies, dies again as it starts, or has no room.

Law: what is queued belongs to the daemon. Each call is made once, and its future has the result.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from library_home import end_calls, fifo, library, run_script, tell, until_told
from small_disk import SmallDisk, disk
from stoker import Executor, submit
from stoker.api.client import Client, ConnectionLost
from stoker.api.reconnect import Reconnection
from stoker.errors import Unreachable
from stoker.library.channel import Channel, channel
from stoker_home import StokerHome, kill_and_wait, lines_of
from waiting import PATIENCE_S, eventually

__all__ = ["disk", "library"]

_CALLS = 100
_KILLS = 5
_LONG_S = 4 * PATIENCE_S  # for many calls and many starts, one after the other


def _noted(record: Path) -> list[int]:
    return sorted(int(line) for line in lines_of(record))


def _kill_all_that_start(home: StokerHome, times: int) -> None:
    """Kill so many daemons, each as soon as it is there: most of them before they are ready."""
    for _ in range(times):
        kill_and_wait(eventually(home.daemons, "a daemon is there, or starts")[0])


def test_calls_are_made_once_though_daemons_are_killed_while_they_start(
    library: StokerHome,
) -> None:
    record, go = library.work / "record.txt", fifo(library.work)

    def note(number: int) -> int:
        with open(record, "a", encoding="utf-8") as file:
            file.write(f"{number}\n")
        return number * number

    executor = Executor(max_running=1)
    first = executor.submit(until_told, go)
    futures = [executor.submit(note, number) for number in range(_CALLS)]
    eventually(first.running, "the first call runs")
    _kill_all_that_start(library, _KILLS)
    tell(go)
    assert first.result(_LONG_S) == "told"
    futures[_CALLS // 5].result(_LONG_S)
    _kill_all_that_start(library, _KILLS)
    assert [one.result(_LONG_S) for one in futures] == [n * n for n in range(_CALLS)]
    assert _noted(record) == list(range(_CALLS))


def test_who_comes_back_to_a_daemon_comes_back_though_it_is_killed_while_it_starts(
    library: StokerHome,
) -> None:
    said: list[str] = []
    with Client(library.home) as client, ThreadPoolExecutor(1) as pool:
        client.connect()
        library.kill_daemon()
        back = pool.submit(Reconnection(client, said.append).wait, ConnectionLost("it is gone"))
        _kill_all_that_start(library, 2 * _KILLS)
        assert back.result(PATIENCE_S * 2) is True
        assert client.autostart and client.call("hello")["pid"] == library.daemon_pid()
    assert len(said) <= 1 and all(text.endswith("trying again") for text in said)


@pytest.fixture
def on_disk(disk: SmallDisk, monkeypatch: pytest.MonkeyPatch) -> Iterator[StokerHome]:
    stoker = StokerHome(disk.root)
    monkeypatch.setenv("STOKER_HOME", stoker.home.root)
    monkeypatch.chdir(stoker.work)
    try:
        stoker.start(gpus="0-3")
        yield stoker
        end_calls()
    finally:
        stoker.clean_up()


def test_futures_outlive_a_daemon_that_had_no_room_to_start(
    disk: SmallDisk,
    on_disk: StokerHome,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    go = fifo(tmp_path)
    executor = Executor(max_running=1)
    futures = [executor.submit(until_told, go), *(executor.submit(pow, 2, n) for n in range(9))]
    eventually(futures[0].running, "the first call runs")
    disk.fill()
    on_disk.kill_daemon()
    eventually(
        lambda: on_disk.is_reachable() or "trying again" in caplog.text,
        "the daemon is back, or it is told that it can't be had",
    )
    disk.make_room()
    tell(go)
    assert [one.result(PATIENCE_S) for one in futures] == ["told", *(2**n for n in range(9))]


_LEAVES = """
import sys
from stoker import Executor
from stoker.api import launch
from stoker.errors import Failed

record, go, here = sys.argv[1:]

def wait():
    open(go).read()

def note(number):
    with open(record, "a") as file:
        file.write(f"{number}\\n")

executor = Executor(max_running=1)
futures = [executor.submit(wait), *(executor.submit(note, n) for n in range(10))]
open(here, "w").close()

def refuse(home):
    raise Failed("no daemon is to be had", "")

launch.start_daemon = refuse
print(sorted({type(one.exception(60)).__name__ for one in futures}))
"""


def test_calls_are_made_though_their_script_gave_up_and_left(library: StokerHome) -> None:
    record, here = library.work / "record.txt", library.work / "here"
    go = fifo(library.work)

    def kill_once_queued() -> None:
        eventually(here.exists, "all is queued")
        library.kill_daemon()

    killer = threading.Thread(target=kill_once_queued)
    killer.start()
    ran = run_script(library, _LEAVES, str(record), go, str(here))
    killer.join()
    assert (ran.code, ran.out.strip()) == (0, "['Failed']"), ran.err
    library.start()
    channel()  # The next program clears away what others have left, and only that.
    tell(go)
    library.until_final(*library.jobs())
    assert {job["state"] for job in library.jobs().values()} == {"succeeded"}
    assert _noted(record) == list(range(10))


_KILLED = _LEAVES.partition("def refuse")[0] + "futures[0].result()"


def test_calls_are_made_though_their_script_was_killed(library: StokerHome) -> None:
    record, here = library.work / "record.txt", library.work / "here"
    go = fifo(library.work)
    (library.work / "script.py").write_text(_KILLED, encoding="utf-8")
    words = [sys.executable, "script.py", str(record), go, str(here)]
    with subprocess.Popen(words, env=library.env, cwd=library.work) as script:
        eventually(here.exists, "all is queued")
        script.send_signal(signal.SIGKILL)
    # One of them is not where its script had it any more when others clear away.
    last = max(library.jobs())
    library.stoker("hold", str(last))
    library.stoker("edit", str(last), "--group", "elsewhere")
    tell(go)
    library.until_final(*(job for job in library.jobs() if job != last))
    channel()
    library.stoker("release", str(last))
    library.until_final(last)
    assert {job["state"] for job in library.jobs().values()} == {"succeeded"}
    assert _noted(record) == list(range(10))


def test_a_call_whose_submission_was_taken_is_made_though_no_answer_came(
    library: StokerHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose_the_answer(self: Channel, op: str, **fields: Any) -> dict[str, Any]:
        order(self, op, **fields)
        raise Unreachable("the daemon has not answered", "")

    submit(pow, 1, 1).result(PATIENCE_S)
    order = Channel.request
    with monkeypatch.context() as patch:
        patch.setattr(Channel, "request", lose_the_answer)
        with pytest.raises(Unreachable):
            submit(pow, 2, 2)
    assert library.until_final(max(library.jobs()))[0]["state"] == "succeeded"


def test_a_submission_that_ctrl_c_interrupts_is_called_off(
    library: StokerHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: Channel, op: str, **fields: Any) -> dict[str, Any]:
        order(self, op, **fields)
        raise KeyboardInterrupt

    order = Channel.request
    with monkeypatch.context() as patch:
        patch.setattr(Channel, "request", interrupted)
        with pytest.raises(KeyboardInterrupt):
            submit(until_told, fifo(library.work))
    [job] = library.jobs()
    assert library.until_final(job)[0]["state"] == "cancelled"
