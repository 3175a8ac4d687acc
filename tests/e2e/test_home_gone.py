"""A daemon whose home, lock or socket was deleted under it, or that was stopped by a signal."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker_home import StokerHome, is_running, pid_in, processes_with
from waiting import eventually

SOON_S = 20  # On a loaded machine; it used to be 60 s and more.


@pytest.fixture
def beside(stoker: StokerHome, tmp_path: Path) -> Iterator[Path]:
    """A place for what jobs write, which outlives the home; and an end for what lost its home."""
    daemon, keeper = stoker.daemon_pid(), stoker.keeper_pid()
    yield tmp_path
    for pid in (daemon, keeper):
        if is_running(pid):
            os.kill(pid, signal.SIGKILL)


def has_ended(pid: int) -> bool:
    return not is_running(pid)


def test_a_daemon_whose_home_was_deleted_starts_nothing_more_and_ends_with_its_last_job(
    stoker: StokerHome, beside: Path
) -> None:
    daemon, go, told, second = stoker.daemon_pid(), beside / "go", beside / "pid", beside / "second"
    first = f"echo $$ > {told}; until [ -e {go} ]; do sleep 0.02; done"
    job = stoker.submit("sh", "-c", first, gpus=4)
    stoker.submit("sh", "-c", f"echo $$ > {second}", gpus=4)
    running = pid_in(told)
    stoker.until_pid(job)
    log = os.open(stoker.home.log, os.O_RDONLY)
    shutil.rmtree(stoker.home.root)
    try:
        eventually(lambda: b"home" in os.pread(log, 100_000, 0), "it says so in its log", SOON_S)
        said = os.pread(log, 100_000, 0)
    finally:
        os.close(log)
    assert stoker.home.root.encode() in said
    assert is_running(daemon) and is_running(running), "it kills nothing"
    go.touch()
    eventually(lambda: has_ended(daemon), "it ends with its last job", SOON_S)
    assert not second.exists()


def test_an_idle_daemon_whose_home_was_deleted_goes_away(stoker: StokerHome, beside: Path) -> None:
    daemon = stoker.daemon_pid()
    shutil.rmtree(stoker.home.root)
    eventually(lambda: has_ended(daemon), "nobody can reach it", SOON_S)


def test_a_daemon_whose_home_was_deleted_leaves_the_new_one_alone(
    stoker: StokerHome, beside: Path
) -> None:
    old, go, told = stoker.daemon_pid(), beside / "go", beside / "pid"
    job = stoker.submit("sh", "-c", f"echo $$ > {told}; until [ -e {go} ]; do sleep 0.02; done")
    pid_in(told)
    stoker.until_pid(job)
    shutil.rmtree(stoker.home.root)
    new = stoker.start(gpus="0-3")
    assert new != old
    go.touch()
    eventually(lambda: has_ended(old), "the old one ends", SOON_S)
    assert stoker.daemon_pid() == new, "its socket is still there"
    assert stoker.jobs() == {}


def test_a_daemon_whose_lock_was_deleted_gives_way_and_its_jobs_go_on(
    stoker: StokerHome, beside: Path
) -> None:
    old, go = stoker.daemon_pid(), beside / "go"
    job = stoker.submit("sh", "-c", f"until [ -e {go} ]; do sleep 0.02; done; exit 21")
    pid = stoker.until_pid(job)
    os.unlink(stoker.home.lock)
    eventually(lambda: has_ended(old), "another could start beside it", SOON_S)
    assert is_running(pid)
    stoker.start()
    go.touch()
    assert stoker.until_final(job)[0]["exit_code"] == 21


def test_a_socket_that_was_deleted_is_made_anew(stoker: StokerHome) -> None:
    pid = stoker.daemon_pid()
    os.unlink(stoker.home.socket)
    assert stoker.stoker("daemon", "status").startswith("running")
    assert stoker.daemon_pid() == pid
    os.unlink(stoker.home.socket)
    assert stoker.until_final(stoker.add("--", "true"))[0]["state"] == "succeeded"
    assert stoker.daemon_pid() == pid
    os.unlink(stoker.home.socket)
    assert stoker.stoker("daemon", "stop") == ""
    assert has_ended(pid)
    assert not os.path.exists(stoker.home.socket)


@pytest.mark.parametrize(
    "words", [("daemon", "status"), ("daemon", "stop", "--kill"), ("ls",), ("add", "--", "true")]
)
@pytest.mark.parametrize("socket", ["there", "deleted"])
def test_of_a_daemon_under_sigstop_every_command_says_so_and_what_to_do(
    stoker: StokerHome, words: tuple[str, ...], socket: str
) -> None:
    pid = stoker.daemon_pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        if socket == "deleted":
            os.unlink(stoker.home.socket)
        process = stoker.popen(*words, stdout=-1, stderr=-1)
        out, err = process.communicate(timeout=SOON_S)
    finally:
        os.kill(pid, signal.SIGCONT)
    text = (out + err).decode()
    assert process.returncode == 4, text
    assert text.count("\n") <= 2
    assert f"process {pid}" in text and f"kill -CONT {pid}" in text
    eventually(stoker.is_reachable, "it goes on", SOON_S)


def test_the_status_of_a_daemon_that_does_not_answer_is_told_in_json(stoker: StokerHome) -> None:
    pid = stoker.daemon_pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        ran = stoker.cli("daemon", "status", "--json")
    finally:
        os.kill(pid, signal.SIGCONT)
    status = json.loads(ran.out)
    assert ran.code == 4
    assert (status["running"], status["pid"], status["version"]) == (True, pid, None)
    assert f"process {pid}" in status["trouble"]


def test_no_exit_code_is_written_into_a_home_that_is_not_its_own(
    stoker: StokerHome, beside: Path
) -> None:
    go, told = beside / "go", beside / "pid"
    job = stoker.submit("sh", "-c", f"echo $$ > {told}; until [ -e {go} ]; do sleep 0.02; done")
    running, keeper = pid_in(told), stoker.keeper_pid()
    stoker.until_pid(job)
    stoker.kill_daemon()
    shutil.rmtree(stoker.home.root)
    os.makedirs(stoker.home.attempts)
    go.touch()
    eventually(lambda: has_ended(running) and has_ended(keeper), "the keeper has nothing to keep")
    assert not list(Path(stoker.home.attempts).rglob("*"))
    assert not processes_with(f"STOKER_HOME={stoker.home.root}".encode())
