"""Memory is learned from what is measured, and GPUs are filled by it."""

from __future__ import annotations

import os
import signal

import pytest

from gpu_box import Box
from waiting import eventually

GIB = 1024
KIND = "fakegpu-train --peak --seconds --use"


def long_run(peak: str, use: int = 10) -> tuple[str, ...]:
    return ("--peak", peak, "--seconds", "4000", "--use", str(use))


def test_the_first_of_its_kind_has_a_gpu_for_itself_until_its_peak_has_settled(box: Box) -> None:
    jobs = [box.train(*long_run("5G"), mem="auto") for _ in range(6)]
    box.until_state(jobs[0], "running")
    # Its siblings come beside it while it runs, as many as fit with room to grow.
    for job in jobs:
        box.until_state(job, "running")
    assert {box.job(job)["reserved_mib"] for job in jobs} == {5 * GIB + 512}
    assert {box.job(job)["gpus"][0] for job in jobs} == {"0", "1"}
    profile = box.profiles()[KIND]
    assert (profile["count"], profile["max_mib"], profile["use_percent"]) == (0, 5 * GIB, 10)
    more = [box.train(*long_run("5G"), mem="auto") for _ in range(3)]
    waiting = eventually(lambda: [j for j in more if box.job(j)["state"] == "waiting"], "full")
    text = box.until_why(waiting[0], "learned")
    assert text.startswith("needs 5.5 GiB (learned from a run that goes on), most room is 3.5 GiB")
    assert "5.0G" in box.stoker("profiles")


def test_what_was_learned_counts_for_later_runs_and_can_be_forgotten(box: Box) -> None:
    first = box.train("--peak", "4G", "--seconds", "60", "--use", "10", mem="auto")
    (ended,) = box.until_final(first)
    assert (ended["state"], ended["peak_mib"]) == ("succeeded", 4 * GIB)
    assert box.profiles()[KIND]["count"] == 1
    box.stoker("daemon", "restart")
    again = [box.train(*long_run("4G"), mem="auto") for _ in range(2)]
    for job in again:
        box.until_state(job, "running")
    assert [box.job(job)["reserved_mib"] for job in again] == [4 * GIB + 512] * 2
    assert [box.job(job)["gpus"] for job in again] == [["0"], ["0"]]
    assert "forgotten: 1" in box.cli("profiles", "forget", "fakegpu-train*").err
    assert KIND not in box.profiles() or box.profiles()[KIND]["count"] == 0
    unknown = box.cli("profiles", "forget", "nothing")
    assert unknown.code != 0 and "nothing is known of 'nothing'" in unknown.err
    assert box.cli("profiles", "forget").code == 2


def test_margin_and_kind_can_be_said(box: Box) -> None:
    job = box.train(*long_run("4G"), mem="auto", kind="mine", margin=[50, 0])
    eventually(lambda: box.job(job)["reserved_mib"] == 6 * GIB, "half as much again is reserved")
    assert list(box.profiles()) == ["mine"]
    box.stoker("config", "set", "mem", "auto")
    box.stoker("config", "set", "mem-margin", "1G")
    other = box.submit("fakegpu-train", *long_run("4G"), kind="mine")
    box.until_state(other, "running")
    assert box.job(other)["reserved_mib"] == 5 * GIB
    whole = box.submit("true", mem="whole")
    (ended,) = box.until_final(whole)
    assert ended["reserved_mib"] is None and ended["gpus"] == ["1"]


def test_two_jobs_never_get_the_memory_into_which_the_first_still_grows(box: Box) -> None:
    """Each takes its time to reach its peak; whoever looked at free memory alone would fail."""
    slow = ("--peak", "14G", "--ramp", "40", "--seconds", "60")
    jobs = [box.train(*slow, mem_mib=14 * GIB) for _ in range(6)]
    ended = box.until_final(*jobs)
    assert [job["state"] for job in ended] == ["succeeded"] * 6
    assert [len(job["attempts"]) for job in ended] == [1] * 6


def test_a_job_that_ran_out_of_memory_is_run_again_with_more_and_that_costs_no_retry(
    box: Box,
) -> None:
    neighbours = [box.train(*long_run("13G"), mem_mib=13 * GIB, on=[gpu]) for gpu in ("0", "1")]
    for job in neighbours:
        box.until_state(job, "running")
    for gpu in ("0", "1"):
        box.until_gpu(gpu, ours_mib=13 * GIB)
    liar = box.train("--peak", "12G", "--seconds", "60", mem_mib=8 * GIB)
    eventually(lambda: box.job(liar)["attempts"] and box.job(liar)["attempts"][0]["reason"],
               "its first attempt has failed")  # fmt: skip
    first = box.job(liar)["attempts"][0]
    assert (first["state"], first["reason"]) == ("failed", "out of memory")
    text = box.until_why(liar, "ran out")
    assert "needs 12.0 GiB (it ran out of memory once)" in text
    box.call("cancel", select={"ids": [str(neighbours[0])]})
    (ended,) = box.until_final(liar)
    assert ended["state"] == "succeeded"
    assert [attempt["gpus"] for attempt in ended["attempts"]][-1] == ["0"]


def test_a_job_that_is_too_large_for_any_gpu_says_so_at_once(box: Box) -> None:
    job = box.train("--peak", "30G", "--seconds", "60", retries=5)
    (ended,) = box.until_final(job)
    assert (ended["state"], ended["reason"]) == ("failed", "out of memory")
    assert len(ended["attempts"]) == 1
    assert "out of memory" in box.stoker("ls", "--all")


