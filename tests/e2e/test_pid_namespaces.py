"""`stoker run` where client and daemon are in PID namespaces of their own, as in containers."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from stoker_home import StokerHome, is_running, pid_in
from waiting import eventually

APART = ["unshare", "--pid", "--fork", "--mount-proc"]


def why_not() -> str:
    """Why no PID namespace can be had here; empty if it can."""
    try:
        tried = subprocess.run([*APART, "true"], capture_output=True, timeout=60)
    except OSError as error:
        return f"unshare: {error.strerror}"
    return tried.stderr.decode().strip() if tried.returncode else ""


WHY_NOT = why_not()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=f"no PID namespace: {WHY_NOT}")


def popen(home: StokerHome, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(words, env=home.env, cwd=home.work, stdin=-3, stdout=-3, stderr=-3)


class Job:
    """What a job does: it tells that it is there, and waits until it is let go."""

    def __init__(self, home: StokerHome) -> None:
        self._began, self._go = home.work / "began", home.work / "go"
        loop = f"until [ -e {self._go} ]; do sleep 0.02; done"
        self.command = ["sh", "-c", f"echo $$ > {self._began}; {loop}; exit 7"]

    def until_begun(self) -> int:
        return pid_in(self._began)

    def let_go(self) -> None:
        self._go.touch()


@pytest.fixture
def one(home: StokerHome) -> StokerHome:
    home.start(gpus="0")
    return home


@pytest.fixture
def inside(home: StokerHome) -> Iterator[StokerHome]:
    """A Stoker whose daemon is in a PID namespace of its own, with one GPU."""
    command = " ".join(home.command("daemon", "start"))
    space = popen(home, *APART, "--kill-child", "sh", "-c", f"{command}; exec sleep 600")
    eventually(home.is_reachable, "the daemon is there")
    home.call("config_set", name="gpus", value="0")
    yield home
    space.kill()
    space.wait()


def test_a_client_in_a_namespace_below_the_daemons_is_watched_and_has_its_exit_code(
    one: StokerHome,
) -> None:
    job = Job(one)
    client = popen(one, *APART, *one.command("run", "--", *job.command))
    inner = job.until_begun()
    pid = one.until_pid(1)
    assert pid != inner and is_running(pid)
    job.let_go()
    assert client.wait(60) == 7
    ended = one.until_final(1)[0]
    assert (ended["state"], ended["exit_code"]) == ("failed", 7)


def test_a_client_in_a_namespace_below_the_daemons_is_stopped_and_adopted(one: StokerHome) -> None:
    job = Job(one)
    client = popen(one, *APART, *one.command("run", "--", *job.command))
    job.until_begun()
    pid = one.until_pid(1)
    one.kill_daemon()
    one.start()
    assert one.job(1)["state"] == "running"
    one.call("cancel", select={"ids": ["1"]})
    assert one.until_final(1)[0]["state"] == "cancelled"
    assert not is_running(pid)
    assert client.wait(60) == 143


def test_a_daemon_that_can_not_see_a_job_goes_by_what_its_client_puts_down(
    inside: StokerHome,
) -> None:
    job = Job(inside)
    client = inside.popen("run", "--", *job.command, stdout=-3, stderr=-3)
    job.until_begun()
    after = inside.submit("true")
    inside.until_state(1, "running")
    eventually(lambda: inside.job(1)["started_at_ms"], "its start is known")
    assert inside.job(after)["state"] == "waiting"
    job.let_go()
    assert client.wait(60) == 7
    ended = inside.until_final(1)[0]
    assert (ended["state"], ended["exit_code"], ended["pid"]) == ("failed", 7, None)
    assert inside.until_final(after)[0]["state"] == "succeeded"


def test_a_daemon_that_can_not_see_a_job_has_its_client_stop_it(inside: StokerHome) -> None:
    job = Job(inside)
    client = inside.popen("run", "--", *job.command, stdout=-3, stderr=-3)
    pid = job.until_begun()
    eventually(lambda: inside.job(1)["started_at_ms"], "its start is known")
    inside.call("cancel", select={"ids": ["1"]})
    assert inside.until_final(1)[0]["state"] == "cancelled"
    assert not is_running(pid)
    assert client.wait(60) == 143


def test_a_job_that_can_not_be_seen_keeps_its_gpu_though_its_client_was_killed(
    inside: StokerHome,
) -> None:
    job = Job(inside)
    client = inside.popen("run", "--", *job.command, stdout=-3, stderr=-3)
    pid = job.until_begun()
    eventually(lambda: inside.job(1)["started_at_ms"], "its start is known")
    client.kill()
    client.wait()
    after = inside.submit("true")
    inside.call("pause")
    inside.call("resume")  # There are turns, and nothing starts in them.
    assert is_running(pid)
    assert inside.job(1)["state"] == "running" and inside.job(after)["state"] == "waiting"
    job.let_go()
    assert inside.until_final(1)[0]["state"] == "lost", "nothing tells how it ended"
    assert inside.until_final(after)[0]["state"] == "succeeded"


@pytest.mark.parametrize("words", [("stop",), ("stop", "--kill"), ("stop", "--drain")])
def test_a_daemon_that_was_stopped_from_another_namespace_has_gone(
    one: StokerHome, words: tuple[str, ...]
) -> None:
    job = one.submit("sh", "-c", "trap 'sleep 0.5; exit' TERM; sleep 2 & wait")
    one.until_pid(job)
    ran = subprocess.run([*APART, *one.command("daemon", *words)], env=one.env, capture_output=True)
    assert ran.returncode == 0, ran
    eventually(lambda: not one.daemons(), "its last breath")
    assert b"the daemon has stopped" in ran.stderr


def test_a_daemon_in_a_namespace_below_is_stopped_from_its_host(inside: StokerHome) -> None:
    ran = inside.cli("daemon", "stop")
    assert ran.code == 0 and not inside.daemons(), ran
