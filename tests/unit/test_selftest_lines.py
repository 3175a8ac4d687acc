"""What the self-test makes of what it saw: each check passes for the right thing only."""

from __future__ import annotations

from typing import Any

from stoker.cli.selftest import lines
from stoker.cli.selftest.lines import FAILED, OK, SKIPPED

UUID, OTHER = "GPU-00000001-fa4e-4000-8000-00000000000A", "GPU-00000002-fa4e-4000-8000-000000000002"
DONE = {
    "state": "succeeded", "exit_code": 0, "reason": None, "attempt": 1, "peak_mib": 700,
    "reserved_mib": 800,
}  # fmt: skip
FREE: dict[str, Any] = {
    "uuid": UUID, "fault": "", "stale": False, "vendor": "nvidia", "foreign": [], "state": "free",
    "used_mib": 3, "jobs": [],
}  # fmt: skip


def sees(*uuids: str) -> dict[str, Any]:
    return {"uuids": [lines.plain(uuid) for uuid in uuids]}


def test_a_job_must_see_its_own_gpu_and_no_other() -> None:
    assert lines.own_device("0", DONE, sees(UUID), UUID).result == OK
    for seen in (sees(OTHER), sees(UUID, OTHER), sees(), {}, {"error": "cuInit: no"}):
        assert lines.own_device("0", DONE, seen, UUID).result == FAILED
    failed = lines.own_device("0", {**DONE, "state": "failed", "exit_code": 3}, sees(UUID), UUID)
    assert failed.text == "a job has failed with exit code 3"
    no_library = lines.own_device("0", DONE, {"error": "libcuda.so.1: cannot open"}, UUID)
    assert "--gpus all" in no_library.todo


def test_what_is_read_must_be_what_was_taken() -> None:
    for peak, result in ((None, FAILED), (0, FAILED), (100, FAILED), (700, OK), (9000, FAILED)):
        assert lines.memory_read("0", {**DONE, "peak_mib": peak}, 256).result == result


def test_a_refused_allocation_must_be_recognised_and_its_job_repeated() -> None:
    again = {**DONE, "attempt": 2}
    assert lines.out_of_memory(again, {"refused": 2}).result == OK
    assert lines.out_of_memory(again, {"refused": None}).text.endswith("the driver took it")
    assert lines.out_of_memory(again, {"refused": 999}).result == FAILED
    assert lines.out_of_memory(DONE, {"refused": 2}).result == FAILED
    assert lines.out_of_memory({**DONE, "state": "failed"}, {"refused": 2}).result == FAILED
    assert lines.out_of_memory({**again, "state": "failed"}, {"refused": 2}).result == FAILED


def test_two_jobs_must_run_at_the_same_time() -> None:
    runs = {**DONE, "state": "running"}
    assert lines.packed([runs, runs], [sees(UUID), sees(UUID)], "").result == OK
    waits = {**DONE, "state": "waiting"}
    line = lines.packed([runs, waits], [sees(UUID), {}], "needs a GPU")
    assert (line.result, line.text.endswith("does not start: needs a GPU")) == (FAILED, True)


def test_memory_must_come_back_unless_another_program_took_it() -> None:
    assert lines.memory_back(100, 110, False).result == OK
    assert lines.memory_back(100, 700, False).result == FAILED
    assert lines.memory_back(100, 700, True).result == SKIPPED
    assert lines.memory_back(None, 700, False).result == SKIPPED


def test_a_job_with_two_gpus_must_see_both() -> None:
    names, uuids = ["0", "1"], [UUID, OTHER]
    between = {("0", "1"): "NVLink"}
    good = lines.links(names, between, DONE, sees(OTHER, UUID), uuids)
    assert (good.result, good.text.endswith("0-1: NVLink")) == (OK, True)
    assert lines.links(names, between, DONE, sees(UUID), uuids).result == FAILED
    assert "does not tell" in lines.links(names, {}, DONE, sees(UUID, OTHER), uuids).text


def test_only_what_nobody_uses_is_free() -> None:
    assert lines.why_not_free(FREE, {}) == ""
    for change in (
        {"fault": "GPU is lost"},
        {"stale": True},
        {"vendor": "amd"},
        {"state": "foreign"},
        {"foreign": [{"pid": 7}]},
        {"used_mib": 2000},
    ):
        assert lines.why_not_free(FREE | change, {})
    assert lines.why_not_free(FREE, {UUID: "in use by your queue (job 7)"})
    assert lines.in_queue([{**FREE, "jobs": [7]}], [UUID]) == {UUID: "in use by your queue (job 7)"}
    assert lines.in_queue([FREE], [UUID, OTHER]) == {
        OTHER: "taken out of your queue (stoker gpus remove)"
    }
