"""A job that has run for a second holds what it starts, wherever that goes: it has a cgroup."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest

from stoker.executors.cgroups import Cgroups, cgroup_of, cgroups
from stoker_home import StokerHome, is_running, pid_in
from waiting import eventually

# Its session, its environment and its parents are not the job's any more.
ESCAPES = "(env -i PATH=\"$PATH\" setsid sh -c 'echo $$ > {pid}; exec sleep 600' &)"


@pytest.fixture(autouse=True)
def can_be_made() -> None:
    if not isinstance(cgroups(uuid4().hex), Cgroups):
        pytest.skip("no cgroup can be made here: there is no version 2, or it is not permitted")


@pytest.fixture
def strays() -> Iterator[list[int]]:
    """Processes that no mark tells; they are ended with the test."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    eventually(lambda: not any(is_running(pid) for pid in pids))


def cgroup_of_job(pid: int) -> str:
    """The directory of the cgroup of the job, once its main process is in it."""

    def there() -> str | None:
        path = cgroup_of(pid)
        return path if "/stoker-" in path else None

    path = eventually(there, "the job has entered its cgroup")
    assert path is not None
    return next(str(at) for at in directories(path) if at.is_dir())


def directories(path: str) -> list[Path]:
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    return [Path(line.split()[4] + path) for line in mounts if " - cgroup2 " in line]


def entered(stoker: StokerHome, then: str, **fields: object) -> tuple[int, Path]:
    """A job that does what is said once it is in its cgroup; its id and that cgroup."""
    script = f"while [ ! -e go.$STOKER_JOB_ID ]; do sleep 0.05; done; {then}"
    job = stoker.submit("sh", "-c", script, gpus=0, cpus=0, **fields)
    directory = Path(cgroup_of_job(stoker.until_pid(job)))
    (stoker.work / f"go.{job}").touch()
    return job, directory


def cancel(stoker: StokerHome, job: int) -> None:
    stoker.call("cancel", select={"ids": [str(job)]})
    assert stoker.until_final(job)[0]["state"] == "cancelled"


def test_cancel_ends_what_has_left_session_environment_and_parents(
    stoker: StokerHome, strays: list[int]
) -> None:
    pid_file = stoker.work / "pid"
    job = stoker.submit("sh", "-c", f"sleep 2.5; {ESCAPES.format(pid=pid_file)}; exec sleep 600")
    strays.append(pid_in(pid_file))
    cancel(stoker, job)
    assert not is_running(strays[0])


def test_the_cgroup_of_a_job_goes_with_it(stoker: StokerHome) -> None:
    first, of_first = entered(stoker, "exec sleep 600")
    second, of_second = entered(stoker, ":")
    assert of_first.parent == of_second.parent and of_first != of_second
    assert stoker.until_final(second)[0]["state"] == "succeeded"
    eventually(lambda: not of_second.exists(), "the one of the job that ended is gone")
    assert of_first.exists()
    cancel(stoker, first)
    eventually(lambda: not of_first.parent.exists(), "nothing is left of them")


def test_a_cgroup_that_the_job_made_in_its_own_is_the_jobs_too(
    stoker: StokerHome, strays: list[int]
) -> None:
    pid_file = stoker.work / "pid"
    stays = ESCAPES.format(pid=pid_file)
    job, directory = entered(stoker, f"{stays}; exec sleep 600")
    strays.append(pid_in(pid_file))
    (directory / "mine").mkdir()
    (directory / "mine/cgroup.procs").write_text(str(strays[0]))
    cancel(stoker, job)
    assert not is_running(strays[0])
    eventually(lambda: not directory.exists(), "it is gone with what was in it")


