"""What the daemon sees of GPUs through the driver, and what it does about it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator

import pytest

from fakegpu.driver import GPU_IS_LOST, LIB_RM_VERSION_MISMATCH, ONE_SWITCH
from gpu_box import Box
from message_sinks import http_sink
from waiting import eventually


@pytest.fixture
def stranger() -> Iterator[int]:
    """A process that is nobody's job."""
    process = subprocess.Popen(["sleep", "1000"])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def test_gpus_are_there_without_being_declared_and_are_shown_by_number(box: Box) -> None:
    box.driver.set_reading(1, utilisation=83, temperature_c=71, power_w=212.5)
    shown = box.until_gpu("1", temperature_c=71)
    assert shown["uuid"] == box.driver.uuid(1)
    assert (shown["state"], shown["name"]) == ("free", "NVIDIA Stand-In 24GB")
    assert shown["memory_mib"] == 24 * 1024 - 512  # The driver keeps some for itself.
    assert (shown["utilisation_percent"], shown["power_w"]) == (83, 212.5)
    assert shown["stale"] is False
    table = box.stoker("gpus")
    assert "71C" in table and "83%" in table and "212W" in table
    assert json.loads(box.stoker("config", "get", "gpus", "--json"))["setting"]["value"] == "0,1"


def test_a_job_gets_numbers_in_the_order_of_the_bus(box: Box) -> None:
    both = box.submit(
        "sh", "-c", "echo $CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER $STOKER_GPUS", gpus=2
    )
    (ended,) = box.until_final(both)
    assert ended["gpus"] == ["0", "1"]
    assert box.log_of(both) == "0,1 PCI_BUS_ID 0,1\n"


def test_a_gpu_may_be_named_by_its_number_or_its_uuid(box: Box) -> None:
    by_number = box.submit("true", on=["1"])
    by_uuid = box.submit("true", on=[box.driver.uuid(1)])
    assert [job["gpus"] for job in box.until_final(by_number, by_uuid)] == [["1"], ["1"]]
    refused = box.cli("add", "--on", "7", "--", "true")
    assert refused.code == 2 and "there is no GPU 7; there are 0, 1\n" in refused.err


def test_more_gpus_are_only_to_be_added_where_the_driver_shows_more(box: Box) -> None:
    refused = box.cli("add", "--gpus", "9", "--", "true")
    assert refused.code == 2 and refused.err.endswith("only 2; ask for fewer\n")
    box.stoker("gpus", "remove", "1")
    refused = box.cli("add", "--gpus", "2", "--", "true")
    assert refused.code == 2
    assert "ask for fewer, or use more of the driver's with `stoker gpus add`" in refused.err


def test_several_gpus_are_those_with_the_shortest_links(cold_box: Box) -> None:
    for _ in range(2):
        cold_box.driver.add_device()
    cold_box.driver.link(1, 3, ONE_SWITCH)
    cold_box.power_on()
    eventually(lambda: len(cold_box.gpus()) == 4, "all four are seen")
    job = cold_box.submit("true", gpus=2)
    assert cold_box.until_final(job)[0]["gpus"] == ["1", "3"]


def test_a_gpu_with_a_foreign_program_is_not_free_until_it_has_left(
    box: Box, stranger: int
) -> None:
    for number in (0, 1):
        box.driver.add_process(number, stranger, 5_000)
    shown = box.until_gpu("0", state="foreign")
    assert shown["others_mib"] == 5_000
    (other,) = shown["foreign"]
    assert (other["pid"], other["used_mib"], other["command"]) == (stranger, 5_000, "sleep 1000")
    assert other["user"]
    assert f"sleep {stranger}" in box.stoker("gpus")
    job = box.submit("true")
    eventually(lambda: "used by other programs" in box.why(job), "it is told why")
    box.driver.remove_process(stranger)
    assert box.until_final(job)[0]["state"] == "succeeded"


def test_a_job_with_a_reservation_uses_what_a_foreign_program_leaves(
    box: Box, stranger: int
) -> None:
    for number in (0, 1):
        box.driver.add_process(number, stranger, 20_000)
    box.until_gpu("1", state="foreign")
    small = box.submit("true", mem_mib=3_000)
    assert box.until_final(small)[0]["state"] == "succeeded"
    large = box.submit("true", mem_mib=6_000)
    eventually(lambda: "most room is" in box.why(large), "it is told why")
    # It grows, and then nothing fits; it shrinks, and then the large one does.
    box.driver.add_process(1, stranger, 2_000)
    assert box.until_final(large)[0]["gpus"] == ["1"]


