"""Only the owner gets in, everything is private from the first moment, secrets stay secret."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest

from stoker_home import StokerHome

NOBODY = 65534


def test_everything_in_the_home_is_private_whatever_the_umask(home: StokerHome) -> None:
    mask = os.umask(0)
    try:
        home.add("--on", "0", "--", "sh", "-c", "echo hello; exit 1")
        home.until_final(1)
        home.stoker("run", "--", "true")
        home.stoker("daemon", "restart")
    finally:
        os.umask(mask)
    checked = 0
    for directory, _, files in os.walk(home.home.root):
        assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700, directory
        for name in files:
            mode = os.lstat(os.path.join(directory, name)).st_mode
            assert stat.S_IMODE(mode) == 0o600, (name, oct(mode))
            checked += 1
    assert checked >= 6
    assert stat.S_ISSOCK(os.stat(home.home.socket).st_mode)


SPY = """
import builtins, os
real_open, real_mkdir, real_chmod, real_file = os.open, os.mkdir, os.chmod, builtins.open
def note(*words):
    if str(words[1]).startswith(HOME):
        fd = real_open(TRACE, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        os.write(fd, " ".join(map(str, words)).encode() + b"\\n")
        os.close(fd)
def spied_open(path, flags, mode=0o777, **more):
    if flags & os.O_CREAT:
        note("open", path, mode)
    return real_open(path, flags, mode, **more)
def spied_mkdir(path, mode=0o777, **more):
    note("mkdir", path, mode)
    return real_mkdir(path, mode, **more)
def spied_chmod(path, mode, **more):
    note("chmod", path, mode)
    return real_chmod(path, mode, **more)
def spied_file(path, mode="r", *args, **more):
    if isinstance(path, str) and set(mode) & set("wxa+"):
        note("file", path, 0o666)
    return real_file(path, mode, *args, **more)
os.open, os.mkdir, os.chmod, builtins.open = spied_open, spied_mkdir, spied_chmod, spied_file
"""


def test_files_are_private_from_their_first_moment(home: StokerHome) -> None:
    """Each is made with its mode: nothing is opened wide and closed later."""
    trace, hook = home.root / "trace", home.root / "hook"
    hook.mkdir()
    constants = f"HOME, TRACE = {home.home.root!r}, {str(trace)!r}\n"
    (hook / "sitecustomize.py").write_text(constants + SPY)
    home.env["PYTHONPATH"] = f"{hook}:{home.env['PYTHONPATH']}"
    home.add("--on", "0", "--", "true")
    home.until_final(1)
    home.stoker("run", "--", "true")
    home.stoker("rm", "1")
    made = [line.split() for line in trace.read_text().splitlines()]
    assert {kind for kind, _, _ in made} == {"open", "mkdir"}
    names = {name.rpartition("/")[2] for _, name, _ in made}
    assert names >= {
        "home", "attempts", "ledgers", "1.1.log", "stoker.db", "daemon.lock", "daemon.log"
    }  # fmt: skip
    assert any(name.startswith(".new-") for name in names), "a folder of attempts is made aside"
    for kind, name, mode in made:
        assert int(mode) == (0o600 if kind == "open" else 0o700), (kind, name)


def test_a_home_that_others_can_write_to_is_refused(home: StokerHome) -> None:
    os.makedirs(home.home.root)
    os.chmod(home.home.root, 0o777)
    ran = home.cli("add", "--gpus", "0", "--", "true")
    assert ran.code == 1 and "can be written by other users" in ran.err
    assert "chmod go-w" in ran.err and ran.err.count("\n") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_is_refused_by_the_kernels_word_for_who_he_is(stoker: StokerHome) -> None:
    # Let the file modes be no hindrance, so that only the peer's credentials are left.
    address = Path("/tmp") / f"stoker-peer-{os.getpid()}.sock"
    address.unlink(missing_ok=True)
    os.link(stoker.home.socket, address)
    os.chmod(address, 0o777)
    try:
        request = b'{"op": "submit", "jobs": [{"argv": ["true"]}], "cwd": "/", "env": {}}\n'
        answer = asked_as(NOBODY, str(address), request)
        assert answer["ok"] is False
        assert answer["error"]["message"] == "this daemon belongs to another user"
        assert stoker.jobs() == {}
        assert "refused a connection from user id 65534" in stoker.log_text()
        assert asked_as(0, str(address), b'{"op": "hello"}\n')["ok"] is True
    finally:
        address.unlink()


def asked_as(uid: int, address: str, request: bytes) -> dict[str, Any]:
    """What the daemon answers a process of that user."""
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(30)
                sock.connect(address)
                try:
                    sock.sendall(request)
                except OSError:
                    pass
                os.write(into, sock.makefile("rb").readline())
        finally:
            os._exit(0)
    os.close(into)
    with os.fdopen(out, "rb") as reader:
        line = reader.read()
    os.waitpid(pid, 0)
    found: dict[str, Any] = json.loads(line)
    return found


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_does_not_even_get_to_the_socket(stoker: StokerHome) -> None:
    for path in (stoker.root, *stoker.root.parents):
        if path != Path("/tmp") and path.is_relative_to("/tmp"):
            os.chmod(path, 0o755)  # The home's own mode is to be what is in the way.
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            with stoker.client() as client:
                client.call("hello")
        except BaseException as error:
            os.write(into, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(into)
    with os.fdopen(out) as reader:
        told = reader.read()
    os.waitpid(pid, 0)
    assert told.startswith("Unreachable: ") and "Permission denied" in told


def test_no_environment_appears_in_listings_or_in_the_daemons_log(stoker: StokerHome) -> None:
    secrets = {"API_TOKEN": "s3cr3t-of-the-shell", "QUOTED": "s3cr3t 'two'"}
    option = "s3cr3t-of-an-option"
    script = 'printf "%s" "$API_TOKEN$KEY" | sha256sum'
    job = int(stoker.cli("add", "--env", f"KEY={option}", "--", script, env=secrets).out)
    stoker.until_final(job)
    expected = hashlib.sha256(f"{secrets['API_TOKEN']}{option}".encode()).hexdigest()
    assert stoker.log_of(job).startswith(expected), "the job itself has both"
    stoker.call("pause")
    waiting = int(stoker.cli("add", "--env", f"KEY={option}", "--", "true", env=secrets).out)
    stoker.cli("edit", str(waiting), "--env", f"OTHER={option}", env=secrets)
    stoker.cli(
        "run", "--hold", "--env", f"K2={option}", "--after", "999", "--", "true", env=secrets
    )
    told = [stoker.log_text()]
    for words in (["ls"], ["ls", "--all"], ["show", "1-2"], ["why", "1-2"], ["status"], [],
                  ["config"], ["gpus"], ["daemon", "status"]):  # fmt: skip
        for form in ([], ["--json"]):
            shown = stoker.cli(*words, *form)
            told += [shown.out, shown.err]
    # Malformed messages are told with what was wrong, and not with what was in them.
    bad = {"op": "submit", "jobs": 1, "cwd": "/", "env": {"API_TOKEN": "s3cr3t-of-the-shell"}}
    with stoker.client() as client:
        try:
            client.call(str(bad.pop("op")), **bad)
        except Exception as error:
            told.append(str(error))
    stoker.kill_daemon()
    stoker.start()
    told.append(stoker.log_text())
    for text in told:
        assert "s3cr3t" not in text
        assert "QUOTED" not in text


def test_removed_jobs_take_their_environment_out_of_the_database(stoker: StokerHome) -> None:
    env = {**stoker.env, "API_TOKEN": "x" * 50}
    job = stoker.submit_all([{"argv": ["true"]}], env=env)[0]
    stoker.until_final(job)
    stoker.stoker("rm", str(job))
    connection = sqlite3.connect(stoker.home.database)
    assert connection.execute("SELECT count(*) FROM environments").fetchone() == (0,)
    connection.close()


def test_a_job_sees_the_environment_of_its_submission_and_not_of_the_daemon(
    home: StokerHome,
) -> None:
    home.env["OF_THE_DAEMON"] = "1"
    home.stoker("daemon", "start")
    del home.env["OF_THE_DAEMON"]
    job = home.add("--gpus", "0", "--", "env")
    home.until_final(job)
    seen = home.log_of(job)
    assert "OF_THE_DAEMON" not in seen and f"HOME={home.root}\n" in seen
    assert "CUDA_VISIBLE_DEVICES=\n" in seen, "a job without GPUs sees none"