def test_a_job_that_ends_by_itself_leaves_what_took_a_session_of_its_own(
    stoker: StokerHome, strays: list[int]
) -> None:
    pid_file = stoker.work / "pid"
    job, directory = entered(stoker, f"{ESCAPES.format(pid=pid_file)}; while [ ! -s {pid_file} ]; "
                             "do sleep 0.05; done")  # fmt: skip
    assert stoker.until_final(job)[0]["state"] == "succeeded"
    strays.append(pid_in(pid_file))
    assert is_running(strays[0])
    assert directory.exists(), "it is still in there"
    stoker.stoker("daemon", "stop")
    os.kill(strays[0], signal.SIGKILL)
    eventually(lambda: not is_running(strays[0]))
    stoker.start()
    assert not directory.parent.exists(), "what an earlier daemon left is removed"


def test_the_cgroup_goes_on_with_the_job_after_the_daemon_was_killed(
    stoker: StokerHome, strays: list[int]
) -> None:
    pid_file = stoker.work / "pid"
    job, directory = entered(stoker, f"{ESCAPES.format(pid=pid_file)}; exec sleep 600")
    strays.append(pid_in(pid_file))
    stoker.kill_daemon()
    stoker.start()
    cancel(stoker, job)
    assert not is_running(strays[0])
    eventually(lambda: not directory.parent.exists())


def test_an_adopted_job_that_was_being_stopped_takes_all_of_its_cgroup_along(
    stoker: StokerHome, strays: list[int]
) -> None:
    """Its main process ended while no daemon was there."""
    pid_file = stoker.work / "pid"
    stubborn = f"(env -i setsid sh -c 'trap \"\" TERM; echo $$ > {pid_file}; while :; do " \
        "sleep 0.05; done' &)"  # fmt: skip
    job, directory = entered(stoker, f"{stubborn}; exec sleep 600", grace_ms=600_000)
    strays.append(pid_in(pid_file))
    main = stoker.until_pid(job)
    stoker.call("cancel", select={"ids": [str(job)]})
    eventually(lambda: not is_running(main), "the main process has ended")
    stoker.kill_daemon()
    stoker.start()
    assert stoker.job(job)["state"] == "stopping", "it is not over while one of it is there"
    os.kill(strays[0], signal.SIGKILL)
    assert stoker.until_final(job)[0]["state"] == "cancelled"
    eventually(lambda: not directory.exists())


def test_a_daemon_that_was_started_by_a_job_outlives_it(stoker: StokerHome, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    inner = StokerHome(tmp_path / "inner")
    try:
        words = " ".join(inner.command("ls"))
        job, directory = entered(
            stoker, f"env STOKER_HOME={inner.home.root} {words}; exec sleep 600"
        )
        eventually(inner.is_reachable, "the job has started a daemon")
        daemon, keeper = inner.daemon_pid(), inner.keeper_pid()
        assert cgroup_of(daemon) == cgroup_of(keeper) == cgroup_of(stoker.daemon_pid())
        of_inner = inner.submit("sleep", "600", gpus=0, cpus=0)
        inner.until_pid(of_inner)
        cancel(stoker, job)
        assert inner.daemon_pid() == daemon and is_running(keeper)
        assert inner.job(of_inner)["state"] == "running"
        eventually(lambda: not directory.exists())
    finally:
        inner.clean_up()


def test_an_attached_job_has_a_cgroup_too(stoker: StokerHome, strays: list[int]) -> None:
    pid_file, go = stoker.work / "pid", stoker.work / "go"
    script = f"while [ ! -e {go} ]; do sleep 0.05; done; {ESCAPES.format(pid=pid_file)}; sleep 600"
    terminal = stoker.popen("run", "--gpus", "0", "--", "sh", "-c", script)
    try:
        job = eventually(lambda: list(stoker.jobs()), "it is queued")[0]
        directory = cgroup_of_job(stoker.until_pid(job))
        assert directory not in map(str, directories(cgroup_of(terminal.pid)))
        go.touch()
        strays.append(pid_in(pid_file))
        cancel(stoker, job)
        assert not is_running(strays[0])
    finally:
        terminal.kill()
        terminal.wait()


def test_a_short_job_has_none(stoker: StokerHome) -> None:
    job = stoker.submit("cat", "/proc/self/cgroup", gpus=0, cpus=0)
    assert stoker.until_final(job)[0]["state"] == "succeeded"
    assert "/stoker-" not in stoker.log_of(job)
