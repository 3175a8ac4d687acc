"""Every waiting job has its reason, as a value and in words."""

from __future__ import annotations

from typing import get_args

import pytest

from stoker.core import events as ev
from stoker.core import reasons as why
from stoker.core.model import Cause, Exit, JobState, Need, Outcome
from stoker.core.plan import Scan
from stoker.core.policy_reasons import FairShares, ShortestFirst
from stoker.core.waiting import can_never_start
from unit.core_scene import GIB, Scene, cpu_only, mem, share, whole


def test_a_held_job_is_held() -> None:
    scene = Scene(1)
    assert scene.why(scene.submit(held=True)) == why.IsHeld()


def test_a_held_job_is_held_whatever_else_it_waits_for() -> None:
    scene = Scene(1)
    first = scene.submit(whole(7))
    scene.apply(ev.QueuePaused(scene.now))
    assert scene.why(scene.submit(held=True, after=[first])) == why.IsHeld()


def test_a_job_waits_for_the_jobs_that_it_requires() -> None:
    scene = Scene(1)
    first = scene.running()
    assert scene.why(scene.submit(after=[first])) == why.WaitsForJobs((first,), True)
    assert scene.why(scene.submit(after_any=[first])) == why.WaitsForJobs((first,), False)


def test_a_job_that_only_has_to_end_is_told_apart_from_those_that_must_succeed() -> None:
    scene = Scene(1)
    first, second, third = scene.running(), scene.submit(), scene.submit()
    mixed = scene.submit(after=[third, first], after_any=[second])
    reason = scene.why(mixed)
    assert isinstance(reason, why.WaitsForJobs) and reason.must_succeed
    assert sorted(reason.job_ids) == [first, second, third] and reason.only_end == (second,)
    scene.exited(first, 0)
    assert why.words(scene.why(mixed), scene.now) == (
        f"waits for job {third} to succeed and job {second} to end"
    )


def test_a_job_waits_for_its_moment() -> None:
    scene = Scene(1)
    moment = scene.now + 90_000
    assert scene.why(scene.submit(at_ms=moment)) == why.WaitsForTime(moment, after_failure=False)


def test_a_job_that_failed_waits_for_its_next_attempt() -> None:
    scene = Scene(1)
    job = scene.submit(retries=1)
    scene.plan()
    scene.started(job)
    scene.exited(job, 1)
    assert scene.why(job) == why.WaitsForTime(scene.now + 1_000, after_failure=True)


def test_a_job_for_more_gpus_than_there_are_can_never_start() -> None:
    scene = Scene(2)
    assert scene.why(scene.submit(whole(3))) == why.CanNeverStart(3, could_fit=2, drained=0)


def test_a_job_for_more_memory_than_any_gpu_has_can_never_start() -> None:
    scene = Scene({"0": 24, "1": 80})
    assert scene.why(scene.submit(mem(81))) == why.CanNeverStart(1, could_fit=0, drained=0)
    assert scene.why(scene.submit(mem(60, gpus=2))) == why.CanNeverStart(2, could_fit=1, drained=0)


def test_a_job_for_a_gpu_that_is_not_there_can_never_start() -> None:
    scene = Scene(2)
    assert scene.why(scene.submit(whole(on=("7",)))) == why.CanNeverStart(1, 0, 0)


def test_a_job_that_waits_for_drained_gpus_says_so() -> None:
    scene = Scene(2)
    scene.apply(ev.GpuDrained(scene.now, "0"))
    assert scene.why(scene.submit(whole(2))) == why.CanNeverStart(2, could_fit=2, drained=1)


def test_a_job_for_more_cpu_slots_than_there_are_needs_them() -> None:
    scene = Scene(1, cpus=4)
    assert scene.why(scene.submit(cpu_only(5))) == why.NeedsCpus(5, free=4, total=4)


def test_whether_a_need_can_be_met_at_all_can_be_asked_before_it_is_submitted() -> None:
    scene = Scene(2, cpus=4)
    scene.running(whole(2, cpus=4))
    assert can_never_start(scene.state, whole(2, cpus=4)) is None
    assert can_never_start(scene.state, whole(3)) == why.CanNeverStart(3, 2, 0)
    assert can_never_start(scene.state, cpu_only(5)) == why.NeedsCpus(5, 4, 4)


def test_in_a_paused_queue_every_ready_job_waits_for_that() -> None:
    scene = Scene(1)
    job = scene.submit(group="a")
    scene.apply(ev.QueuePaused(scene.now))
    assert scene.why(job) == why.QueueIsPaused(None)


