"""Jobs that share a GPU through MPS: servers that come and go, and neighbours that are spared."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakegpu.build import Built
from gpu_box import Box
from stoker_home import command_line_of
from waiting import eventually

LONG = ("--peak", "1G", "--seconds", "100000", "--use", "10")


class MpsBox(Box):
    """A machine on which jobs use MPS."""

    def queue(self, *words: str, **fields: Any) -> int:
        """Queue a training that uses MPS; its id."""
        return self.train(*(words or LONG), **{"mps": True, "mem_mib": 4096, "on": ["0"], **fields})

    def share(self, *words: str, **fields: Any) -> int:
        """The same, once it is in the middle of its work."""
        job = self.queue(*words, **fields)
        self.until_working(job)
        return job

    def until_working(self, job: int, attempt: int = 1) -> int:
        """The pid of an attempt that computes through MPS."""

        def working() -> int:
            shown = self.job(job)
            pid: int = shown["pid"]
            found = [a for a in self.driver.allocations() if a.pid == pid and a.use_percent]
            right = bool(found) and shown["attempt"] == attempt
            return pid if right and all(a.mps for a in found) else 0

        return eventually(working, f"attempt {attempt} of job {job} computes through MPS")

    @property
    def servers(self) -> list[Path]:
        root = Path(self.home.root, "mps")
        return sorted(root.iterdir()) if root.is_dir() else []

    def control_log(self) -> str:
        (server,) = self.servers
        return (server / "log" / "control.log").read_text()

    def mps_processes(self) -> list[int]:
        """The control daemons, and their servers."""
        return [pid for pid in self.processes() if _is_of_mps(command_line_of(pid))]

    def until_no_mps(self) -> None:
        eventually(lambda: not self.servers and not self.mps_processes(), "nothing of MPS is left")

    def variable(self, job: int, name: str) -> str | None:
        """A variable in the environment of a job's process."""
        words = Path(f"/proc/{self.until_pid(job)}/environ").read_bytes().split(b"\0")
        wanted = f"{name}=".encode()
        found = [word[len(wanted) :].decode() for word in words if word.startswith(wanted)]
        return found[0] if found else None

    def reasons(self, job: int) -> list[str | None]:
        """How the attempts of a job ended."""
        return [attempt["reason"] for attempt in self.job(job)["attempts"]]


def _is_of_mps(words: list[bytes]) -> bool:
    return any(b"mps_control.py" in word or word == b"nvidia-cuda-mps-server" for word in words)


@pytest.fixture
def cold(tmp_path: Path, built: Built) -> Iterator[MpsBox]:
    box = MpsBox(tmp_path, built, devices=2)
    try:
        yield box
    finally:
        elsewhere = [str((server / "pipe").resolve()) for server in box.servers]
        box.clean_up()
        for path in elsewhere:
            shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def box(cold: MpsBox) -> MpsBox:
    cold.power_on()
    return cold


# ---------------------------------------------------------------------- their life


def test_a_server_is_there_before_the_first_job_and_gone_after_the_last(box: MpsBox) -> None:
    assert box.servers == []
    first, second = box.share(), box.share()
    assert box.job(first)["gpus"] == box.job(second)["gpus"] == ["0"]
    (server,) = box.servers
    assert stat.S_IMODE(server.stat().st_mode) == 0o700
    assert len(box.mps_processes()) == 2, "one control daemon, and one server"
    assert box.variable(first, "CUDA_MPS_LOG_DIRECTORY") == str(server / "log")
    pipe = box.variable(first, "CUDA_MPS_PIPE_DIRECTORY")
    assert pipe == str((server / "pipe").resolve())
    assert len(f"{pipe}/control_privileged") <= 107, "the kernel takes no longer name"
    assert box.variable(first, "CUDA_VISIBLE_DEVICES") == box.driver.uuid(0)
    box.stoker("cancel", str(first))
    box.until_final(first)
    assert box.servers == [server]
    assert box.job(second)["state"] == "running"
    box.stoker("cancel", str(second))
    box.until_no_mps()


def test_each_gpu_has_a_server_of_its_own(box: MpsBox) -> None:
    box.share(on=["0"])
    box.share(on=["1"])
    assert len(box.servers) == 2
    assert len(box.mps_processes()) == 4


