"""Who goes first, as users see it: priorities, fairness to large jobs, and order."""

from __future__ import annotations

from stoker_home import StokerHome, lines_of
from waiting import eventually


def start_order(stoker: StokerHome, *ids: int) -> list[int]:
    """The ids in the order in which the jobs were started."""
    jobs = stoker.until_final(*ids)
    assert {job["state"] for job in jobs} == {"succeeded"}
    return [int(line) for line in lines_of(stoker.work / "order")]


def noted(stoker: StokerHome) -> dict[str, object]:
    return {"argv": ["sh", "-c", f"echo $STOKER_JOB_ID >> {stoker.work / 'order'}"]}


def test_lower_priority_numbers_go_first_then_the_order_of_submission(home: StokerHome) -> None:
    home.start(gpus="0")
    home.call("pause")
    priorities = [0, 5, -1, 0, -1, 5]
    ids = home.submit_all([noted(home) | {"priority": p} for p in priorities])
    home.call("resume")
    assert start_order(home, *ids) == [ids[i] for i in (2, 4, 0, 3, 1, 5)]


def test_a_job_for_many_gpus_is_not_starved_by_a_stream_of_small_ones(home: StokerHome) -> None:
    home.start(gpus="0-3")
    gates = [home.work / f"gate{n}" for n in range(4)]
    for gate in gates:
        home.submit("sh", "-c", f"until [ -e {gate} ]; do sleep 0.02; done")
    for job_id in (1, 2, 3, 4):
        home.until_state(job_id, "running")
    large = home.submit_all([noted(home) | {"gpus": 4}])[0]
    small = home.submit_all([noted(home)] * 12)
    # One GPU after the other becomes free, and none of the small ones takes it.
    for number, gate in enumerate(gates[:3], start=1):
        gate.touch()
        home.until_final(number)
        assert {home.job(job_id)["state"] for job_id in (large, *small)} == {"waiting"}
    reason = home.job(small[0])["reason"]
    assert f"kept for job {large}, which is before it" in reason
    gates[3].touch()
    assert start_order(home, large, *small)[0] == large


def test_a_small_job_goes_ahead_where_the_large_one_is_not_hurt(home: StokerHome) -> None:
    home.start(gpus="0-3")
    home.submit("sleep", "600", gpus=2, time_limit_ms=3_600_000)
    home.until_state(1, "running")
    large = home.submit("true", gpus=4)
    too_long = home.submit("sleep", "600", gpus=1)
    endless_cpu = home.submit("sleep", "600", gpus=0)
    short = home.submit("true", gpus=1, time_limit_ms=60_000, grace_ms=1000)
    assert home.until_final(short)[0]["state"] == "succeeded", "it ends before the large one starts"
    home.until_state(endless_cpu, "running")
    assert home.job(too_long)["state"] == "waiting"
    assert home.job(large)["state"] == "waiting"


def test_a_small_job_goes_ahead_on_gpus_that_the_large_one_can_not_use(home: StokerHome) -> None:
    home.start(gpus="0-3")
    home.submit("sleep", "600", on=["0"])
    home.until_state(1, "running")
    large = home.submit("true", gpus=2, on=["0", "1"])
    small = home.submit("true", on=["1"])
    other = home.submit("true")
    assert home.until_final(other)[0]["gpus"] in (["2"], ["3"])
    assert home.job(large)["state"] == "waiting"
    assert home.job(small)["state"] == "waiting"
    assert "GPU 1 is kept for job" in home.job(small)["reason"]


def test_jobs_that_share_go_to_the_smallest_idle_gpu_that_fits(home: StokerHome) -> None:
    home.start(gpus="0:80G,1:24G,2:12G")
    jobs = [home.submit("sleep", "600", mem_mib=mib) for mib in (10 * 1024, 20 * 1024, 4 * 1024)]
    for job_id in jobs:
        home.until_state(job_id, "running")
    assert [home.job(i)["gpus"] for i in jobs] == [["2"], ["1"], ["0"]]


def test_no_gpu_is_given_to_two_jobs_at_once(stoker: StokerHome) -> None:
    # Each job takes a lock for each of its GPUs, and fails if somebody has it.
    script = (
        "for g in $(echo $STOKER_GPUS | tr , ' '); do "
        "mkdir lock$g || exit 1; done; sleep 0.02; "
        "for g in $(echo $STOKER_GPUS | tr , ' '); do rmdir lock$g; done"
    )
    ids = stoker.submit_all([{"argv": ["sh", "-c", script], "gpus": 1 + n % 3} for n in range(60)])
    assert {job["state"] for job in stoker.until_final(*ids)} == {"succeeded"}


def test_attached_and_queued_jobs_wait_in_one_line(home: StokerHome) -> None:
    home.start(gpus="0")
    gate = home.work / "gate"
    first = home.submit("sh", "-c", f"until [ -e {gate} ]; do sleep 0.02; done")
    home.until_state(first, "running")
    order = home.work / "order"
    note = f"echo $STOKER_JOB_ID >> {order}"
    before = home.submit("sh", "-c", note)
    attached = home.popen("run", "--", "sh", "-c", note, stderr=-3)
    eventually(lambda: len(home.jobs()) == 3)
    after = home.submit("sh", "-c", note)
    gate.touch()
    assert attached.wait(60) == 0
    home.until_final(after)
    assert lines_of(order) == [str(before), "3", str(after)]