def test_a_job_of_a_paused_group_waits_for_that() -> None:
    scene = Scene(1)
    job = scene.submit(group="a")
    scene.apply(ev.QueuePaused(scene.now, "a"))
    assert scene.why(job) == why.QueueIsPaused("a")


def test_a_job_of_a_full_group_waits_for_that() -> None:
    scene = Scene(2)
    scene.apply(ev.GroupLimited(scene.now, "a", 1))
    scene.submit(group="a")
    job = scene.submit(group="a")
    scene.plan()
    assert scene.why(job) == why.GroupIsFull("a", 1)


def test_a_job_needs_gpus_that_are_not_free() -> None:
    scene = Scene(4)
    scene.running(whole(3))
    assert scene.why(scene.submit(whole(2))) == why.NeedsGpus(2, free=1, allowed=4)
    assert scene.why(scene.submit(whole(on=("0", "1")))) == why.NeedsGpus(1, free=0, allowed=2)


def test_a_job_needs_memory_that_is_not_free_and_learns_where_most_is() -> None:
    scene = Scene(2)
    scene.running(mem(20))
    scene.running(mem(16))
    assert scene.why(scene.submit(mem(10))) == why.NeedsMemory(10 * GIB, 8 * GIB, "1")


def test_a_job_needs_a_share_that_is_not_free_and_learns_where_most_is() -> None:
    scene = Scene({"0": None, "1": None})
    scene.running(share(0.8))
    scene.running(share(0.7))
    assert scene.why(scene.submit(share(0.5))) == why.NeedsShare(500, 300, "1")


def test_a_job_with_a_share_needs_that_share_if_all_are_taken_whole() -> None:
    scene = Scene(2)
    scene.running(whole(2))
    assert scene.why(scene.submit(share(0.3))) == why.NeedsGpus(1, 0, 2, share_milli=300)


def test_a_small_job_needs_a_gpu_if_all_are_taken_whole() -> None:
    scene = Scene(1)
    scene.running(whole())
    assert scene.why(scene.submit(mem(1))) == why.NeedsGpus(1, free=0, allowed=1)
    assert scene.why(scene.submit(share(0.1))) == why.NeedsGpus(1, 0, 1, share_milli=100)


def test_a_job_kept_out_by_a_limit_per_gpu_needs_a_gpu() -> None:
    scene = Scene(1)
    scene.running(mem(1, max_per_gpu=1))
    assert scene.why(scene.submit(mem(1))) == why.NeedsGpus(1, free=0, allowed=1)


def test_a_job_needs_cpu_slots_that_are_not_free() -> None:
    scene = Scene(1, cpus=4)
    scene.running(cpu_only(3))
    assert scene.why(scene.submit(whole(cpus=2))) == why.NeedsCpus(2, free=1, total=4)


def test_a_job_for_which_there_is_room_that_is_kept_for_another_is_held_back() -> None:
    scene = Scene(4)
    scene.running(whole(2))
    big = scene.submit(whole(3))
    small = scene.submit()
    assert scene.plan() == {}
    assert scene.why(small) == why.HeldBack(big, ("2", "3"))


def test_a_job_for_which_slots_are_kept_for_another_is_held_back() -> None:
    scene = Scene(0, cpus=4)
    scene.running(cpu_only(2))
    big, small = scene.submit(cpu_only(3)), scene.submit(cpu_only(1))
    assert scene.plan() == {}
    assert scene.why(small) == why.HeldBack(big, ())


def test_a_job_that_lacks_only_cpu_slots_is_not_told_that_it_lacks_gpus() -> None:
    scene = Scene(2, cpus=4)
    scene.running(cpu_only(2))
    first = scene.submit(Need(1, on=("0",), cpus=4))
    second = scene.submit(whole(cpus=1))
    assert scene.plan() == {}
    assert scene.why(second) == why.HeldBack(first, ())


def test_a_job_that_nothing_hinders_is_next() -> None:
    scene = Scene(1)
    assert scene.why(scene.submit()) == why.IsNext()


def test_asking_for_a_reason_changes_nothing() -> None:
    scene = Scene(2)
    scene.running()
    jobs = [scene.submit(need) for need in (whole(2), whole(), mem(3), whole(2), cpu_only())]
    reasons = [scene.why(job) for job in jobs]
    assert [scene.why(job) for job in jobs] == reasons
    assert scene.plan() == {jobs[4]: ()}


# ---------------------------------------------------------------------- in words

