"""A machine that is short of inodes, processes or files for a while: no job is failed by that."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker_home import StokerHome
from waiting import Steady, eventually

JOBS = 60


def until_named(stoker: StokerHome, job_id: int, words: str) -> None:
    """`why` and `stoker` say what is missing."""
    eventually(lambda: words in stoker.stoker("why", str(job_id)), f"why names {words!r}")
    eventually(lambda: words in stoker.stoker(), f"the overview names {words!r}")


def all_succeed_at_once(stoker: StokerHome, ids: list[int]) -> None:
    """None failed, none lost a retry, and none has more than the one attempt that ran."""
    for job in stoker.until_final(*ids):
        assert (job["state"], job["attempt"]) == ("succeeded", 1), job
        assert len(job["attempts"]) == 1, job
    assert "can't be started" not in stoker.stoker()


def submit(stoker: StokerHome, **fields: Any) -> list[int]:
    return stoker.submit_all([{"argv": ["true"], "gpus": 0, **fields} for _ in range(JOBS)])


# ---------------------------------------------------------------------- inodes


class FewFiles:
    """A file system on which no more files can be made while `used_up`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._filler = root / "filler"

    def use_up(self) -> None:
        self._filler.mkdir()
        number = 0
        try:
            while True:
                (self._filler / str(number)).touch()
                number += 1
        except OSError:
            pass

    def make_room(self) -> None:
        for path in self._filler.iterdir():
            path.unlink()
        self._filler.rmdir()


@pytest.fixture
def few_files(tmp_path: Path) -> Iterator[FewFiles]:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a file system")
    root = tmp_path / "disk"
    root.mkdir()
    options = "size=64m,nr_inodes=2000,mode=700"
    mount = ["mount", "-t", "tmpfs", "-o", options, "stoker-test", str(root)]
    mounted = subprocess.run(mount, capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"a file system can't be mounted here: {mounted.stderr.strip()}")
    try:
        yield FewFiles(root)
    finally:
        subprocess.run(["umount", "-l", str(root)], check=True)


def test_jobs_wait_while_there_are_no_inodes_and_then_all_succeed(few_files: FewFiles) -> None:
    stoker = StokerHome(few_files.root)
    try:
        stoker.start(gpus="0-3")
        few_files.use_up()
        ids = submit(stoker)
        until_named(stoker, ids[0], "no space or inodes are left")
        few_files.make_room()
        all_succeed_at_once(stoker, ids)
    finally:
        stoker.clean_up()


def test_a_full_disk_of_its_own_output_holds_up_only_that_job(
    few_files: FewFiles, tmp_path: Path
) -> None:
    stoker = StokerHome(tmp_path)
    try:
        stoker.start()
        few_files.use_up()
        full = stoker.submit("true", gpus=0, out=str(few_files.root / "out"))
        others = submit(stoker)
        for job in stoker.until_final(*others):
            assert job["state"] == "succeeded"
        why = stoker.stoker("why", str(full))
        assert f"no space or inodes are left for {few_files.root}/out" in why
        assert "can't be started" not in stoker.stoker()
        few_files.make_room()
        all_succeed_at_once(stoker, [full])
    finally:
        stoker.clean_up()


# ---------------------------------------------------------------------- files


def leave_files(pid: int, left: int) -> tuple[int, int]:
    """Let a daemon open so many more files; the limit that it had."""

    def open_now() -> set[int]:
        return set(map(int, os.listdir(f"/proc/{pid}/fd")))

    # A client may be leaving just now.
    eventually(Steady(lambda: len(open_now()), for_s=0.3), "the daemon has nothing to do")
    taken = open_now()
    free = [number for number in range(len(taken) + left + 1) if number not in taken]
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (free[left], hard))
    return soft, hard


def test_jobs_wait_while_too_many_files_are_open_and_then_all_succeed(home: StokerHome) -> None:
    pid = home.start()
    with home.client() as client:
        client.call("hello")
        before = leave_files(pid, 0)
        order = {"cwd": str(home.work), "env": home.env, "user": "tester"}
        jobs = [{"argv": ["true"], "gpus": 0} for _ in range(JOBS)]
        ids = client.call("submit", jobs=jobs, **order)["ids"]

        def named() -> bool:
            told = client.call("why", select={"ids": [str(ids[0])]})["jobs"][0]
            return "too many files are open" in str(told)

        eventually(named, "why names the files")
        assert "too many files are open" in client.call("status")["short"]
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    all_succeed_at_once(home, ids)


@pytest.mark.parametrize("left", [2, 3])
def test_with_few_files_left_jobs_run_a_few_at_a_time(home: StokerHome, left: int) -> None:
    pid = home.start()
    with home.client() as client:
        client.call("hello")
        before = leave_files(pid, left)
        order = {"cwd": str(home.work), "env": home.env, "user": "tester"}
        jobs = [{"argv": ["true"], "gpus": 0} for _ in range(4)]
        ids = client.call("submit", jobs=jobs, **order)["ids"]
        client.send("wait", select={"ids": [str(job_id) for job_id in ids]})
        client.receive(120)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    all_succeed_at_once(home, ids)


# ---------------------------------------------------------------------- processes


@pytest.fixture
def no_processes(tmp_path: Path, home: StokerHome, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file: while it is there, the daemon can make no process."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    library, switch = tmp_path / "no_processes.so", tmp_path / "no-processes"
    source = Path(__file__).with_name("no_processes.c")
    build = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
    subprocess.run(build, check=True)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("NO_PROCESSES", str(switch))
    home.start()
    monkeypatch.delenv("LD_PRELOAD")
    return switch


@pytest.mark.parametrize("proven", [False, True], ids=["posix_spawn", "quickspawn"])
def test_jobs_wait_while_no_process_can_be_made_and_then_all_succeed(
    home: StokerHome, no_processes: Path, proven: bool
) -> None:
    if proven:
        assert home.until_final(home.submit("true", gpus=0))[0]["state"] == "succeeded"
    no_processes.touch()
    ids = submit(home, retries=1)
    until_named(home, ids[0], "no more processes can be made")
    no_processes.unlink()
    all_succeed_at_once(home, ids)


def test_a_takeover_that_can_not_start_is_left_to_the_queue(
    home: StokerHome, no_processes: Path, tmp_path: Path
) -> None:
    home.call("config_set", name="gpus", value="0")
    go = tmp_path / "go"
    first = home.submit("sh", "-c", f"until [ -e {go} ]; do sleep 0.02; done")
    ids = home.submit_all([{"argv": ["true"]} for _ in range(5)])
    home.until_pid(first)
    no_processes.touch()
    go.touch()
    until_named(home, ids[0], "no more processes can be made")
    no_processes.unlink()
    all_succeed_at_once(home, [first, *ids])