def test_a_job_that_was_packed_and_is_too_large_is_at_last_alone_and_then_fails(box: Box) -> None:
    for gpu in ("0", "1"):
        box.train(*long_run("1G"), mem_mib=2 * GIB, on=[gpu])
        box.until_gpu(gpu, ours_mib=1 * GIB)
    job = box.train("--peak", "30G", "--seconds", "60", mem_mib=2 * GIB, retries=5)
    eventually(lambda: len(box.job(job)["attempts"]) > 1, "it is tried again")
    box.call("cancel", select={"ids": ["1-2"]})
    (ended,) = box.until_final(job)
    assert (ended["state"], ended["reason"]) == ("failed", "out of memory")
    assert 2 <= len(ended["attempts"]) <= 4
    assert {attempt["reason"] for attempt in ended["attempts"]} == {"out of memory"}


@pytest.mark.parametrize("framework", ["torch", "tensorflow", "jax", "cublas", "cudnn"])
def test_every_framework_s_words_for_it_are_understood(box: Box, framework: str) -> None:
    out = box.work / "train.txt"
    job = box.submit(
        "fakegpu-train", "--peak", "30G", "--framework", framework, out=str(out), err=str(out)
    )
    assert box.until_final(job)[0]["reason"] == "out of memory"


def test_a_job_that_fails_for_another_reason_is_not_taken_for_one_that_lacked_memory(
    box: Box,
) -> None:
    job = box.submit("sh", "-c", "echo 'warning: we ran out of memory cards'; exit 3", mem="auto")
    (ended,) = box.until_final(job)
    assert (ended["reason"], len(ended["attempts"])) == ("exit code 3", 1)


def test_a_job_that_grows_beyond_its_reservation_gets_more_if_there_is_room(box: Box) -> None:
    grower = box.train(*long_run("9G"), mem_mib=4 * GIB, on=["0"])
    eventually(lambda: box.gpus()["0"]["reserved_mib"] > 9 * GIB, "its reservation has grown")
    assert box.job(grower)["state"] == "running"
    large = box.submit("true", mem_mib=16 * GIB, on=["0"])
    text = box.until_why(large, "room")
    assert "most room is 1" in text
    assert box.job(large)["state"] == "waiting"


def test_gpus_that_are_busy_enough_get_nothing_more(box: Box) -> None:
    first = box.train(*long_run("1G", use=70), mem="auto", kind="busy")
    eventually(lambda: box.profiles().get("busy", {}).get("use_percent") == 70, "its use is known")
    more = [box.train(*long_run("1G", use=70), mem="auto", kind="busy") for _ in range(5)]
    # 70 + 70 % are more than 125 % but less than 175 %: they share only when no GPU is free.
    for job in more[:3]:
        box.until_state(job, "running")
    text = box.until_why(more[4], "% of a GPU")
    assert (
        text
        == "uses 70% of a GPU, and the least busy, GPU 0, has 140% in use (together at most 175%)"
    )
    assert [box.job(job)["state"] for job in (first, *more)].count("running") == 4


def test_nothing_that_was_measured_is_forgotten_when_the_daemon_dies(box: Box) -> None:
    jobs = [box.train(*long_run("5G"), mem="auto") for _ in range(3)]
    for job in jobs:
        box.until_state(job, "running")
    eventually(lambda: {box.job(job)["reserved_mib"] for job in jobs} == {5 * GIB + 512}, "settled")
    box.until_gpu("0", ours_mib=10 * GIB)
    os.kill(box.daemon_pid(), signal.SIGKILL)
    box.stoker("status")
    assert {box.job(job)["state"] for job in jobs} == {"running"}
    # One margin for both, and room to grow: no run of the kind was seen to its end.
    assert box.gpus()["0"]["reserved_mib"] == 2 * (5 + 1) * GIB + 512 + GIB
    box.until_gpu("0", ours_mib=10 * GIB, foreign=[])
    assert box.until_final(box.submit("true", mem_mib=6 * GIB))[0]["state"] == "succeeded"


def test_the_course_of_gpus_and_jobs_is_kept_for_plots(box: Box) -> None:
    job = box.train("--peak", "4G", "--ramp", "10", "--seconds", "40", "--use", "30", mem="auto")
    (ended,) = box.until_final(job)
    assert ended["state"] == "succeeded"
    course = box.call("job_history", job_id=job)
    assert max(course["mem_mib"]) == 4 * GIB
    assert len(course["at_ms"]) == len(course["mem_mib"]) == len(course["use_percent"]) > 3
    assert course["at_ms"] == sorted(course["at_ms"])
    history = box.call("gpu_history")["histories"]["0"]
    assert max(history["ours_mib"]) == 4 * GIB
    box.stoker("daemon", "restart")
    assert box.call("job_history", job_id=job)["mem_mib"] == course["mem_mib"]
    assert max(box.call("gpu_history")["histories"]["0"]["ours_mib"]) == 4 * GIB


def test_the_course_of_a_job_that_runs_goes_on_after_a_restart(box: Box) -> None:
    job = box.train(*long_run("3G"), "--gpus", "2", mem="auto", gpus=2)

    def course(on_gpu: str | None = None) -> list[int]:
        history = box.call("job_history", job_id=job)
        found: list[int] = (history if on_gpu is None else history["gpus"][on_gpu])["at_ms"]
        return found

    eventually(lambda: len(course()) > 3, "some of it was seen")
    before, parts = course(), {gpu: course(gpu) for gpu in ("0", "1")}
    box.stoker("daemon", "restart")
    eventually(lambda: len(course()) > len(before), "it goes on")
    assert course()[: len(before)] == before
    for gpu, seen in parts.items():
        assert len(seen) > 2 and course(gpu)[: len(seen)] == seen, "so does that of each GPU"