IN_WORDS: list[tuple[why.Reason, str]] = [
    (why.IsHeld(), "held; `stoker release` lets it go"),
    (why.QueueIsPaused(None), "the queue is paused; `stoker resume` lets it go on"),
    (why.QueueIsPaused("a"), "group a is paused; `stoker resume --group a` lets it go on"),
    (
        why.DaemonIsEnding(),
        "the daemon is draining: it starts nothing more; the next one will",
    ),
    (why.GroupIsFull("a", 1), "group a runs at most 1 job at a time"),
    (why.ClusterIsFull(10), "10 jobs may be with the cluster at a time (`slurm.jobs`)"),
    (why.AtCluster("", "", None), "is being handed over to the cluster"),
    (
        why.AtCluster("", "the cluster takes no more jobs now", None),
        "the cluster takes no more jobs now",
    ),
    (
        why.AtCluster("812_3", "Resources", None),
        "waits at the cluster for resources (job 812_3)",
    ),
    (
        why.AtCluster("812", "QOSGrpGRES", -61_000),
        "waits at the cluster: QOSGrpGRES (job 812); the cluster has not answered for 1m 01s",
    ),
    (why.GroupIsFull("a", 2), "group a runs at most 2 jobs at a time"),
    (why.WaitsForTime(60_000, False), "starts in 1m 00s"),
    (why.WaitsForTime(1, False), "starts in 1s"),
    (why.WaitsForTime(7_500_000, False), "starts in 2h 05m"),
    (why.WaitsForTime(5 * 86_400_000, False), "starts in 5d 0h"),
    (why.WaitsForTime(-5, True), "tries again in 0s after a failure"),
    (
        why.MachineIsShort("no more processes can be made", 61_000),
        "could not start: no more processes can be made; tries again in 1m 01s",
    ),
    (
        why.DiskIsLow("/home/me/stoker", 900, 2048),
        "nothing starts: the disk of /home/me/stoker has only 900 MiB free, and jobs start with "
        "2.0 GiB or more (setting disk-stop); `stoker disk` shows what takes room",
    ),
    (why.WaitsForJobs((4,), True), "waits for job 4 to succeed"),
    (why.WaitsForJobs((4, 5), False), "waits for jobs 4, 5 to end"),
    (why.WaitsForJobs(tuple(range(1, 8)), True), "waits for jobs 1, 2, 3, 4, 5, … to succeed"),
    (
        why.WaitsForJobs((1, 6, 2), True, (2,)),
        "waits for jobs 1, 6 to succeed and job 2 to end",
    ),
    (why.WaitsForProcesses(("7 (sh -c x)",)), "waiting for process 7 (sh -c x) to end"),
    (
        why.NeedsTerminal(),
        "its terminal (`stoker run`) is not connected; called off if it stays away",
    ),
    (why.NeedsGpus(4, 1, 8), "needs 4 GPUs, 1 of 8 free"),
    (why.NeedsGpus(1, 0, 1), "needs 1 GPU, 0 of 1 free"),
    (why.NeedsGpus(1, 0, 2, share_milli=300), "needs 0.3 of a GPU, 0 of 2 free"),
    (
        why.NeedsMemory(8 * GIB, 512, "2"),
        "needs 8.0 GiB of GPU memory, most room is 512 MiB on GPU 2",
    ),
    (why.NeedsShare(500, 250, "1"), "needs 0.5 of a GPU, most room is 0.25 on GPU 1"),
    (why.NeedsCpus(8, 2, 4), "needs 8 CPU slots, 2 of 4 free"),
    (why.NeedsCpus(1, 0, 4), "needs 1 CPU slot, 0 of 4 free"),
    (why.HeldBack(3, ()), "CPU slots are kept for job 3, which is before it"),
    (why.HeldBack(3, ("1",)), "GPU 1 is kept for job 3, which is before it"),
    (why.HeldBack(3, ("1", "2")), "GPUs 1, 2 are kept for job 3, which is before it"),
    (
        why.CanNeverStart(3, 2, 0),
        "needs 3 GPUs, and only 2 could ever fit it; add or resume a GPU, or edit the job",
    ),
    (
        why.CanNeverStart(2, 2, 1),
        "needs 2 GPUs, and only 1 could ever fit it (1 more is drained); "
        "add or resume a GPU, or edit the job",
    ),
    (
        why.CanNeverStart(4, 5, 2),
        "needs 4 GPUs, and only 3 could ever fit it (2 more are drained); "
        "add or resume a GPU, or edit the job",
    ),
    (why.NeedsGpus(1, 0, 2, 1), "needs 1 GPU, 0 of 2 free (1 used by other programs)"),
    (
        why.NeedsGpus(1, 0, 3, 1, adopted=(7, 9)),
        "needs 1 GPU, 0 of 3 free (1 used by other programs; used by adopted jobs 7, 9)",
    ),
    (
        why.NeedsMemory(10_035, 6_246, "2", 4),
        "needs 9.8 GiB (learned from 4 runs), most room is 6.1 GiB on GPU 2",
    ),
    (
        why.NeedsMemory(2_048, 1_024, "0", 0),
        "needs 2.0 GiB (learned from a run that goes on), most room is 1.0 GiB on GPU 0",
    ),
    (
        why.NeedsMemory(2_048, 1_024, "0", 3, 2),
        "needs 2.0 GiB (it ran out of memory twice), most room is 1.0 GiB on GPU 0",
    ),
    (
        why.NeedsUse(60, 130, 175, "1"),
        "uses 60% of a GPU, and the least busy, GPU 1, has 130% in use (together at most 175%)",
    ),
    (
        why.WaitsForScout(3),
        "waits until it is known how much memory job 3 needs, which is like it",
    ),
    (why.IsSuspended(-61_000, True), "suspended for 1m 01s; `stoker resume ID` lets it go on"),
    (
        why.IsSuspended(-2_000, False),
        "suspended for 2s, and not all of its processes have stopped yet; `stoker resume ID` lets "
        "it go on",
    ),
    (why.IsNext(), "starts next"),
    (
        why.WaitsForGivingWay((3, 5), 25_000),
        "waits for jobs 3, 5 to give way, at the latest in 25s",
    ),
    (
        why.NoneGivesWay(why.NeedsGpus(1, 0, 1)),
        "needs 1 GPU, 0 of 1 free; none that offered to give way (--preemptible) can make room for "
        "it",
    ),
    (
        why.NoneGivesWay(why.NeedsGpus(1, 0, 1), 3, 10_000),
        "needs 1 GPU, 0 of 1 free; job 3 offered to give way, but is left alone for another 10s, "
        "since it gave way before",
    ),
    (why.GivesWay(9, 25_000), "gives way for job 9, at the latest in 25s"),
    (why.GivesWay(None, 25_000), "gives way, at the latest in 25s"),
    (
        why.HasGivenWay(9, False, why.NeedsGpus(1, 0, 1)),
        "gave way for job 9; needs 1 GPU, 0 of 1 free",
    ),
    (
        why.HasGivenWay(9, True, why.NeedsGpus(1, 0, 1)),
        "gave way for job 9 more than an hour ago, so it goes first now; needs 1 GPU, 0 of 1 free",
    ),
    (
        ShortestFirst(1, 5, 60_000, why.NeedsGpus(1, 0, 1)),
        "shortest first: 1 job with less expected GPU time or a longer wait goes first; at the "
        "latest in 1m 00s no new job does; needs 1 GPU, 0 of 1 free",
    ),
    (
        FairShares(2, None, 60_000, why.NeedsGpus(1, 0, 1)),
        "fair shares: jobs without a group have used 1m 00s of GPU time of late, and 2 jobs go "
        "first; needs 1 GPU, 0 of 1 free",
    ),
]


