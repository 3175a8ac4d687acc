"""Jobs that go on later: put back by exit code, slice or their users, with their checkpoints."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from small_disk import SmallDisk, disk
from stoker_home import StokerHome, lines_of
from waiting import eventually

__all__ = ["disk"]

# It counts to the number that it is given, saves how far it is on USR2, and says so by 75.
COUNTS = """
trap 'echo $n > $STOKER_CHECKPOINT_DIR/n; exit 75' USR2
n=$(cat $STOKER_CHECKPOINT_DIR/n 2>/dev/null || echo 0)
echo "from $n, attempt $STOKER_ATTEMPT, resumes $STOKER_RESUMES" >> "$2"
while [ $n -lt $1 ]; do n=$((n+1)); sleep 0.02; done
"""

# A training whose state depends on all that it has computed so far. It saves on its signal and at
# no other time, and then asks to go on later.
TRAINS = """
import os, random, pickle, signal, sys, time

epochs, out = int(sys.argv[1]), sys.argv[2]
saved = os.path.join(os.environ["STOKER_CHECKPOINT_DIR"], "state.pickle")
told = False

def tell(*_):
    global told
    told = True

signal.signal(signal.SIGUSR2, tell)
epoch, weights, chance = 0, [0.0] * 64, random.Random(7)
if os.path.exists(saved):
    with open(saved, "rb") as file:
        epoch, weights, state = pickle.load(file)
    chance.setstate(state)
print("from epoch", epoch, flush=True)
while epoch < epochs:
    for step in range(5):
        weights = [0.9 * w + chance.gauss(0, 1) for w in weights]
        time.sleep(0.01)
    epoch += 1
    if told and epoch < epochs:
        with open(saved + ".new", "wb") as file:
            pickle.dump((epoch, weights, chance.getstate()), file)
        os.replace(saved + ".new", saved)
        sys.exit(75)
with open(out, "wb") as file:
    pickle.dump((epoch, weights, chance.getstate()), file)
