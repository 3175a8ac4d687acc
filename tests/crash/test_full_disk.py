"""A disk that is full, for real: a small file system, filled to the last byte."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from small_disk import SmallDisk, disk
from stoker.errors import StokerError
from stoker_home import Ran, StokerHome, is_running, lines_of, pid_in
from waiting import Steady, eventually

__all__ = ["disk"]

MIB = 1024 * 1024


@pytest.fixture
def on_disk(disk: SmallDisk) -> Iterator[StokerHome]:
    stoker = StokerHome(disk.root)
    try:
        stoker.start(gpus="0-3")
        yield stoker
    finally:
        stoker.clean_up()


def test_running_jobs_go_on_submissions_are_refused_and_all_works_again_with_room(
    disk: SmallDisk, on_disk: StokerHome, tmp_path: Path
) -> None:
    stoker = on_disk
    go, beats = tmp_path / "go", tmp_path / "beats"
    job = stoker.submit(
        "sh", "-c", f"until [ -e {go} ]; do echo >> {beats}; sleep 0.02; done; exit 17"
    )
    pid = stoker.until_pid(job)
    disk.fill()
    big = {f"NOISE_{n}": os.urandom(50_000).hex() for n in range(12)}
    refused = stoker.cli("add", "--", "true", env=big)
    assert refused.code == 1 and refused.out == ""
    assert refused.err.count("\n") == 1
    assert "can't be saved" in refused.err and "make room" in refused.err
    assert list(stoker.jobs()) == [job]
    assert stoker.job(job)["state"] == "running"
    seen = len(lines_of(beats))
    eventually(lambda: len(lines_of(beats)) > seen, "the running job goes on")
    # It ends while nothing can be written: the truth waits with its zombie.
    go.touch()
    eventually(lambda: not is_running(pid))
    disk.make_room()
    assert stoker.until_final(job)[0]["exit_code"] == 17
    assert stoker.until_final(stoker.add("--", "sh", "-c", "exit 18"))[0]["exit_code"] == 18
    assert "Traceback" not in stoker.log_text()


def test_a_daemon_that_had_a_full_disk_is_as_quick_as_before(
    disk: SmallDisk, on_disk: StokerHome
) -> None:
    disk.fill()
    big = {"NOISE": os.urandom(400_000).hex()}
    with pytest.raises(Exception, match="can't be saved"):
        on_disk.submit_all([{"argv": ["true"]}], env=big)
    disk.make_room()
    job = on_disk.submit("sleep", "600")
    on_disk.until_state(job, "running")
    pid = on_disk.daemon_pid()

    def switches() -> int:
        text = Path(f"/proc/{pid}/status").read_text()
        return int(text.split("voluntary_ctxt_switches:")[1].split()[0])

    # An idle daemon sleeps until it is asked: it does not look every second whether all is well.
    eventually(Steady(switches, for_s=2.5), "the daemon is idle", 30)


def test_a_daemon_killed_on_a_full_disk_loses_no_exit_code(
    disk: SmallDisk, on_disk: StokerHome, tmp_path: Path
) -> None:
    stoker = on_disk
    go = tmp_path / "go"
    job = stoker.submit("sh", "-c", f"until [ -e {go} ]; do sleep 0.02; done; exit 19")
    pid = stoker.until_pid(job)
    disk.fill()
    stoker.kill_daemon()
    go.touch()
    eventually(lambda: not is_running(pid))
    disk.make_room()
    stoker.start()
    assert stoker.until_final(job)[0]["exit_code"] == 19


def test_a_daemon_that_can_not_start_on_a_full_disk_says_so(
    disk: SmallDisk, on_disk: StokerHome
) -> None:
    on_disk.stoker("daemon", "stop")
    disk.fill()
    ran = on_disk.cli("ls")
    assert ran.code in (0, 4)
    if ran.code:
        assert ran.err.count("\n") == 1, ran.err
    disk.make_room()
    assert on_disk.cli("ls").code == 0


# ---------------------------------------------------------------------- stopping what fills it

WRITES_FOR_EVER = "while :; do head -c 1M /dev/zero; done 2>/dev/null"
ANSWERS_WITHIN_S = 15  # on a loaded machine; it is a matter of milliseconds


def is_full(disk: SmallDisk) -> bool:
    return os.statvfs(disk.root).f_bavail == 0


def writer(
    stoker: StokerHome, disk: SmallDisk, beside: Path, first: str = "", **fields: int
) -> tuple[int, int]:
    """A job that has filled the disk with its log and goes on trying: its id and pid."""
    told = beside / "pid"
    command = f"echo $$ > {told}; {first}{WRITES_FOR_EVER}"
    job = stoker.submit("sh", "-c", command, **({"grace_ms": 1000} | fields))
    pid = pid_in(told)
    eventually(lambda: is_full(disk), "its log has filled the disk")
    return job, pid


def in_time(stoker: StokerHome, *words: str) -> Ran:
    """A command line that must not hang."""
    process = stoker.popen(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, err = process.communicate(timeout=ANSWERS_WITHIN_S)
    finally:
        process.kill()
        process.wait()
    return Ran(process.returncode, out.decode(), err.decode())


@pytest.mark.parametrize("first", ["", "trap '' TERM; "])
def test_a_job_that_fills_the_disk_and_goes_on_writing_can_be_cancelled(
    disk: SmallDisk, on_disk: StokerHome, tmp_path: Path, first: str
) -> None:
    job, pid = writer(on_disk, disk, tmp_path, first)
    ran = in_time(on_disk, "cancel", str(job))
    assert ran.code == 0, ran
    eventually(lambda: not is_running(pid), "it is stopped")
    assert on_disk.until_final(job)[0]["state"] == "cancelled"
    assert "Traceback" not in on_disk.log_text()


def test_the_daemon_can_be_stopped_together_with_a_job_that_fills_the_disk(
    disk: SmallDisk, on_disk: StokerHome, tmp_path: Path
) -> None:
    _, pid = writer(on_disk, disk, tmp_path)
    ran = in_time(on_disk, "daemon", "stop", "--kill")
    assert ran.code == 0, ran
    assert not is_running(pid)
    assert not on_disk.is_reachable()


def test_removing_an_old_job_makes_room_on_a_full_disk(
    disk: SmallDisk, on_disk: StokerHome
) -> None:
    old = on_disk.submit("head", "-c", "3M", "/dev/zero")
    on_disk.until_final(old)
    disk.fill()
    ran = in_time(on_disk, "rm", str(old))
    assert ran.code == 0, ran
    eventually(lambda: not is_full(disk), "its log is gone")
    assert on_disk.until_final(on_disk.submit("true"))[0]["state"] == "succeeded"


def test_a_time_limit_stops_a_job_that_fills_the_disk(
    disk: SmallDisk, on_disk: StokerHome, tmp_path: Path
) -> None:
    job, pid = writer(on_disk, disk, tmp_path, time_limit_ms=4000)
    eventually(lambda: not is_running(pid), "its time is over")
    [ended] = on_disk.until_final(job)
    assert ended["state"] == "failed" and "time limit" in ended["reason"]


@pytest.fixture
def no_reserve(on_disk: StokerHome) -> StokerHome:
    reserve = Path(on_disk.home.root, "reserve")
    eventually(reserve.exists, "the daemon keeps some room")
    reserve.unlink()
    return on_disk


@pytest.mark.parametrize("first", ["", "trap '' TERM; "])
def test_a_job_is_stopped_even_if_that_can_not_be_put_on_record(
    disk: SmallDisk, no_reserve: StokerHome, tmp_path: Path, first: str
) -> None:
    stoker = no_reserve
    job, pid = writer(stoker, disk, tmp_path, first, retries=3)
    until_nothing_is_saved(stoker)
    ran = in_time(stoker, "cancel", str(job))
    assert ran.code == 0, ran
    assert "is being stopped" in ran.err and "not on record" in ran.err
    eventually(lambda: not is_running(pid), "it is stopped")
    assert stoker.job(job)["state"] in ("running", "stopping"), "by the record"
    refused = in_time(stoker, "add", "--", "true")
    assert refused.code == 1 and "make room" in refused.err
    Path(stoker.job(job)["log"]).unlink()
    [ended] = stoker.until_final(job)
    assert (ended["state"], ended["attempt"]) == ("cancelled", 1)
    assert "Traceback" not in stoker.log_text()


def test_the_daemon_ends_with_its_jobs_even_if_that_can_not_be_put_on_record(
    disk: SmallDisk, no_reserve: StokerHome, tmp_path: Path
) -> None:
    stoker = no_reserve
    job, pid = writer(stoker, disk, tmp_path)
    until_nothing_is_saved(stoker)
    log = Path(stoker.job(job)["log"])
    ran = in_time(stoker, "daemon", "stop", "--kill")
    assert ran.code == 0, ran
    assert "not on record" in ran.err
    assert not is_running(pid)
    log.unlink()
    stoker.start()
    assert stoker.until_final(job)[0]["signal"] == 15, "its own end, seen by the keeper"


def until_nothing_is_saved(stoker: StokerHome) -> None:
    """Use up what room is left within the files that are there."""

    def is_refused(noise: str) -> bool:
        try:
            stoker.submit_all([{"argv": ["true"], "hold": True}], env={"NOISE": noise})
        except StokerError:
            return True
        return False

    eventually(
        lambda: is_refused(os.urandom(20_000).hex()) and is_refused(""),
        "not even a short commit can be saved",
    )


def test_the_reserve_is_made_again_when_there_is_room(
    disk: SmallDisk, on_disk: StokerHome, tmp_path: Path
) -> None:
    reserve = Path(on_disk.home.root, "reserve")
    whole = eventually(lambda: reserve.exists() and reserve.stat().st_size, "there is some")
    assert reserve.stat().st_blocks * 512 >= whole, "and it is more than a number"
    job, _ = writer(on_disk, disk, tmp_path)
    on_disk.stoker("cancel", str(job))
    on_disk.until_final(job)
    assert reserve.stat().st_size < whole
    on_disk.stoker("rm", str(job))
    eventually(lambda: reserve.stat().st_size == whole, "it is whole again")
