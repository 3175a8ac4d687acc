"""Stoker as the first process of a container: a PID namespace, whose first process is its life."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hosts import missing
from stoker_home import StokerHome, is_running, kill_and_wait, lines_of
from waiting import eventually


class Container:
    """`stoker daemon run` as process 1."""

    def __init__(self, home: StokerHome) -> None:
        self.home = home
        self.outside = subprocess.Popen(
            ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child",
             sys.executable, "-m", "stoker", "daemon", "run"],
            env=home.env, cwd=home.work, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        eventually(home.is_reachable, "its daemon answers")
        path = Path(f"/proc/{self.outside.pid}/task/{self.outside.pid}/children")
        self.first = int(path.read_text().split()[0])

    def daemon(self) -> int:
        """Its pid as it is seen from outside."""
        [pid] = eventually(self.home.daemons, "a daemon runs")
        return pid

    def end(self) -> str:
        """End it all; what was said."""
        if is_running(self.first):
            os.kill(self.first, signal.SIGKILL)
        _, err = self.outside.communicate(timeout=60)
        return err.decode()


@pytest.fixture
def container(home: StokerHome) -> Iterator[Container]:
    why = missing()
    if why:
        pytest.skip(f"no container can be made of namespaces here: {why}")
    made = Container(home)
    yield made
    made.end()


def wait_for_go(home: StokerHome, code: int, beat: str = "") -> tuple[int, Path]:
    go, ran = home.work / "go", home.work / "ran"
    script = f"echo >> {ran}; until [ -e {go} ]; do {beat} sleep 0.02; done; exit {code}"
    job = home.submit("sh", "-c", script, gpus=0)
    eventually(lambda: len(lines_of(ran)) == 1, "the job runs")
    return job, go


def test_the_death_of_the_daemon_is_not_the_containers_and_no_job_is_lost(
    container: Container,
) -> None:
    home = container.home
    has_ended = container.outside.poll
    job, go = wait_for_go(home, 23)
    for _ in range(2):
        kill_and_wait(container.daemon())
        eventually(lambda: home.is_reachable() or has_ended() is not None, "there is a new one")
        assert has_ended() is None, "the container has ended with it"
    assert is_running(container.first)
    go.touch()
    ended = home.until_final(job)[0]
    assert (ended["exit_code"], ended["attempt"]) == (23, 1)
    assert "the daemon died" in container.end()


def test_what_is_left_to_the_first_process_is_reaped(container: Container) -> None:
    home = container.home
    script = "setsid sh -c 'sleep 0.05' & exit 0"
    home.until_final(home.submit("sh", "-c", script, gpus=0))
    kill_and_wait(container.daemon())
    eventually(home.is_reachable, "there is a new daemon")

    def zombies() -> list[str]:
        children = Path(f"/proc/{container.first}/task/{container.first}/children").read_text()
        stats = [Path(f"/proc/{pid}/stat") for pid in children.split()]
        return [text for stat in stats if ") Z " in (text := stat.read_text())]

    eventually(lambda: not zombies(), "nobody stays a zombie")


def test_a_stopped_daemon_leaves_the_container_until_its_last_job_has_ended(
    container: Container,
) -> None:
    home = container.home
    beats = home.work / "beats"
    job, go = wait_for_go(home, 5, f"echo >> {beats};")
    home.call("shutdown", mode="leave")
    eventually(lambda: not home.daemons(), "the daemon has stopped")
    until = len(lines_of(beats)) + 250  # five seconds and more
    eventually(lambda: len(lines_of(beats)) > until, "the job goes on and on")
    assert is_running(container.first)
    go.touch()
    eventually(lambda: container.outside.poll() is not None, "the container has ended")
    assert container.outside.returncode == 0
    home.start()
    assert home.job(job)["exit_code"] == 5


def test_sigterm_ends_the_container_and_the_next_one_tells_what_was_lost(
    container: Container,
) -> None:
    home = container.home
    job, _ = wait_for_go(home, 5)
    os.kill(container.first, signal.SIGTERM)
    assert container.outside.wait(60) == 0
    again = Container(home)
    try:
        assert home.job(job)["state"] == "lost"
        assert "container ended" in home.job(job)["reason"]
    finally:
        again.end()