"""


def counts(stoker: StokerHome, to: int, *words: str) -> tuple[int, Path]:
    """A job that counts, and the file in which it says from where it went on."""
    said = stoker.work / f"said{len(list(stoker.work.iterdir()))}"
    script = stoker.work / "counts.sh"
    script.write_text(COUNTS)
    return stoker.add(*words, "--", "bash", str(script), str(to), str(said)), said


def test_jobs_in_slices_take_turns_and_each_goes_on_where_it_stopped(stoker: StokerHome) -> None:
    stoker.call("config_set", name="gpus", value="0")
    jobs = [counts(stoker, 100, "--slice", "800ms", "--signal", "USR2@300ms") for _ in range(2)]
    ended = stoker.until_final(*(job for job, _ in jobs))
    assert [job["state"] for job in ended] == ["succeeded", "succeeded"]
    for job, (_, said) in zip(ended, jobs, strict=True):
        assert job["resumes"] >= 1
        *before, last = job["attempts"]
        assert {one["state"] for one in before} == {"requeued"}
        assert {one["exit_code"] for one in before} == {75}
        assert last["state"] == "succeeded"
        lines = lines_of(said)
        starts = [int(line.split()[1].rstrip(",")) for line in lines]
        assert starts == sorted(starts) and starts[0] == 0 and starts[1] > 0
        last_one = len(lines) - 1
        assert lines[-1].endswith(f"attempt {last_one + 1}, resumes {last_one}")
    page = stoker.stoker("show", str(ended[0]["id"]))
    assert "its slice was over (exit code 75)" in page and "ran in all" in page
    assert ended[0]["checkpoint_dir"] in page


def test_a_job_in_slices_goes_on_if_none_wait(stoker: StokerHome) -> None:
    job, said = counts(stoker, 60, "--slice", "300ms", "--signal", "USR2@100ms")
    assert stoker.until_final(job)[0]["attempt"] == 1
    assert len(lines_of(said)) == 1


def test_an_exit_code_that_asks_for_it_puts_back_and_dependants_wait(stoker: StokerHome) -> None:
    script = "d=$STOKER_CHECKPOINT_DIR; echo x >> $d/n; [ $(wc -l < $d/n) -ge 4 ] || exit 76"
    job = stoker.add("--requeue-on", "75,76", "--", "sh", "-c", script)
    after = stoker.add("--after", str(job), "--", "true")
    ended, then = stoker.until_final(job, after)
    assert (ended["state"], ended["attempt"], ended["resumes"]) == ("succeeded", 4, 3)
    assert then["state"] == "succeeded"
    assert then["started_at_ms"] >= ended["ended_at_ms"]


def test_a_job_that_makes_no_progress_fails_and_says_so(stoker: StokerHome) -> None:
    script = "echo $STOKER_RESUMES; exit 75"
    job = stoker.add("--requeue-on", "75", "--stuck-after", "2", "--", "sh", "-c", script)
    ended = stoker.until_final(job)[0]
    assert (ended["state"], ended["attempt"], ended["exit_code"]) == ("failed", 2, 75)
    assert "no progress in 2 attempts in a row" in ended["reason"]
    stoker.cli("retry", str(job))
    again = stoker.until_final(job)[0]
    assert (again["attempt"], again["resumes"]) == (4, 2), "a retry forgets nothing of that"
    logs = [Path(one["log"]).read_text(encoding="utf-8") for one in again["attempts"]]
    assert logs == ["0\n", "1\n", "1\n", "2\n"]


def test_a_reported_further_step_is_progress_and_the_same_step_is_not(stoker: StokerHome) -> None:
    step = "step=$((STOKER_ATTEMPT < 4 ? STOKER_ATTEMPT : 3))"
    script = f"{sys.executable} -m stoker report {step} loss=1; exit 75"
    job = stoker.add("--requeue-on", "75", "--stuck-after", "2", "--", "sh", "-c", script)
    assert stoker.until_final(job)[0]["attempt"] == 5


def test_a_running_job_is_requeued_by_hand_and_its_signal_comes_first(stoker: StokerHome) -> None:
    words = ("--requeue-on", "75", "--signal", "USR2@60s")
    job, said = counts(stoker, 10**6, *words)
    eventually(lambda: len(lines_of(said)) == 1)
    assert f"being put back: job {job}" in stoker.cli("requeue", str(job)).err
    eventually(lambda: len(lines_of(said)) == 2)
    first = stoker.job(job)["attempts"][0]
    assert (first["state"], first["reason"]) == ("requeued", "requeued by its user (exit code 75)")
    assert int(lines_of(said)[1].split()[1].rstrip(",")) > 0


def test_a_job_that_never_heard_of_it_can_be_requeued(stoker: StokerHome) -> None:
    job = stoker.add("--", "sleep", "600")
    stoker.until_pid(job)
    stoker.stoker("requeue", str(job))
    eventually(lambda: stoker.job(job)["attempt"] == 2)
    assert stoker.job(job)["attempts"][0]["signal"] == 15


def test_what_can_not_be_requeued_is_refused_in_one_line(stoker: StokerHome) -> None:
    done, held = stoker.add("--", "true"), stoker.add("--hold", "--", "true")
    stoker.until_final(done)
    for job, words in ((done, "has ended already (succeeded)"), (held, f"job {held} is held")):
        said = stoker.cli("requeue", str(job))
        assert said.code != 0 and words in said.err and said.err.count("\n") == 1, said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--slice", "2m", "--signal", "USR2@2m"), "shorter than --slice"),
        (("--requeue-on", "0"), "exit code"),
        (("--requeue-on", "75,SIGTERM"), "write an exit code from 1 to 255"),
        (("--requeue-on", "75,256"), "exit code"),
        (("--requeue-on", ""), "exit code"),
        (("--slice", "0s"), "zero"),
        (("--stuck-after", "-1"), "number of attempts"),
        (("--signal", "USR2@2m"), "--signal needs a time limit"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(
    reused: StokerHome, words: tuple[str, ...], says: str
) -> None:
    said = reused.cli("add", *words, "--", "true")
    assert said.code == 2 and says in said.err and said.err.count("\n") == 1, said


def test_a_job_in_a_terminal_can_not_run_in_slices(reused: StokerHome) -> None:
    said = reused.cli("run", "--slice", "1h", "--", "true")
    assert said.code == 2 and "--slice is for jobs that can start without a terminal" in said.err


def test_the_point_of_a_sweep_finds_its_checkpoints_when_it_is_queued_again(
    stoker: StokerHome,
) -> None:
    sweep = ("sweep", "--name", "s", "--requeue-on", "75", "lr=0.1,0.2", "--")
    command = ("sh", "-c", "echo x >> $STOKER_CHECKPOINT_DIR/n; wc -l < $STOKER_CHECKPOINT_DIR/n")
    for times in (1, 2):
        stoker.stoker(*sweep[:1], "--rerun", "all", *sweep[1:], *command)
        ids = sorted(stoker.jobs())[-2:]
        stoker.until_final(*ids)
        assert [stoker.log_of(job).strip() for job in ids] == [str(times)] * 2
    dirs = {stoker.job(job)["checkpoint_dir"] for job in stoker.jobs()}
    assert len(dirs) == 2
    first, second = sorted(stoker.jobs())[:2], sorted(stoker.jobs())[2:]
    stoker.stoker("rm", *map(str, first))
    assert all(Path(one).exists() for one in dirs)
    stoker.stoker("rm", *map(str, second))
    eventually(lambda: not any(Path(one).exists() for one in dirs))


def test_checkpoints_are_removed_with_their_job_or_when_they_are_old(stoker: StokerHome) -> None:
    jobs = [stoker.add("--requeue-on", "75", "--", "sh", "-c", "touch $STOKER_CHECKPOINT_DIR/x")
            for _ in range(2)]  # fmt: skip
    removed, kept = (Path(job["checkpoint_dir"]) for job in stoker.until_final(*jobs))
    assert (removed / "x").exists() and (kept / "x").exists()
    stoker.stoker("rm", str(jobs[0]))
    eventually(lambda: not removed.exists())
    assert kept.exists()
    stoker.stoker("config", "set", "keep-checkpoints", "1ms")
    eventually(lambda: not kept.exists())
    assert stoker.job(jobs[1])["state"] == "succeeded"


def test_a_disk_that_is_away_or_full_keeps_a_job_waiting_until_it_has_room_for_its_checkpoints(
    stoker: StokerHome, disk: SmallDisk
) -> None:
    checkpoints = Path(stoker.home.root, "checkpoints")
    checkpoints.symlink_to(disk.root / "away")
    inodes(disk, 1)
    job = stoker.add("--requeue-on", "75", "--", "true")
    eventually(lambda: "could not start" in (stoker.job(job)["reason"] or ""))
    assert "is its disk mounted?" in stoker.job(job)["reason"]
    other = stoker.add("--", "true")
    assert stoker.until_final(other)[0]["state"] == "succeeded", "it needs none of that"
    checkpoints.unlink()
    checkpoints.symlink_to(disk.root)
    eventually(lambda: "no space or inodes are left for" in (stoker.job(job)["reason"] or ""))
    inodes(disk, 100)
    assert stoker.until_final(job)[0]["state"] == "succeeded"


def inodes(disk: SmallDisk, most: int) -> None:
    """Let there be so many files and directories on a disk."""
    subprocess.run(["mount", "-o", f"remount,nr_inodes={most}", str(disk.root)], check=True)


def test_after_a_power_cut_a_job_that_says_so_is_put_back_and_another_is_lost(
    stoker: StokerHome,
) -> None:
    go = stoker.work / "go"
    script = f"until [ -e {go} ]; do sleep 0.02; done"
    again = stoker.add("--requeue", "--", "sh", "-c", script)
    lost = stoker.add("--", "sh", "-c", script)
    for job in (again, lost):
        stoker.until_pid(job)
    stoker.stoker("config", "set", "requeue", "on")
    by_setting = stoker.add("--", "sh", "-c", script)
    unless = stoker.add("--no-requeue", "--", "sh", "-c", script)
    for job in (by_setting, unless):
        stoker.until_pid(job)
    stoker.power_cut()
    go.touch()
    stoker.start()
    ended = stoker.until_final(again, lost, by_setting, unless)
    assert [job["state"] for job in ended] == ["succeeded", "lost", "succeeded", "lost"]
    assert ended[0]["attempts"][0]["state"] == "requeued"


@pytest.mark.timeout(600)
def test_a_training_in_slices_ends_as_one_that_was_never_interrupted(home: StokerHome) -> None:
    home.start(gpus="0")
    script = home.work / "train.py"
    script.write_text(TRAINS)
    alone, sliced = home.work / "alone", home.work / "sliced"
    train = ("--", sys.executable, str(script), "60")
    whole = home.add("--requeue-on", "75", *train, str(alone))
    assert home.until_final(whole)[0]["attempt"] == 1
    # Two of them, so that each makes room for the other again and again. A machine that is busy may
    # send the signal before there is a handler, which ends an attempt without any progress.
    slices = ("--slice", "700ms", "--signal", "USR2@200ms", "--stuck-after", "off")
    jobs = [home.add(*slices, *train, str(sliced)), home.add(*slices, *train, f"{sliced}2")]
    kills = 0

    def next_moment() -> bool:
        job = home.job(jobs[0])
        return job["attempt"] >= 2 * (kills + 1) or job["ended_at_ms"] is not None

    while eventually(next_moment, "it goes on") and not home.job(jobs[0])["ended_at_ms"]:
        home.kill_daemon()
        home.start()
        kills += 1
    ended = home.until_final(*jobs)
    assert [job["state"] for job in ended] == ["succeeded", "succeeded"], ended[0]["reason"]
    # While there is no daemon, a slice goes on: a slow restart leaves fewer of them.
    assert ended[0]["resumes"] >= 2 and kills >= 1
    assert os.path.getsize(sliced) > 0
    assert sliced.read_bytes() == alone.read_bytes() == Path(f"{sliced}2").read_bytes()
