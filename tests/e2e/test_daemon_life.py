"""The daemon's own life: started by whoever needs it, one a home, stopped in three ways."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.api import launch
from stoker.api.client import Client
from stoker.errors import StokerError
from stoker_home import (
    SRC,
    StokerHome,
    is_running,
    kill_and_wait,
    parent_of,
)
from waiting import eventually


def test_the_first_command_that_needs_the_daemon_starts_it(home: StokerHome) -> None:
    assert home.cli("daemon", "status").code == 4
    assert home.add("--on", "0,1", "--", "true") == 1
    assert len(home.daemons()) == 1
    assert home.cli("daemon", "status").code == 0


def test_a_client_starts_the_daemon_of_its_own_home_and_no_other(
    home: StokerHome, tmp_path: Path
) -> None:
    (tmp_path / "else").mkdir()
    elsewhere = StokerHome(tmp_path / "else")
    try:
        with Client(elsewhere.home) as client:
            assert client.call("hello")["home"] == elsewhere.home.root
        assert not home.daemons()
    finally:
        elsewhere.clean_up()


def test_many_commands_at_once_start_one_daemon(home: StokerHome) -> None:
    adders = [
        home.popen("add", "--gpus", "0", "--", "true", stdout=subprocess.PIPE) for _ in range(8)
    ]
    ids = sorted(int(adder.communicate(timeout=120)[0]) for adder in adders)
    assert ids == list(range(1, 9))
    assert len(home.daemons()) == 1
    assert home.log_text().count("ready: version") == 1


def test_a_second_daemon_on_the_same_state_refuses_to_start(stoker: StokerHome) -> None:
    first = stoker.daemon_pid()
    second = subprocess.run(
        [sys.executable, "-m", "stoker.daemon.main", "1"],
        env=stoker.env, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert second.returncode == 1
    assert "another daemon runs on" in second.stdout
    assert stoker.daemon_pid() == first
    assert stoker.until_final(stoker.submit("true"))[0]["state"] == "succeeded"


def test_it_tells_how_long_as_many_of_its_latest_turns_took_as_are_asked_for(
    stoker: StokerHome,
) -> None:
    with Client(stoker.home) as client:
        before = client.call("hello")["turns"]["count"]
        client.call("pause")
        turns = client.call("hello", latest=1)["turns"]
        assert turns["count"] > before
        assert turns["p50_ms"] == turns["p99_ms"] == turns["most_ms"] > 0
        with pytest.raises(StokerError):
            client.call("hello", latest=0)


def test_a_daemon_that_got_ahead_of_the_one_being_started_is_used(
    stoker: StokerHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As when its starter was killed: nobody holds the starter's lock, and its own is not taken yet.
    really, looks = launch.is_running, iter([False])
    monkeypatch.setattr(launch, "is_running", lambda home: next(looks, True) and really(home))
    pid = stoker.daemon_pid()
    launch.start_daemon(stoker.home)
    assert stoker.daemon_pid() == pid


def test_daemon_start_finds_the_one_that_runs(stoker: StokerHome) -> None:
    pid = stoker.daemon_pid()
    ran = stoker.cli("daemon", "start")
    assert (ran.code, ran.out) == (0, "") and str(pid) in ran.err
    assert stoker.daemon_pid() == pid


def test_a_stale_socket_and_lock_do_not_hinder_the_first_daemon(home: StokerHome) -> None:
    os.makedirs(home.home.root, 0o700)
    with socket.socket(socket.AF_UNIX) as dead:
        fd = os.open(home.home.root, os.O_PATH)
        dead.bind(f"/proc/self/fd/{fd}/stoker.sock")
        os.close(fd)
    Path(home.home.lock).touch(0o600)
    assert Path(home.home.socket).exists()
    assert home.add("--gpus", "0", "--", "true") == 1


def test_a_plain_file_where_the_socket_should_be_is_replaced(home: StokerHome) -> None:
    os.makedirs(home.home.root, 0o700)
    Path(home.home.socket).write_text("not a socket")
    assert home.add("--gpus", "0", "--", "true") == 1


def test_status_tells_pid_socket_version_and_uptime(stoker: StokerHome) -> None:
    shown = json.loads(stoker.stoker("daemon", "status", "--json"))
    assert shown["schema"] == 1 and shown["running"] is True
    assert shown["pid"] == stoker.daemon_pid()
    assert shown["socket"] == stoker.home.socket
    assert shown["uptime_s"] >= 0 and shown["version"]
    stoker.stoker("daemon", "stop")
    ran = stoker.cli("daemon", "status", "--json")
    assert ran.code == 4 and json.loads(ran.out)["running"] is False


def test_stop_leaves_running_jobs_running(stoker: StokerHome) -> None:
    go = stoker.work / "go"
    job = stoker.submit("sh", "-c", f"until [ -e {go} ]; do sleep 0.02; done; exit 31")
    pid = stoker.until_pid(job)
    ran = stoker.cli("daemon", "stop")
    assert (ran.code, ran.out) == (0, "") and "1 job continues without it" in ran.err
    assert not stoker.daemons() and is_running(pid)
    go.touch()
    eventually(lambda: not is_running(pid))
    assert stoker.cli("wait", str(job)).code == 31  # It starts the daemon again.


def test_stop_kill_stops_the_jobs_first_and_keeps_the_rest_waiting(stoker: StokerHome) -> None:
    job = stoker.submit("sleep", "600", gpus=4)
    waiting = stoker.submit("true")
    pid = stoker.until_pid(job)
    assert stoker.cli("daemon", "stop", "--kill").code == 0
    assert not is_running(pid) and not stoker.daemons()
    stoker.start()
    assert stoker.job(job)["state"] == "cancelled"
    assert stoker.until_final(waiting)[0]["state"] == "succeeded"


def test_stop_drain_starts_no_new_job_and_ends_with_the_last(stoker: StokerHome) -> None:
    go = stoker.work / "go"
    job = stoker.submit("sh", "-c", f"until [ -e {go} ]; do sleep 0.02; done; exit 5", gpus=3)
    stoker.until_pid(job)
    pid = stoker.daemon_pid()
    stopping = stoker.popen("daemon", "stop", "--drain", stderr=subprocess.PIPE)
    eventually(lambda: "told to stop (drain)" in stoker.log_text())
    late = stoker.submit("true")
    assert stoker.job(late)["state"] == "waiting"
    assert is_running(pid)
    go.touch()
    _, err = stopping.communicate(timeout=60)
    assert stopping.returncode == 0 and b"the daemon has stopped" in err
    assert not is_running(pid)
    stoker.start()
    assert stoker.job(job)["exit_code"] == 5
    assert stoker.until_final(late)[0]["state"] == "succeeded"


def test_restart_changes_the_daemon_and_nothing_else(stoker: StokerHome) -> None:
    job = stoker.submit("sleep", "600")
    pid = stoker.until_pid(job)
    before = stoker.daemon_pid()
    assert stoker.cli("daemon", "restart").code == 0
    assert stoker.daemon_pid() != before
    assert stoker.job(job)["state"] == "running" and is_running(pid)


def test_stop_without_a_daemon_is_no_failure(home: StokerHome) -> None:
    ran = home.cli("daemon", "stop")
    assert ran.code == 0 and "not running" in ran.err
    assert not home.daemons()


def test_sigterm_stops_the_daemon_and_leaves_its_jobs(stoker: StokerHome) -> None:
    job = stoker.submit("sleep", "600")
    pid = stoker.until_pid(job)
    kill_and_wait(stoker.daemon_pid(), signal.SIGTERM)
    assert is_running(pid)
    assert not Path(stoker.home.socket).exists()


def test_the_daemon_is_out_of_reach_of_the_terminal_and_of_the_directory(home: StokerHome) -> None:
    home.add("--gpus", "0", "--", "true")
    pid = home.daemon_pid()
    for one in (pid, parent_of(pid)):
        assert os.readlink(f"/proc/{one}/cwd") == "/"
        assert os.getsid(one) != os.getsid(0)
        assert os.readlink(f"/proc/{one}/fd/0") == "/dev/null"
        assert os.readlink(f"/proc/{one}/fd/1") == home.home.log
    assert parent_of(parent_of(pid)) != os.getpid()


def test_a_daemon_started_by_a_job_is_not_part_of_that_job(home: StokerHome) -> None:
    # What the job starts belongs to another home, whose daemon must outlive the job.
    (home.root / "inner").mkdir()
    inner = StokerHome(home.root / "inner")
    try:
        home.start()
        job = home.submit(
            sys.executable, "-m", "stoker", "add", "--gpus", "0", "--", "true",
            gpus=0, env={"STOKER_HOME": inner.home.root, "PYTHONPATH": SRC},
        )  # fmt: skip
        assert home.until_final(job)[0]["state"] == "succeeded"
        environ = Path(f"/proc/{inner.daemon_pid()}/environ").read_bytes()
        assert b"STOKER_ATTEMPT_ID" not in environ
        assert len(inner.daemons()) == 1
    finally:
        inner.clean_up()


def test_jobs_started_with_the_daemon_inherit_none_of_its_descriptors(stoker: StokerHome) -> None:
    # They are queued before and start in its very first turn.
    stoker.call("pause")
    stoker.stoker("daemon", "stop")
    stoker.start()
    job = stoker.submit("ls", "/proc/self/fd")
    stoker.kill_daemon()
    database_says_go(stoker)
    stoker.start()
    stoker.until_final(job)
    assert stoker.log_of(job).split() == ["0", "1", "2", "3"]


def test_a_daemon_keeps_none_of_the_descriptors_of_the_command_that_started_it(
    home: StokerHome,
) -> None:
    """`exec 9>lock; flock 9; stoker add ...` in a cron job must not hold the lock for ever."""
    fd = os.open(home.work / "lock", os.O_WRONLY | os.O_CREAT)
    high = fcntl.fcntl(fd, fcntl.F_DUPFD, 200)
    with home.popen("add", "--gpus", "0", "--", "ls", "/proc/self/fd", pass_fds=[fd, high]) as add:
        assert add.wait() == 0
    os.close(fd)
    os.close(high)
    home.until_final(1)
    assert home.log_of(1).split() == ["0", "1", "2", "3"]
    for pid in home.processes():
        assert str(home.work / "lock") not in map(
            os.path.realpath, Path(f"/proc/{pid}/fd").iterdir()
        )


def database_says_go(home: StokerHome) -> None:
    """Undo `pause` in the file, as if the daemon had died just before it could start anything."""
    import sqlite3

    with sqlite3.connect(home.home.database) as connection:
        connection.execute("UPDATE settings SET value = '0' WHERE name = 'paused'")
    connection.close()


def test_daemon_run_stands_for_the_daemon_and_passes_a_stop_on(home: StokerHome) -> None:
    service = home.popen("daemon", "run", stderr=subprocess.PIPE)
    eventually(lambda: home.daemons(), "the daemon runs")
    eventually(lambda: home.cli("daemon", "status").code == 0)
    job = home.submit("sleep", "600", gpus=0)
    pid = home.until_pid(job)
    service.send_signal(signal.SIGTERM)
    service.communicate(timeout=60)
    assert service.returncode == 0
    assert not home.daemons() and is_running(pid)


def test_daemon_run_fails_if_the_daemon_dies(home: StokerHome) -> None:
    service = home.popen("daemon", "run", stderr=subprocess.PIPE)
    eventually(lambda: home.cli("daemon", "status").code == 0)
    home.kill_daemon()
    _, err = service.communicate(timeout=60)
    assert service.returncode == 1 and b"the daemon died" in err


def test_install_service_writes_a_unit_that_stops_only_its_own_process(home: StokerHome) -> None:
    printed = home.stoker("daemon", "install-service", "--print")
    assert "KillMode=process" in printed
    assert f"STOKER_HOME={home.home.root}" in printed
    ran = home.cli("daemon", "install-service")
    unit = home.root / ".config" / "systemd" / "user" / "stoker.service"
    assert ran.code == 0 and unit.read_text() == printed
    assert "loginctl enable-linger" in ran.err and "enable --now stoker" in ran.err
    assert home.cli("daemon", "install-service").code == 0
    unit.write_text("[Service]\n")
    refused = home.cli("daemon", "install-service")
    assert refused.code == 1 and "--force" in refused.err and unit.read_text() == "[Service]\n"
    assert home.cli("daemon", "install-service", "--force").code == 0
    assert unit.read_text() == printed
    assert not home.daemons(), "none of this needs a daemon"


def test_an_installed_unit_starts_a_daemon(home: StokerHome) -> None:
    unit = home.stoker("daemon", "install-service", "--print")
    command = next(line for line in unit.splitlines() if line.startswith("ExecStart="))
    words = command.removeprefix("ExecStart=").split()
    service = subprocess.Popen(words, env=home.env, stderr=subprocess.DEVNULL)
    eventually(lambda: home.cli("daemon", "status").code == 0)
    service.terminate()
    assert service.wait(60) == 0


def test_homes_are_isolated_from_each_other(home: StokerHome, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    other = StokerHome(tmp_path / "b")
    try:
        home.start(gpus="0")
        other.start(gpus="0")
        assert home.daemon_pid() != other.daemon_pid()
        assert home.submit("true") == 1 and other.submit("true") == 1
        other.stoker("daemon", "stop", "--kill")
        assert home.until_final(1)[0]["state"] == "succeeded"
    finally:
        other.clean_up()


def test_without_stoker_home_state_is_in_the_xdg_state_directory(home: StokerHome) -> None:
    env = {k: v for k, v in home.env.items() if k != "STOKER_HOME"}
    base = home.root / "xdg state"
    base.mkdir()
    words = home.command("daemon", "status", "--json")
    for extra, expected in (
        ({"XDG_STATE_HOME": str(base)}, base / "stoker"),
        ({}, home.root / ".local" / "state" / "stoker"),
    ):
        done = subprocess.run(words, env=env | extra, capture_output=True, cwd=home.work)
        assert json.loads(done.stdout)["socket"] == str(expected / "stoker.sock")


def test_the_path_of_the_home_may_be_longer_than_a_socket_address(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    stoker = StokerHome(deep)
    try:
        assert stoker.add("--gpus", "0", "--", "true") == 1
        assert stoker.until_final(1)[0]["state"] == "succeeded"
    finally:
        stoker.clean_up()


def test_a_command_that_was_stopped_while_it_starts_the_daemon_keeps_no_other_waiting(
    home: StokerHome,
) -> None:
    """By Ctrl-Z, say: it has the lock of those who start one, and will not give it back."""
    Path(home.home.root).mkdir(mode=0o700, exist_ok=True)
    script = (
        "import fcntl, os, signal, sys\n"
        "fd = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR, 0o600)\n"
        "fcntl.flock(fd, fcntl.LOCK_EX)\n"
        "os.write(fd, b'%d\\n' % os.getpid())\n"
        "os.kill(os.getpid(), signal.SIGSTOP)\n"
    )
    words = [sys.executable, "-c", script, home.home.lock + ".start", "stoker"]
    with subprocess.Popen(words) as stopped:
        try:
            os.waitid(os.P_PID, stopped.pid, os.WSTOPPED | os.WNOWAIT)
            assert home.cli("ls").code == 0
        finally:
            stopped.kill()


def test_a_service_beside_a_running_daemon_is_refused_and_leaves_it_alone(
    home: StokerHome,
) -> None:
    home.start(gpus="0")
    [pid] = home.daemons()
    ran = home.cli("daemon", "run")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"stoker: a daemon runs already: process {pid}; ")
    assert home.daemons() == [pid]