@pytest.mark.parametrize(("reason", "text"), IN_WORDS, ids=[text for _, text in IN_WORDS])
def test_a_reason_can_be_said_in_words(reason: why.Reason, text: str) -> None:
    assert why.words(reason, 0) == text


def test_there_are_words_for_every_kind_of_reason() -> None:
    assert {type(reason) for reason, _ in IN_WORDS} == set(get_args(why.Reason))


def test_a_reason_as_data_has_its_kind_and_its_fields() -> None:
    assert why.as_data(why.NeedsGpus(4, 1, 8)) == {
        "kind": "NeedsGpus",
        "wanted": 4,
        "free": 1,
        "allowed": 8,
        "others": 0,
        "share_milli": None,
        "adopted": (),
    }


ENDINGS: list[tuple[Outcome, str | None]] = [
    (Outcome(JobState.SUCCEEDED, Cause.EXIT, Exit(code=0)), None),
    (Outcome(JobState.FAILED, Cause.EXIT, Exit(code=2)), "exit code 2"),
    (Outcome(JobState.FAILED, Cause.EXIT, Exit(signal=9)), "signal 9 (SIGKILL)"),
    (Outcome(JobState.FAILED, Cause.EXIT, Exit(signal=40)), "signal 40"),
    (Outcome(JobState.FAILED, Cause.TIME_LIMIT, Exit(signal=15)), "time limit"),
    (Outcome(JobState.FAILED, Cause.NOT_STARTED, None, "no sh"), "could not start: no sh"),
    (Outcome(JobState.FAILED, Cause.SHORTAGE, None, "no files"), "could not start: no files"),
    (Outcome(JobState.CANCELLED, Cause.CANCELLED, Exit(signal=15)), None),
    (Outcome(JobState.CANCELLED, Cause.TERMINAL_GONE), "its terminal was gone"),
    (
        Outcome(JobState.SKIPPED, Cause.REQUIREMENT, None, "4 failed"),
        "job 4, which it needs, ended as failed",
    ),
    (Outcome(JobState.FAILED, Cause.OUT_OF_MEMORY, Exit(code=1)), "out of memory"),
    (Outcome(JobState.FAILED, Cause.GPU_LOST, Exit(signal=15)), "gpu lost"),
    (
        Outcome(JobState.SKIPPED, Cause.REQUIREMENT, None, "4"),
        "job 4, which it needs, did not succeed",
    ),
    (Outcome(JobState.CANCELLED, Cause.CANCELLED, None, "by scancel"), "by scancel"),
    (Outcome(JobState.FAILED, Cause.NODE_MEMORY, Exit(signal=9)), "out of memory on its node"),
    (Outcome(JobState.FAILED, Cause.PREEMPTED, None, "preempted on n1"), "preempted on n1"),
    (Outcome(JobState.STOPPED, Cause.STOPPED_EARLY, None, "at step 9"), "stopped early at step 9"),
    (Outcome(JobState.STOPPED, Cause.STOPPED_EARLY), "stopped early"),
    (Outcome(JobState.FAILED, Cause.NODE_FAILED), "node failed"),
    (Outcome(JobState.FAILED, Cause.REQUEUED, None, "taken back"), "taken back"),
    (Outcome(JobState.FAILED, Cause.CLUSTER, None, "DEADLINE"), "DEADLINE"),
    (Outcome(JobState.WAITING, Cause.EXIT, Exit(code=75)), "exit code 75"),
    (Outcome(JobState.WAITING, Cause.REQUEUED), "requeued by its user"),
    (
        Outcome(JobState.WAITING, Cause.SLICE, Exit(code=75)),
        "its slice was over (exit code 75)",
    ),
    (Outcome(JobState.WAITING, Cause.GAVE_WAY), "gave way"),
    (
        Outcome(JobState.WAITING, Cause.GAVE_WAY, Exit(code=75), "9"),
        "gave way for job 9 (exit code 75)",
    ),
    (
        Outcome(JobState.FAILED, Cause.STUCK, Exit(code=75), "3"),
        "no progress in 3 attempts in a row: nothing was written to its checkpoint directory and "
        "no further step was reported (exit code 75)",
    ),
    (Outcome(JobState.FAILED, Cause.MPS_FAULT, Exit(code=1)), "mps server fault"),
    (Outcome(JobState.LOST, Cause.NO_TRACE, None, "power cut"), "power cut"),
    (Outcome(JobState.LOST, Cause.NO_TRACE), "no process and no exit code was left"),
]