def test_what_is_done_about_foreign_programs_can_be_set(box: Box, stranger: int) -> None:
    for number in (0, 1):
        box.driver.add_process(number, stranger, 1_000)
    box.until_gpu("1", state="foreign")
    box.stoker("config", "set", "foreign", "wait")
    job = box.submit("true", mem_mib=1_000)
    eventually(lambda: box.why(job).startswith("needs"), "it waits though there is room")
    box.stoker("config", "set", "foreign", "ignore")
    whole = box.submit("true")
    assert {j["state"] for j in box.until_final(job, whole)} == {"succeeded"}
    assert box.cli("config", "set", "foreign", "maybe").code == 2


def test_a_desktop_on_a_gpu_takes_memory_and_does_not_keep_jobs_away(
    box: Box, stranger: int
) -> None:
    for number in (0, 1):
        box.driver.add_process(number, stranger, 700, graphics=True)
    box.until_gpu("1", others_mib=700)
    assert box.until_final(box.submit("true"))[0]["state"] == "succeeded"
    refuge = box.submit("true", mem_mib=24 * 1024 - 512 - 300)
    eventually(lambda: "most room is" in box.why(refuge), "what the desktop has is not free")


def test_what_a_job_starts_in_a_session_of_its_own_is_known_to_be_its(box: Box) -> None:
    job = box.submit(
        "sh", "-c", "setsid fakegpu-train --peak 2G --seconds 2000 & sleep 1000", mem_mib=4_000
    )
    shown = box.until_gpu("0", ours_mib=2_048)
    assert (shown["state"], shown["foreign"], shown["jobs"]) == ("shared", [], [job])
    # It stays when the job is over, and then it is still ours, but nobody's job.
    box.call("cancel", select={"ids": [str(job)]})
    box.until_gpu("0", ours_mib=0, state="free")


def test_a_lost_gpu_fails_its_jobs_and_they_run_elsewhere_if_they_may(box: Box) -> None:
    unlucky = box.train("--peak", "1G", "--seconds", "2000", retries=1)
    other = box.train("--peak", "1G", "--seconds", "2000")
    box.until_gpu("0", ours_mib=1_024)
    box.until_gpu("1", ours_mib=1_024)
    box.driver.fault(0, GPU_IS_LOST)
    box.until_gpu("0", state="drained", fault="GPU is lost")
    eventually(lambda: len(box.job(unlucky)["attempts"]) == 1 and box.job(unlucky)["attempts"][0]
               ["reason"] == "gpu lost", "its attempt has failed for that")  # fmt: skip
    assert "GPU is lost" in box.stoker("gpus")
    assert box.job(other)["state"] == "running"
    box.call("cancel", select={"ids": [str(other)]})
    elsewhere = eventually(lambda: box.job(unlucky)["attempts"][1:], "it runs elsewhere")
    assert elsewhere[0]["gpus"] == ["1"]
    once = box.train("--peak", "1G", "--seconds", "2000", on=["1"], mem_mib=2_000)
    box.call("cancel", select={"ids": [str(unlucky)]})
    box.until_state(once, "running")
    box.until_gpu("1", ours_mib=1_024)
    box.driver.fault(1, GPU_IS_LOST)
    (failed,) = box.until_final(once)
    assert (failed["state"], failed["reason"]) == ("failed", "gpu lost")
    for number in (0, 1):
        box.driver.fault(number, 0)
    assert box.until_final(box.submit("true"))[0]["state"] == "succeeded"


def test_an_error_that_needs_a_reset_drains_a_gpu_until_it_is_resumed(box: Box) -> None:
    box.driver.xid(1, 79)
    assert "XID 79" in box.until_gpu("1", state="drained")["fault"]
    pair = box.submit("true", gpus=2)
    eventually(lambda: "drained" in box.why(pair) or "needs 2" in box.why(pair), "it waits")
    box.stoker("gpus", "resume", "1")
    assert box.until_final(pair)[0]["state"] == "succeeded"


def test_jobs_go_on_when_only_the_drivers_library_no_longer_fits(box: Box) -> None:
    """As after an update of the driver: what runs is well, and killing it would be wrong."""
    job = box.train("--peak", "1G", "--seconds", "2000")
    box.until_gpu("0", ours_mib=1_024)
    box.driver.init_fails(LIB_RM_VERSION_MISMATCH)
    box.driver.rule(code=LIB_RM_VERSION_MISMATCH)
    eventually(lambda: "does not match" in box.gpus()["0"]["fault"], "the fault is seen")
    assert box.gpus()["0"]["state"] == "drained"
    assert box.job(job)["state"] == "running"


