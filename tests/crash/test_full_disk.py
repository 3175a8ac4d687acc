"""A disk that is full, for real: a small file system, filled to the last byte."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker_home import StokerHome, is_running, lines_of
from waiting import Steady, eventually

MIB = 1024 * 1024


class SmallDisk:
    """A file system of a few MiB."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._filler = root / "filler"

    def fill(self) -> None:
        with self._filler.open("ab", buffering=0) as file:
            for size in (65_536, 4096, 1):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError:
                    pass

    def make_room(self) -> None:
        self._filler.unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a file system")
    root = tmp_path / "disk"
    root.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "stoker-test", str(root)]
    mounted = subprocess.run(mount, capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"a file system can't be mounted here: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(root)
    finally:
        subprocess.run(["umount", "-l", str(root)], check=True)


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
    assert ran.code in (0, 1)
    if ran.code:
        assert ran.err.count("\n") == 1, ran.err
    disk.make_room()
    assert on_disk.cli("ls").code == 0
