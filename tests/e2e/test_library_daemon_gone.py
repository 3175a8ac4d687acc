"""Futures outlive daemons: nobody who waits is forgotten, and nothing is run twice."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from library_home import fifo, gpus_seen, library, tell, until_told
from stoker import Executor, JobFailed, JobFuture, submit
from stoker.api.launch import start_daemon
from stoker.api.paths import Home
from stoker.errors import Failed, Unreachable
from stoker.library.channel import channel
from stoker_home import StokerHome, is_running, kill_and_wait
from waiting import PATIENCE_S, eventually

__all__ = ["library"]


def _process_of(future: JobFuture[Any], home: StokerHome) -> int:
    return int(eventually(lambda: home.job(future.job_id or 0)["pid"], "it has a process"))


def _cut_power(home: StokerHome, *jobs: int) -> None:
    """Daemon, keeper and jobs die at once; the program that waits is on another machine, say."""
    daemon, keeper = home.daemon_pid(), home.keeper_pid()
    for pid in (daemon, keeper):
        os.kill(pid, signal.SIGSTOP)
    for pid in (*jobs, keeper, daemon):
        os.kill(pid, signal.SIGKILL)


def test_a_daemon_that_is_killed_is_started_again_for_those_who_wait(library: StokerHome) -> None:
    path = fifo(library.work)
    with Executor(max_running=1) as executor:
        running, waiting = executor.submit(until_told, path), executor.submit(gpus_seen)
        eventually(running.running, "it runs")
        library.kill_daemon()
        tell(path)
        assert running.result(PATIENCE_S) == "told"
        assert waiting.result(PATIENCE_S) == "0"
    assert [job["attempt"] for job in library.jobs().values()] == [1, 1]


def test_what_ended_while_no_daemon_was_there_is_heard_of(library: StokerHome) -> None:
    path = fifo(library.work)
    future = submit(until_told, path)
    pid = _process_of(future, library)
    library.call("shutdown", mode="leave")
    tell(path)
    eventually(lambda: not is_running(pid), "its process is gone")
    assert not future.done()
    library.start()
    assert future.result(PATIENCE_S) == "told"


def test_a_daemon_that_was_stopped_on_purpose_is_waited_for_and_not_started(
    library: StokerHome, caplog: pytest.LogCaptureFixture
) -> None:
    path = fifo(library.work)
    future = submit(until_told, path)
    eventually(future.running, "it runs")
    library.call("shutdown", mode="leave")
    eventually(lambda: "the daemon was stopped" in caplog.text, "it is told that it waits")
    with pytest.raises(Unreachable):
        library.daemon_pid()
    library.start()
    tell(path)
    assert future.result(PATIENCE_S) == "told"


def test_a_new_call_starts_the_daemon_again_as_any_new_order_does(library: StokerHome) -> None:
    assert submit(gpus_seen).result(PATIENCE_S) == "0"
    daemon = library.daemon_pid()
    library.call("shutdown", mode="leave")
    eventually(lambda: not is_running(daemon), "it is gone")
    assert submit(gpus_seen).result(PATIENCE_S) == "0"


def test_nobody_starts_a_daemon_again_when_nobody_waits(library: StokerHome) -> None:
    assert submit(gpus_seen).result(PATIENCE_S) == "0"
    channel().wait_until_ended(set(channel().unfinished()))
    daemon = library.daemon_pid()
    kill_and_wait(daemon)
    follower = channel()._follower
    eventually(lambda: not follower._followed, "the library has noticed")
    with pytest.raises(Unreachable):
        library.daemon_pid()


def test_a_call_that_a_power_cut_ended_is_lost_and_says_so(library: StokerHome) -> None:
    future = submit(until_told, fifo(library.work))
    _cut_power(library, _process_of(future, library))
    with pytest.raises(JobFailed) as caught:
        future.result(PATIENCE_S)
    assert caught.value.job_state == "lost"
    assert "was lost" in str(caught.value)


def test_a_call_with_retries_is_made_again_after_a_power_cut(library: StokerHome) -> None:
    path = fifo(library.work)
    future = submit(until_told, path, retries=1)
    _cut_power(library, _process_of(future, library))
    tell(path)
    assert future.result(PATIENCE_S) == "told"
    assert library.job(future.job_id or 0)["attempt"] == 2


def test_a_daemon_that_refuses_to_start_for_good_is_told_to_those_who_wait(
    library: StokerHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    future = submit(until_told, fifo(library.work))
    job_pid = _process_of(future, library)

    def refuse(home: object) -> None:
        raise Failed("the database is of a newer version", "upgrade")

    monkeypatch.setattr("stoker.api.launch.start_daemon", refuse)
    kill_and_wait(library.daemon_pid())
    with pytest.raises(Failed, match="newer version"):
        future.result(PATIENCE_S)
    kill_and_wait(job_pid)


def test_a_daemon_that_can_not_be_started_just_now_is_waited_for_and_that_is_said_once(
    library: StokerHome, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path, tries = fifo(library.work), []
    future = submit(until_told, path)
    eventually(future.running, "it runs")

    def start(home: Home) -> None:
        tries.append(home)
        if len(tries) < 4:
            raise Unreachable("there is no room", "make some")
        start_daemon(home)

    monkeypatch.setattr("stoker.api.launch.start_daemon", start)
    kill_and_wait(library.daemon_pid())
    tell(path)
    assert future.result(PATIENCE_S) == "told"
    assert [one.getMessage() for one in caplog.records] == [
        "the daemon is gone: there is no room (make some); trying again"
    ]


def test_a_submission_is_refused_while_no_daemon_can_be_had_and_others_wait_on(
    library: StokerHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fifo(library.work)
    future = submit(until_told, path)
    eventually(future.running, "it runs")

    def refuse(home: object) -> None:
        raise Unreachable("there is no room", "make some")

    with monkeypatch.context() as patch:
        patch.setattr("stoker.api.launch.start_daemon", refuse)
        kill_and_wait(library.daemon_pid())
        with pytest.raises(Unreachable, match="there is no room"):
            submit(gpus_seen, group="another")
        assert not future.done()
    tell(path)
    assert future.result(PATIENCE_S) == "told"


def test_a_call_that_is_moved_to_another_group_is_not_taken_for_lost(library: StokerHome) -> None:
    first, second = fifo(library.work, "first"), fifo(library.work, "second")
    executor = Executor(max_running=1)
    running, moved = executor.submit(until_told, first), executor.submit(until_told, second)
    eventually(running.running, "it runs")
    library.stoker("edit", str(moved.job_id), "--group", "elsewhere")
    library.kill_daemon()
    eventually(lambda: moved.running() or moved.done(), "it is known how it stands")
    assert not moved.done()
    tell(second)
    library.until_final(moved.job_id or 0)
    library.kill_daemon()
    assert moved.result(PATIENCE_S) == "told"
    tell(first)
    assert running.result(PATIENCE_S) == "told"


def test_every_call_is_made_once_though_the_daemon_is_killed_again_and_again(
    library: StokerHome,
) -> None:
    record = library.work / "record.txt"

    def note(number: int) -> int:
        with open(record, "a", encoding="utf-8") as file:
            file.write(f"{number}\n")
        return number * number

    with Executor() as executor:
        futures = [executor.submit(note, number) for number in range(24)]
        for place in (3, 9, 15, 21):
            futures[place].result(PATIENCE_S)
            try:
                kill_and_wait(library.daemon_pid())
            except Unreachable:
                pass  # It is not back yet from the last time.
        assert [future.result(PATIENCE_S) for future in futures] == [n * n for n in range(24)]
    assert sorted(map(int, record.read_text().split())) == list(range(24))
