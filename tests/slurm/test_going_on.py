"""Jobs of a cluster that go on later: each time is a new attempt of ours."""

from __future__ import annotations

from pathlib import Path

from stoker_home import StokerHome
from waiting import eventually

SAVES = (
    "n=$STOKER_CHECKPOINT_DIR/n; [ -e $n ] && echo went on, $STOKER_RESUMES && exit 0; "
    "trap 'echo x > $n; exit 75' USR2; echo ready; while :; do sleep 0.1; done"
)


def test_an_exit_code_that_asks_for_it_is_another_attempt(there: StokerHome) -> None:
    n = "$STOKER_CHECKPOINT_DIR/n"
    script = f"echo x >> {n}; [ $(wc -l < {n}) = 3 ] || exit 75"
    job = there.until_final(there.add("--on-cluster", "--requeue-on", "75", "--", script))[0]
    assert (job["state"], job["attempt"], job["resumes"]) == ("succeeded", 3, 2)
    assert [one["state"] for one in job["attempts"]] == ["requeued", "requeued", "succeeded"]
    assert len(Path(job["checkpoint_dir"], "n").read_text().split()) == 3


def test_a_slice_is_slurms_time_limit_and_its_signal_comes_before(there: StokerHome) -> None:
    words = ("--on-cluster", "--slice", "1m", "--signal", "USR2@58s")
    job = there.until_final(there.add(*words, "--", "bash", "-c", SAVES))[0]
    assert (job["state"], job["attempt"]) == ("succeeded", 2)
    assert job["attempts"][0]["exit_code"] == 75
    assert "went on, 1" in there.log_of(job["id"])


def test_a_job_that_runs_there_is_requeued_by_hand(there: StokerHome) -> None:
    job = there.add("--on-cluster", "--", "echo attempt $STOKER_ATTEMPT; sleep 600")
    there.until_state(job, "running")
    eventually(lambda: "attempt 1" in there.log_of(job))
    there.stoker("requeue", str(job))
    eventually(lambda: there.job(job)["attempt"] == 2, "it waits again", 60)
    there.until_state(job, "running")
    eventually(lambda: "attempt 2" in there.log_of(job), "it runs again")
    first = there.job(job)["attempts"][0]
    assert (first["state"], first["signal"]) == ("requeued", 15)
