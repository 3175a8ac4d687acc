"""Jobs that are put back, while daemons are killed: none lost, none doubled, no wrong exit code."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from stoker_home import StokerHome, lines_of
from waiting import eventually

pytestmark = pytest.mark.timeout(900)

JOBS, STEPS, KILLS, REQUEUES = 12, 8, 10, 40

# Each attempt does some steps, one line each, and asks to go on later; what was cut off in the
# middle of a step has not done it. Two attempts at once would be seen by the lock.
WORKS = """
exec 9> "$1.lock"; flock -n 9 || { echo twice >> "$1.twice"; exit 99; }
trap 'exit 75' USR2
n=$(wc -l < "$STOKER_CHECKPOINT_DIR/steps" 2>/dev/null || echo 0)
for step in 1 2 3; do
  [ $n -lt $2 ] || exit 0
  sleep 0.05 & wait $!
  n=$((n + 1)); echo $n >> "$STOKER_CHECKPOINT_DIR/steps"
done
exit 75
"""


def test_jobs_that_go_on_later_do_all_their_work_once_however_often_daemons_are_killed(
    home: StokerHome,
) -> None:
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    chance = random.Random(seed)
    home.start(gpus="0-2")
    script = home.work / "works.sh"
    script.write_text(WORKS)
    options = {"slice_ms": 300, "signal": "USR2", "signal_before_ms": 200, "requeue": True}
    options["stuck_after"] = 0  # On a busy machine, a slice may be over before the first step is.
    own = [home.work / f"job{number}" for number in range(JOBS)]
    argvs = [["bash", str(script), str(path), str(STEPS)] for path in own]
    ids = home.submit_all([{"argv": argv, **options} for argv in argvs])
    after = home.submit_all([{"argv": ["true"], "after": [str(job)]} for job in ids])
    for kill in range(KILLS):
        for _ in range(REQUEUES // KILLS):
            running = [job["id"] for job in home.jobs().values() if job["state"] == "running"]
            if running:
                home.cli("requeue", str(chance.choice(running)))  # It may have ended by now.
        done = sum(len(lines_of(Path(home.job(job)["checkpoint_dir"], "steps"))) for job in ids)
        if kill % 3 == 2:
            home.power_cut()
        else:
            home.kill_daemon()
        home.start()
        if done == JOBS * STEPS:
            break
    ended = home.until_final(*ids)
    assert {job["state"] for job in ended} == {"succeeded"}, [job["reason"] for job in ended]
    assert {job["exit_code"] for job in ended} == {0}
    assert not any(path.with_suffix(".twice").exists() for path in own)
    for job in ended:
        steps = [int(line) for line in lines_of(Path(job["checkpoint_dir"], "steps"))]
        assert steps == list(range(1, STEPS + 1))
        assert all(one["state"] == "requeued" for one in job["attempts"][:-1]), job["attempts"]
        assert [one["attempt"] for one in job["attempts"]] == list(range(1, job["attempt"] + 1))
    assert sum(job["resumes"] for job in ended) >= JOBS
    then = home.until_final(*after)
    assert {job["state"] for job in then} == {"succeeded"} and {job["attempt"] for job in then} == {
        1
    }
    for job, one in zip(ended, then, strict=True):
        assert one["started_at_ms"] >= job["ended_at_ms"]
    eventually(lambda: all(gpu["state"] == "free" for gpu in home.call("gpus")["gpus"]))