@pytest.mark.parametrize(("outcome", "text"), ENDINGS)
def test_an_ending_can_be_said_in_words(outcome: Outcome, text: str | None) -> None:
    assert why.outcome_words(outcome) == text


def test_there_are_words_for_every_cause_of_an_ending() -> None:
    assert {outcome.cause for outcome, _ in ENDINGS} == set(Cause)


def test_an_outcome_is_final() -> None:
    with pytest.raises(AssertionError):
        Outcome(JobState.RUNNING, Cause.EXIT)


def _fails(*_: object) -> None:
    raise RuntimeError("in the middle of it")


def test_a_question_that_fails_leaves_the_first_in_line_where_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(2)
    blocker, big, small = scene.running(), scene.submit(whole(2)), scene.submit()
    with monkeypatch.context() as patch:
        patch.setattr(Scan, "hold_back", _fails)
        with pytest.raises(RuntimeError):
            scene.why(small)
    scene.exited(blocker)
    assert scene.plan() == {big: ("0", "1")}


def test_planning_that_fails_leaves_the_first_in_line_where_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(2)
    blocker, big = scene.running(), scene.submit(whole(2))
    scene.submit()
    with monkeypatch.context() as patch:
        patch.setattr(Scan, "hold_back", _fails)
        with pytest.raises(RuntimeError):
            scene.plan()
    scene.exited(blocker)
    assert scene.plan() == {big: ("0", "1")}