def test_what_the_server_itself_has_is_not_taken_for_a_stranger_s(box: MpsBox) -> None:
    box.share()
    gpu = box.until_gpu("0", ours_mib=1024)
    assert gpu["foreign"] == []
    assert gpu["others_mib"] == 30
    plain = box.train(*LONG, mem_mib=4096, on=["0"])
    box.until_state(plain, "running")
    assert box.job(plain)["gpus"] == ["0"], "jobs with and without MPS may share a GPU"
    assert box.variable(plain, "CUDA_MPS_PIPE_DIRECTORY") is None


def test_the_reservation_and_the_share_of_threads_bound_what_a_job_can_have(box: MpsBox) -> None:
    job = box.share(thread_percentage=30)
    assert box.variable(job, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE") == "30"
    assert box.variable(job, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT") == "0=4096M"
    whole = box.share(mem_mib=None, on=["1"])
    assert box.variable(whole, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE") is None
    assert box.variable(whole, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT") is None
    slow = box.queue("--peak", "1G", "--seconds", "20", "--use", "100", thread_percentage=50,
                     on=["1"], mem_mib=2048, after_any=[str(whole)])  # fmt: skip
    box.stoker("cancel", str(whole))
    box.until_final(slow)
    report = json.loads(box.log_of(slow))
    assert report["devices"][0]["most_use_percent"] == 50 and report["seconds"] >= 39


def test_a_limit_is_set_only_on_memory_that_is_known_and_more_is_had_after_it(box: MpsBox) -> None:
    # Alone on a GPU with plenty of room, it meets its own limit: with more it succeeds.
    job = box.queue("--peak", "5G", "--seconds", "20", mem_mib=4096)
    (ended,) = box.until_final(job)
    assert (ended["state"], box.reasons(job)) == ("succeeded", ["out of memory", None])
    # What was learned from a run that goes on is no reason for a limit: it may have a late peak.
    kind = {"mem": "auto", "mem_mib": None, "kind": "learner", "on": ["0"]}
    scout = box.share(**kind)
    second = box.share(**kind)
    assert box.job(second)["gpus"] == box.job(scout)["gpus"]
    assert box.variable(second, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT") is None
    box.stoker("cancel", f"{scout},{second}")
    brief = ("--peak", "1G", "--seconds", "10", "--use", "10")
    # On a busy machine one may be over before it was looked at.
    while box.profiles().get("learner", {}).get("count", 0) < 2:
        box.until_final(*[box.queue(*brief, **kind) for _ in range(2)])
    known = box.share(**kind)
    assert box.variable(known, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT") == "0=1536M"


# ---------------------------------------------------------------------- neighbours


@pytest.mark.parametrize("grace_ms", [30_000, 0])
def test_a_job_that_is_stopped_does_not_take_its_neighbours_with_it(
    box: MpsBox, grace_ms: int
) -> None:
    neighbour = box.share()
    victim = box.share(grace_ms=grace_ms)
    pid = box.job(victim)["pid"]
    box.stoker("cancel", str(victim))
    box.until_final(victim)
    log = box.control_log()
    assert "terminate_client" in log and f" {pid}\n" in log
    assert "FAULT" not in log
    assert box.job(neighbour)["state"] == "running"


def test_one_that_does_not_heed_the_end_of_its_work_is_signalled_after_it(box: MpsBox) -> None:
    neighbour = box.share()
    stubborn = box.share(*LONG, "--stubborn", grace_ms=300)
    box.stoker("cancel", str(stubborn))
    (ended,) = box.until_final(stubborn)
    assert ended["signal"] in (signal.SIGTERM, signal.SIGKILL)
    assert "FAULT" not in box.control_log()
    assert box.job(neighbour)["state"] == "running"


def test_what_a_server_took_with_it_runs_again_and_that_costs_no_retry(box: MpsBox) -> None:
    neighbours = [box.share(), box.share()]
    killed = box.share()
    before = box.mps_processes()
    os.kill(box.job(killed)["pid"], signal.SIGKILL)
    (ended,) = box.until_final(killed)
    assert ended["reason"] == "signal 9 (SIGKILL)", "that was its own end"
    for job in neighbours:
        box.until_working(job, attempt=2)
        assert box.reasons(job)[0] == "mps server fault"
    assert not set(before) & set(box.mps_processes()), "the server was replaced"
    assert box.job(neighbours[0])["retries"] == 0
    assert "FAULT" not in box.control_log()


def test_a_job_that_fails_by_itself_is_not_excused_by_mps(box: MpsBox) -> None:
    neighbour = box.share()
    job = box.submit("false", mps=True, mem_mib=1024)
    (ended,) = box.until_final(job)
    assert (ended["state"], ended["reason"]) == ("failed", "exit code 1")
    assert box.job(neighbour)["state"] == "running"


def test_a_job_whose_server_fails_again_and_again_is_given_up(box: MpsBox) -> None:
    job = box.share()
    for attempt in range(1, 5):
        box.until_working(job, attempt)
        culprit = box.share()
        os.kill(box.job(culprit)["pid"], signal.SIGKILL)
        eventually(lambda: len(box.reasons(job)) > attempt or box.reasons(job)[-1], "it was hit")  # noqa: B023
    (ended,) = box.until_final(job)
    assert (ended["state"], ended["reason"]) == ("failed", "mps server fault")
    assert box.reasons(job) == ["mps server fault"] * 4


# ---------------------------------------------------------------------- daemons that come and go


def test_servers_outlive_the_daemon_as_long_as_jobs_use_them(box: MpsBox) -> None:
    first, second = box.share(), box.share()
    servers = box.mps_processes()
    box.stoker("daemon", "stop")
    assert box.mps_processes() == servers
    box.stoker("daemon", "start")
    third = box.share()
    assert box.mps_processes() == servers, "the same one was found again"
    box.stoker("cancel", f"{first},{second}")
    box.until_final(first, second)
    assert "FAULT" not in box.control_log()
    assert box.job(third)["state"] == "running"
    box.stoker("cancel", str(third))
    box.until_no_mps()


def test_a_daemon_that_is_killed_costs_no_job_its_server(box: MpsBox) -> None:
    neighbour, killed = box.share(), box.share()
    box.kill_daemon()
    assert len(box.mps_processes()) == 2
    # What happens meanwhile is found out from what is on disk.
    os.kill(box.driver.allocations()[-1].pid, signal.SIGKILL)
    box.stoker("daemon", "start")
    pair = {neighbour, killed}
    ended = eventually(
        lambda: [j for j in pair if box.job(j)["state"] not in ("running", "waiting")], "one failed"
    )
    (other,) = pair - set(ended)
    box.until_working(other, attempt=2)
    assert box.reasons(other)[0] == "mps server fault"
    box.stoker("cancel", str(other))
    box.until_no_mps()


def test_the_last_job_of_a_daemon_that_was_stopped_takes_its_server_along(box: MpsBox) -> None:
    job = box.share("--peak", "1G", "--seconds", "60", "--use", "10")
    box.stoker("daemon", "stop")
    assert box.mps_processes()
    box.until_no_mps()
    box.stoker("daemon", "start")
    assert box.until_final(job)[0]["state"] == "succeeded"


def test_a_daemon_that_drains_leaves_nothing_behind(box: MpsBox) -> None:
    box.share("--peak", "1G", "--seconds", "40", "--use", "10")
    box.call("shutdown", mode="drain")
    box.until_no_mps()


# ---------------------------------------------------------------------- when it can't be


def test_without_the_program_there_is_one_clear_line(cold: MpsBox, tmp_path: Path) -> None:
    cold.env["PATH"] = os.pathsep.join(
        part for part in cold.env["PATH"].split(os.pathsep) if "fakegpu" not in part
    )
    cold.power_on()
    refused = cold.cli("add", "--mps", "--", "true", "x")
    assert refused.code == 2
    assert "there is no nvidia-cuda-mps-control on the daemon's PATH" in refused.err
    assert len(refused.err.strip().splitlines()) <= 2
    assert cold.jobs() == {}
    cold.stoker("config", "set", "mps", "on")
    refused = cold.cli("add", "--", "true", "x")
    assert "stoker config set mps off" in refused.err
    assert cold.until_final(cold.add("--no-mps", "--", "true", "x"))[0]["state"] == "succeeded"
    assert cold.until_final(cold.add("--gpus", "2", "--", "true", "x"))[0]["mps"] is False


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--mps", "--gpus", "2"], "--mps is for jobs on one GPU"),
        (["--mps", "--gpus", "0"], "--mps is for jobs on one GPU"),
        (["--thread-percentage", "50"], "--thread-percentage is about MPS"),
        (["--mps", "--thread_percentage", "101"], "101"),
        (["--mps", "--no-mps"], "exclude each other"),
    ],
)
def test_what_can_t_be_is_refused(box: MpsBox, words: list[str], said: str) -> None:
    refused = box.cli("add", *words, "--", "true", "x")
    assert refused.code == 2 and said in refused.err
    assert box.jobs() == {}


def test_a_server_that_can_t_be_started_fails_the_job_and_says_why(cold: MpsBox) -> None:
    programs = cold.root / "programs"
    programs.mkdir()
    control = programs / "nvidia-cuda-mps-control"
    control.write_text("#!/bin/sh\necho 'no such device' >&2\nexit 1\n")
    control.chmod(0o755)
    cold.env["PATH"] = f"{programs}{os.pathsep}{cold.env['PATH']}"
    cold.power_on()
    job = cold.queue()
    (ended,) = cold.until_final(job)
    assert ended["reason"] == (
        "could not start: MPS can't be started on GPU 0: nvidia-cuda-mps-control: no such device"
    )
    cold.until_no_mps()


def test_a_job_that_waits_for_its_server_can_be_cancelled_and_blocks_nobody(cold: MpsBox) -> None:
    programs = cold.root / "programs"
    programs.mkdir()
    control = programs / "nvidia-cuda-mps-control"
    control.write_text("#!/bin/sh\nexec sleep 1000\n")
    control.chmod(0o755)
    cold.env["PATH"] = f"{programs}{os.pathsep}{cold.env['PATH']}"
    cold.power_on()
    job = cold.queue(on=["0"])
    cold.until_state(job, "running")
    other = cold.submit("true", on=["1"])
    assert cold.until_final(other)[0]["state"] == "succeeded"
    assert cold.job(job)["pid"] is None
    cold.stoker("cancel", str(job))
    assert cold.until_final(job)[0]["state"] == "cancelled"


# ---------------------------------------------------------------------- every front end


def test_jobs_use_mps_by_setting_option_or_edit(box: MpsBox) -> None:
    box.stoker("config", "set", "mps", "on")
    by_setting = box.add("--hold", "--", "true", "x")
    without = box.add("--hold", "--no-mps", "--", "true", "x")
    box.stoker("config", "set", "mps", "off")
    by_option = box.add("--hold", "--mps", "--thread-percentage", "25", "--", "true", "x")
    shown = [(box.job(j)["mps"], box.job(j)["thread_percentage"]) for j in
             (by_setting, without, by_option)]  # fmt: skip
    assert shown == [(True, None), (False, None), (True, 25)]
    assert "25 % of the GPU's threads" in box.stoker("show", str(by_option))
    box.stoker("edit", str(without), "--mps", "--thread-percentage", "10")
    box.stoker("edit", str(by_option), "--no-mps")
    box.stoker("edit", str(by_setting), "--thread-percentage", "5")
    box.stoker("edit", str(by_setting), "--thread-percentage", "none")
    shown = [(box.job(j)["mps"], box.job(j)["thread_percentage"]) for j in
             (by_setting, without, by_option)]  # fmt: skip
    assert shown == [(True, None), (True, 10), (False, None)]
    assert box.cli("edit", str(by_setting), "--gpus", "2").code == 2


def test_a_job_in_a_terminal_uses_mps_too(box: MpsBox) -> None:
    ran = box.cli("run", "--mps", "--mem", "2G", "--", "fakegpu-train", "--peak", "1G",
                  "--seconds", "10")  # fmt: skip
    assert ran.code == 0, ran
    assert json.loads(ran.out)["mps"] is True
    box.until_no_mps()


def test_what_is_submitted_from_such_a_job_has_nothing_of_its_server(box: MpsBox) -> None:
    script = "stoker add --gpus 0 -- sh -c 'env' x"
    command = script.replace("stoker", f"{box.command()[0]} -m stoker", 1)
    limits = {"mem_mib": 1024, "thread_percentage": 50}
    parent = box.submit("sh", "-c", command, mps=True, **limits)
    box.until_final(parent)
    child = int(box.log_of(parent))
    box.until_final(child)
    assert "MPS" not in box.log_of(child)
    assert "STOKER_MPS=1" not in box.log_of(child)
