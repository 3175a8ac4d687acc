"""`stoker adopt` where a driver shows which GPUs a process uses, and how much of them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from gpu_box import Box
from waiting import eventually

GIB = 1024
Process = subprocess.Popen[bytes]


@pytest.fixture
def trainer(box: Box) -> Iterator[Process]:
    """A program that nobody queued; what uses GPU 1 is its child."""
    started = subprocess.Popen(["sh", "-c", "sleep 1000 & echo $!; wait"], stdout=subprocess.PIPE)
    assert started.stdout is not None
    child = int(started.stdout.readline())
    box.driver.add_process(1, child, 5 * GIB)
    box.until_gpu("1", state="foreign")
    try:
        yield started
    finally:
        box.driver.remove_process(child)
        subprocess.run(["kill", str(child)], check=False)
        started.kill()
        started.communicate()


def adopt(box: Box, process: Process, *words: str) -> int:
    return int(box.stoker("adopt", str(process.pid), *words))


def test_its_gpus_are_those_on_which_its_descendants_are(box: Box, trainer: Process) -> None:
    job_id = adopt(box, trainer)
    assert box.job(job_id)["gpus"] == ["1"]
    box.until_gpu("1", ours_mib=5 * GIB, state="busy", foreign=[], jobs=[job_id])
    eventually(lambda: box.job(job_id)["peak_mib"] == 5 * GIB, "it is measured")
    waits = box.submit("true", on=["1"])
    assert f"used by adopted job {job_id}" in box.why(waits)


def test_a_process_that_uses_no_gpu_is_refused(box: Box) -> None:
    with subprocess.Popen(["sleep", "1000"]) as idle:
        try:
            ran = box.cli("adopt", str(idle.pid))
            assert (ran.code, ran.out) == (2, "")
            assert f"the driver shows process {idle.pid} on no GPU; name its GPUs" in ran.err
        finally:
            idle.kill()


def test_with_a_reservation_jobs_share_its_gpu(box: Box, trainer: Process) -> None:
    job_id = adopt(box, trainer, "--mem", "8G")
    box.until_gpu("1", ours_mib=5 * GIB, state="shared")
    beside = box.submit("true", on=["1"], mem_mib=10 * GIB)
    assert box.until_final(beside)[0]["state"] == "succeeded"
    too_much = box.submit("true", on=["1"], mem_mib=20 * GIB)
    box.until_why(too_much, "most room is")
    assert box.job(job_id)["state"] == "running"


def test_it_is_refused_beside_jobs_that_leave_no_room(box: Box, trainer: Process) -> None:
    ours = [box.submit("sleep", "1000", on=["1"], mem_mib=7 * GIB) for _ in range(2)]
    for job_id in ours:
        box.until_pid(job_id)
    both = f"jobs {ours[0]}, {ours[1]} hold it"
    for words in ([], ["--mem", "12G"]):
        ran = box.cli("adopt", str(trainer.pid), *words)
        assert ran.code == 1 and f"GPU 1 has no room for it: {both}" in ran.err
    assert box.job(adopt(box, trainer, "--mem", "6G"))["gpus"] == ["1"]


def test_its_reservation_follows_what_is_measured_if_that_is_wanted(
    box: Box, trainer: Process
) -> None:
    box.driver.set_reading(1, utilisation=50)
    job_id = adopt(box, trainer, "--mem", "auto")
    reserved = eventually(lambda: box.job(job_id)["reserved_mib"], "what it uses is reserved")
    assert 5 * GIB < reserved < 8 * GIB
    beside = box.submit("true", on=["1"], mem_mib=8 * GIB)
    assert box.until_final(beside)[0]["state"] == "succeeded"


def test_what_is_let_go_is_someone_elses_again(box: Box, trainer: Process) -> None:
    job_id = adopt(box, trainer)
    box.until_gpu("1", ours_mib=5 * GIB)
    box.stoker("cancel", str(job_id), "--let-go")
    shown = box.until_gpu("1", state="foreign")
    assert len(shown["foreign"]) == 1 and trainer.poll() is None


def test_what_it_leaves_behind_is_someone_elses(box: Box, trainer: Process) -> None:
    job_id = adopt(box, trainer)
    box.until_gpu("1", ours_mib=5 * GIB)
    trainer.kill()
    assert box.until_final(job_id)[0]["state"] == "lost"
    assert len(box.until_gpu("1", state="foreign")["foreign"]) == 1