def test_a_driver_that_hangs_delays_nobody(box: Box) -> None:
    box.until_gpu("1", stale=False)
    box.driver.rule(delay_s=5)
    job = box.submit("true")
    assert box.until_final(job)[0]["state"] == "succeeded"
    assert box.call("gpus")["gpus"][0]["measured_at_ms"]
    eventually(lambda: "has not answered" in box.call("gpus")["why"], "it is told")
    box.driver.clear_rules()
    eventually(lambda: not box.call("gpus")["why"], "it is well again")


def test_memory_that_the_driver_does_not_tell_by_process_is_that_of_the_job_that_is_alone(
    box: Box,
) -> None:
    for number in (0, 1):
        box.driver.set_reading(number, hides_process_memory=True)
    job = box.train("--peak", "3G", "--seconds", "400", "--use", "30", mem="auto")
    eventually(lambda: box.job(job)["peak_mib"] == 3 * 1024, "its peak is measured")
    eventually(lambda: (box.job(job)["reserved_mib"] or 0) == 3 * 1024 + 512, "and it settles")


def test_a_gpu_that_was_taken_away_stays_away_and_comes_back_when_it_is_wanted(box: Box) -> None:
    box.stoker("gpus", "remove", "1")
    assert list(box.gpus()) == ["0"]
    box.stoker("daemon", "restart")
    assert list(box.gpus()) == ["0"]
    refused = box.cli("add", "--gpus", "2", "--", "true")
    assert refused.code == 2 and "there is only 1" in refused.err
    box.stoker("gpus", "add", "1")
    assert list(box.gpus()) == ["0", "1"]
    box.stoker("config", "set", "gpus", "1")
    assert list(box.gpus()) == ["1"]
    box.stoker("config", "set", "gpus", "auto")
    assert list(box.gpus()) == ["0", "1"]
    assert box.cli("gpus", "add", "1:8G").code == 2
    assert box.cli("gpus", "add", "5").code != 0


def test_gpus_that_were_declared_by_number_are_those_that_the_driver_shows(cold_box: Box) -> None:
    with_library = cold_box.env.pop("LD_LIBRARY_PATH")
    cold_box.power_on()
    cold_box.stoker("config", "set", "gpus", "1:20G")
    job = cold_box.submit("sleep", "1000")
    cold_box.until_pid(job)
    cold_box.env["LD_LIBRARY_PATH"] = with_library
    cold_box.stoker("daemon", "restart")
    # The device is busy under its old name, and is not given away twice under its new one.
    waiting = cold_box.submit("sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    eventually(lambda: cold_box.job(waiting)["reason"], "it waits")
    assert cold_box.job(waiting)["state"] == "waiting"
    cold_box.call("cancel", select={"ids": [str(job)]})
    assert cold_box.until_final(waiting)[0]["gpus"] == ["1"]
    assert cold_box.log_of(waiting).strip() == "1"
    assert list(cold_box.gpus()) == ["1"]


def test_without_a_driver_it_is_said_why_there_are_no_gpus(cold_box: Box) -> None:
    del cold_box.env["LD_LIBRARY_PATH"]
    cold_box.power_on()
    status = cold_box.stoker("status")
    assert "libnvidia-ml.so.1, was not found" in status
    refused = cold_box.cli("add", "--", "true")
    assert refused.code == 2 and "no GPUs are known" in refused.err


def test_the_watch_goes_on_until_it_is_interrupted(box: Box) -> None:
    with box.popen("gpus", "--watch", "--json", stdout=subprocess.PIPE) as watch:
        assert watch.stdout is not None
        for _ in range(2):
            assert len(json.loads(watch.stdout.readline())["gpus"]) == 2
        os.kill(watch.pid, 2)
        assert watch.wait() == 130


def test_a_lost_gpu_is_told_once_whatever_becomes_of_the_daemon(box: Box) -> None:
    with http_sink() as sink:
        box.call("config_set", name="notify", value=sink.url)
        box.driver.fault(0, GPU_IS_LOST)
        eventually(lambda: sink.arrived, "it is told")
        box.kill_daemon()
        box.start()
        told = box.add("--notify", "--on", "1", "--", "true")
        eventually(lambda: len(sink.arrived) == 2, "so is a job that ended later")
        title, text = sink.arrived[0]
        assert title.startswith("GPU 0 of ") and title.endswith(" is lost")
        assert "GPU is lost" in text
        assert sink.titles()[1] == f"job {told} has succeeded"
