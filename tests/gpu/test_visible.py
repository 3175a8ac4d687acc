"""How a job finds its GPUs: by number, by UUID, or by what it is told while all are visible."""

from __future__ import annotations

import pytest

from fakegpu.driver import GPU_IS_LOST
from gpu_box import Box
from waiting import eventually

SEES = ("sh", "-c", "echo ${CUDA_VISIBLE_DEVICES-unset} $CUDA_DEVICE_ORDER $STOKER_GPUS")


def seen(box: Box, *words: str) -> str:
    job = box.add(*words, "--", *SEES)
    box.until_final(job)
    return box.log_of(job).strip()


def test_a_job_says_how_it_is_to_see_its_gpus(box: Box) -> None:
    box.env["CUDA_VISIBLE_DEVICES"] = "7"  # as in the shell of a user who masks by hand
    assert seen(box, "--on", "1") == "1 PCI_BUS_ID 1"
    assert seen(box, "--on", "1", "--visible", "index") == "1 PCI_BUS_ID 1"
    assert seen(box, "--on", "1", "--visible", "uuid") == f"{box.driver.uuid(1)} PCI_BUS_ID 1"
    assert seen(box, "--gpus", "2", "--visible", "all") == "unset PCI_BUS_ID 0,1"
    mine = ("--visible", "all", "--env", "CUDA_VISIBLE_DEVICES=1,0")
    assert seen(box, *mine) == "1,0 PCI_BUS_ID 0"
    assert seen(box, "--gpus", "0", "--visible", "all").startswith("PCI_BUS_ID"), "it has none"


def test_a_setting_says_it_for_all_jobs_and_edit_for_one(box: Box) -> None:
    box.stoker("config", "set", "visible", "uuid")
    assert seen(box, "--on", "0") == f"{box.driver.uuid(0)} PCI_BUS_ID 0"
    held = box.add("--hold", "--on", "0", "--", *SEES)
    assert box.job(held)["options"] == {"visible": "uuid"}
    box.stoker("edit", str(held), "--visible", "all")
    box.stoker("release", str(held))
    box.until_final(held)
    assert box.log_of(held) == "unset PCI_BUS_ID 0\n"
    refused = box.cli("config", "set", "visible", "name")
    assert refused.code == 2 and "index or uuid or all" in refused.err
    assert box.cli("add", "--visible", "name", "--", "true").code == 2


def test_numbers_that_may_mean_another_gpu_are_not_used(box: Box) -> None:
    box.driver.fault(0, GPU_IS_LOST)
    box.until_gpu("0", fault="GPU is lost")
    # Programs that CUDA shows one GPU less count from 0 again.
    assert seen(box, "--on", "1") == f"{box.driver.uuid(1)} PCI_BUS_ID 1"


def test_parts_of_a_divided_gpu_have_no_numbers(cold_box: Box) -> None:
    parts = cold_box.driver.set_mig(0, [8 * 1024, 8 * 1024])
    cold_box.power_on()
    assert seen(cold_box, "--on", parts[1]).startswith(f"{parts[1]} ")
    assert seen(cold_box, "--on", cold_box.driver.uuid(1)).startswith(cold_box.driver.uuid(1))


@pytest.mark.parametrize("way", ["index", "uuid"])
def test_a_training_finds_the_gpu_that_it_was_given(box: Box, way: str) -> None:
    box.train("--peak", "2G", "--seconds", "400", on=["1"], visible=way)
    devices = eventually(lambda: {one.device for one in box.driver.allocations()}, "it is there")
    assert devices == {1}


def test_a_job_that_is_told_its_ids_sees_all_gpus_unless_it_says_otherwise(box: Box) -> None:
    words = ("sh", "-c", 'echo ${CUDA_VISIBLE_DEVICES-unset} "$@"', "_")
    told = box.submit(*words, on=["1"], gpu_arg=True)
    masked = box.submit(*words, on=["1"], gpu_arg=True, visible="index")
    held = box.submit(*words, on=["1"], hold=True)
    box.stoker("edit", str(held), "--gpu-arg")
    box.stoker("release", str(held))
    box.until_final(told, masked, held)
    assert [box.log_of(job) for job in (told, masked, held)] == [
        "unset --gpu 1\n", "1 --gpu 1\n", "unset --gpu 1\n",
    ]  # fmt: skip
