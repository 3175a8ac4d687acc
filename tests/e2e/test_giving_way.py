"""Jobs that offered it give way for urgent ones, as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import stoker as library
from stoker_home import StokerHome, lines_of
from waiting import eventually

# It counts, saves how far it is when it gets USR2, and asks to go on later.
COUNTS = """
trap 'echo $n > $STOKER_CHECKPOINT_DIR/n; exit 75' USR2
n=$(cat $STOKER_CHECKPOINT_DIR/n 2>/dev/null || echo 0)
echo "from $n" >> "$2"
while [ $n -lt $1 ]; do n=$((n+1)); sleep 0.02; done
"""


def counts(stoker: StokerHome, to: int, name: str, *words: str) -> tuple[int, Path]:
    """An offered job that counts and runs, and the file in which it says from where it went on."""
    said, script = stoker.work / name, stoker.work / "counts.sh"
    script.write_text(COUNTS)
    options = ("--preemptible", "--signal", "USR2@30s", "--name", name, *words)
    job = stoker.add(*options, "--", "bash", str(script), str(to), str(said))
    eventually(lambda: lines_of(said))
    return job, said


def test_an_urgent_job_starts_at_once_and_the_other_goes_on_where_it_stopped(
    stoker: StokerHome,
) -> None:
    stoker.call("config_set", name="gpus", value="0")
    job, said = counts(stoker, 100, "low")
    other = stoker.add("--", "true")
    hurry = stoker.add("--urgent", "--", "sh", "-c", "sleep 0.5")
    eventually(lambda: stoker.job(hurry)["state"] == "running")
    waiting = stoker.job(job)
    assert waiting["reason"] == f"gave way for job {hurry}; needs 1 GPU, 0 of 1 free"
    first = waiting["attempts"][0]
    assert first["reason"] == f"gave way for job {hurry} (exit code 75)"
    assert first["state"] == "requeued"
    # The page's timeline marks it.
    [drawn] = [a for a in stoker.call("attempts", since_ms=0)["attempts"] if a["id"] == job]
    assert (drawn["state"], drawn["cause"], drawn["detail"]) == ("requeued", "gave way", str(hurry))
    ended = stoker.until_final(job, other, hurry)
    assert [one["state"] for one in ended] == ["succeeded"] * 3
    # It stands before the other one, which came later.
    assert ended[0]["attempts"][1]["started_at_ms"] <= ended[1]["started_at_ms"]
    starts = [int(line.split()[1]) for line in lines_of(said)]
    assert len(starts) == 2 and starts[1] > 0


def test_an_urgent_job_starts_within_the_grace_time_and_a_second_of_one_that_heeds_nothing(
    stoker: StokerHome,
) -> None:
    stoker.call("config_set", name="gpus", value="0")
    deaf, ready = "trap '' TERM; touch ready; while :; do sleep 0.1; done", stoker.work / "ready"
    job = stoker.add("--preemptible", "--grace", "1s", "--", "bash", "-c", deaf)
    eventually(ready.exists)
    hurry = stoker.add("--urgent", "--", "true")
    why = stoker.stoker("why", str(hurry))
    assert f"waits for job {job} to give way, at the latest in" in why or "running" in why
    ended = stoker.until_final(hurry)[0]
    assert ended["started_at_ms"] - ended["submitted_at_ms"] <= 2_000
    attempt = stoker.job(job)["attempts"][0]
    assert (attempt["state"], attempt["signal"]) == ("requeued", 9)


def test_the_one_that_saved_its_work_last_gives_way(stoker: StokerHome) -> None:
    stoker.call("config_set", name="gpus", value="0,1")
    saves = "touch $STOKER_CHECKPOINT_DIR/x; touch ready; exec sleep 600"
    older = stoker.add(
        "--preemptible", "--", "bash", "-c", f"until [ -e go ]; do sleep .05; done; {saves}"
    )
    stoker.until_pid(older)
    newer = stoker.add("--preemptible", "--", "sleep", "600")
    stoker.until_pid(newer)
    (stoker.work / "go").touch()
    eventually((stoker.work / "ready").exists)
    hurry = stoker.add("--urgent", "--", "sleep", "600")
    eventually(lambda: stoker.job(hurry)["state"] == "running")
    assert stoker.job(older)["attempts"][0]["reason"].startswith(f"gave way for job {hurry}")
    assert stoker.job(newer)["state"] == "running"


def test_yield_by_hand_lets_the_next_one_start(stoker: StokerHome) -> None:
    stoker.call("config_set", name="gpus", value="0")
    job, said = counts(stoker, 10**6, "low")
    other = stoker.add("--", "true")
    assert f"giving way: job {job}" in stoker.cli("yield", str(job)).err
    eventually(lambda: len(lines_of(said)) == 2)
    assert stoker.job(other)["state"] == "succeeded"
    assert stoker.job(job)["attempts"][0]["reason"] == "gave way (exit code 75)"
    client = library.Client(stoker.home.root)
    assert client.yield_(job) == [job]
    eventually(lambda: len(lines_of(said)) == 3)


def test_what_can_not_give_way_is_refused_in_one_line(stoker: StokerHome) -> None:
    running, done = stoker.add("--", "sleep", "600"), stoker.add("--preemptible", "--", "true")
    stoker.until_pid(running)
    stoker.until_final(done)
    not_offered = f"did not offer to give way (--preemptible); `stoker requeue {running}`"
    for job, words in ((running, not_offered), (done, "has ended already (succeeded)")):
        said = stoker.cli("yield", str(job))
        assert said.code != 0 and words in said.err and said.err.count("\n") == 1, said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--yields", "2"), "add --preemptible"),
        (("--preemptible", "--yields", "0"), "too small"),
        (("--preemptible", "--yields", "often"), "often"),
        (("--preemptible", "--urgent"), "exclude each other"),
        (("--urgent", "--on-cluster"), "Slurm preempts by its own rules"),
        (("--preemptible", "--on-cluster"), "Slurm preempts by its own rules"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(
    reused: StokerHome, words: tuple[str, ...], says: str
) -> None:
    said = reused.cli("add", *words, "--", "true")
    assert said.code == 2 and says in said.err and said.err.count("\n") == 1, said


def test_a_job_in_a_terminal_does_not_give_way_but_may_be_urgent(reused: StokerHome) -> None:
    said = reused.cli("run", "--preemptible", "--", "true")
    assert said.code == 2 and "--preemptible is for jobs that can start without" in said.err
    assert reused.cli("run", "--urgent", "--", "true").code == 0


def test_an_urgent_job_for_which_none_can_give_way_says_so(stoker: StokerHome) -> None:
    stoker.call("config_set", name="gpus", value="0")
    stoker.until_pid(stoker.add("--", "sleep", "600"))
    hurry = stoker.add("--urgent", "--", "true")
    assert "none that offered to give way (--preemptible) can make room" in stoker.stoker(
        "why", str(hurry)
    )


def test_the_setting_makes_jobs_urgent_by_their_priority(reused: StokerHome) -> None:
    reused.call("config_set", name="urgent-from", value="-10")
    said: list[tuple[dict[str, Any], bool]] = [
        ({"priority": -10}, True),
        ({"priority": -9}, False),
        ({"priority": -10, "urgent": False}, False),
        ({"priority": -10, "preemptible": True}, False),
        ({"priority": 5, "urgent": True}, True),
    ]
    jobs = [reused.submit("true", hold=True, **fields) for fields, _ in said]

    def urgent(*ids: int) -> list[bool]:
        return [reused.job(job)["urgent"] for job in ids]

    def edit(priority: int, *ids: int) -> None:
        reused.call("edit", select={"ids": [*map(str, ids)]}, changes={"priority": priority})

    assert urgent(*jobs) == [expected for _, expected in said]
    edit(-11, *jobs)
    assert urgent(*jobs) == [True, True, False, False, True]
    edit(0, *jobs[:4])
    assert urgent(*jobs) == [False, False, False, False, True]
    rows = "\n".join(json.dumps({"command": "true", "priority": p, "hold": True}) for p in (-20, 0))
    (reused.work / "jobs.jsonl").write_text(rows)
    reused.stoker("batch", "jobs.jsonl", "--no-wait")
    assert urgent(jobs[-1] + 1, jobs[-1] + 2) == [True, False]


def test_a_restart_of_the_daemon_neither_forgets_nor_repeats_a_stop(stoker: StokerHome) -> None:
    stoker.call("config_set", name="gpus", value="0,1")
    quick, said = counts(stoker, 10**6, "quick", "--gpus", "1")
    deaf = "trap '' TERM USR2; touch ready; while :; do sleep 0.1; done"
    slow = stoker.add("--preemptible", "--grace", "2s", "--", "bash", "-c", deaf)
    eventually((stoker.work / "ready").exists)
    hurry = stoker.add("--urgent", "--gpus", "2", "--", "sleep", "600")
    other = stoker.add("--", "true")
    eventually(lambda: stoker.job(quick)["state"] == "waiting")
    stoker.kill_daemon()
    stoker.start()
    # The one GPU is free, and kept.
    assert stoker.job(quick)["state"] == stoker.job(other)["state"] == "waiting"
    eventually(lambda: stoker.job(hurry)["state"] == "running")
    assert [stoker.job(job)["attempt"] for job in (quick, slow, hurry)] == [1, 1, 1]
    assert len(lines_of(said)) == 1
