"""More clients than descriptors: questions are answered, jobs start, and the log stays short."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from stoker.api.paths import socket_address
from stoker_home import StokerHome
from waiting import eventually

FILES = 1024
CLIENTS = 1100


@pytest.fixture
def few_files(tmp_path: Path) -> Iterator[StokerHome]:
    """One whose daemon may open 1,024 files, and can't raise that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * CLIENTS:
        pytest.skip("this machine does not let a test open so many files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * CLIENTS), hard))
    home = StokerHome(tmp_path)
    try:
        start = [
            "import os, resource, sys",
            f"resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES}))",
            "os.execv(sys.executable, [sys.executable, '-m', 'stoker', 'daemon', 'start'])",
        ]
        subprocess.run([sys.executable, "-c", "\n".join(start)], env=home.env, check=True)
        yield home
    finally:
        home.clean_up()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def connected(stoker: StokerHome, request: Mapping[str, object]) -> socket.socket:
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    address, directory = socket_address(stoker.home.socket)
    client.connect(address)
    if directory >= 0:
        os.close(directory)
    client.sendall(json.dumps(request).encode() + b"\n")
    return client


def test_with_1100_waiting_clients_questions_are_answered_and_jobs_start(
    few_files: StokerHome,
) -> None:
    held = few_files.submit("true", gpus=0, hold=True)
    wait = {"op": "wait", "select": {"ids": [str(held)]}}
    with ExitStack() as stack:
        clients = [stack.enter_context(connected(few_files, wait)) for _ in range(CLIENTS)]
        # Those for whom there is no room are told so in one line; nothing is said to the others.
        told = []
        for client in clients:
            client.setblocking(False)

        def refused() -> int:
            for client in clients:
                try:
                    told.append(json.loads(client.recv(65_536)))
                    clients.remove(client)
                except BlockingIOError:
                    pass
            return len(told)

        eventually(lambda: refused() >= CLIENTS - FILES, "some are refused")
        assert {line["error"]["code"] for line in told} == {"too_many_clients"}
        assert "\n" not in told[0]["error"]["message"]
        assert str(held) in few_files.stoker("ls")
        ids = few_files.submit_all([{"argv": ["true"], "gpus": 0} for _ in range(200)])
        eventually(
            lambda: (
                {job["state"] for i, job in few_files.jobs().items() if i in ids} == {"succeeded"}
            ),
            "all jobs succeed",
        )
        assert few_files.call("status")["short"] is None
    assert few_files.stoker("ls")
    assert Path(few_files.home.log).stat().st_size < 100_000
    # There is room again for those that stay.
    few_files.stoker("release", str(held))
    assert few_files.until_final(held)[0]["state"] == "succeeded"


def test_a_wait_that_finds_no_room_says_so_once_and_comes_in_later(few_files: StokerHome) -> None:
    held = few_files.submit("true", gpus=0, hold=True)
    wait = {"op": "wait", "select": {"ids": [str(held)]}}
    with ExitStack() as stack:
        for _ in range(CLIENTS):
            stack.enter_context(connected(few_files, wait))
        one_more = few_files.popen("wait", str(held), stderr=subprocess.PIPE)
        assert one_more.stderr is not None
        line = one_more.stderr.readline().decode()
        assert "no room for another client" in line and "trying again" in line
    few_files.stoker("release", str(held))
    rest = one_more.stderr.read()
    assert (one_more.wait(), rest) == (0, b"")


def test_jobs_keep_the_limit_that_they_would_have_had(tmp_path: Path) -> None:
    """The daemon has a higher one, by either way of making a process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    ours = min(soft, 512)
    stoker = StokerHome(tmp_path)
    try:
        # This process may have more files open than that.
        low = ("sh", "-c", 'ulimit -S -n "$0"; exec "$@"', str(ours))
        subprocess.run([*low, *stoker.command("daemon", "start")], env=stoker.env, check=True)
        pid = stoker.daemon_pid()
        assert resource.prlimit(pid, resource.RLIMIT_NOFILE) == (hard, hard)
        for _ in range(3):
            job = stoker.submit("sh", "-c", "ulimit -S -n; ulimit -H -n", gpus=0)
            stoker.until_final(job)
            said = stoker.log_of(job).split()
            shown = "unlimited" if hard == resource.RLIM_INFINITY else str(hard)
            assert said == [str(ours), shown]
        assert resource.prlimit(pid, resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        stoker.clean_up()
