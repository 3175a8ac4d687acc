"""The scenes of the demo, and the check that all they claim has really held."""

from __future__ import annotations

import os
import signal
from collections import Counter

from stoker.cli.demo.stage import Stage
from stoker.cli.demo.train import PEAK_MIB
from stoker.cli.temporary_home import Job
from stoker.text.jobs import FINAL_STATES
from stoker.text.terminal import say

_WELCOME = """\
Two GPUs, nine trainings, one kill -9: Stoker in under a minute. Ctrl-C ends it.

The GPUs are stand-ins with 24 GiB each, and train.py only pretends to train.
Everything else is real. It happens in a temporary directory, which is deleted
at the end; your own queue and your GPUs are not touched."""

_NEXT = """\
  stoker doctor                             is this machine ready? what to do
  stoker add --mem auto python train.py     queue a training of your own
  stoker web                                queue, logs and plots in a browser"""

# The trainings are short, and so is the time to measure them. A disk with the room that the demo
# needs may be too full for a queue of real jobs.
_SETTINGS = {"settle": "1s", "poll": "200ms", "disk-warn": "off", "disk-stop": "off"}
_ALONE, _OF_SWEEP, _BIG = 1, range(2, 11), 11  # the ids of the jobs


def play(stage: Stage) -> int:
    """All scenes; the exit code."""
    stage.tell(_WELCOME)
    for name, value in _SETTINGS.items():
        stage.quietly("config", "set", name, value)
    stage.pause(2.5)
    _measured(stage)
    _packed(stage)
    start_was_told = _explained(stage)
    without_daemon = _killed(stage)
    best = _finished(stage)
    wrong = false_claims(stage, start_was_told, without_daemon, best)
    for words in wrong:
        say(f"stoker demo: this did not hold: {words}")
    if wrong:
        return 1
    stage.title("Try next")
    stage.tell(_NEXT)
    return 0


def _measured(stage: Stage) -> None:
    stage.title("1. Nobody has to know how much memory a training needs: it is measured")
    stage.show("stoker add --mem auto -- python train.py --lr 0.1 --bs 32", read_s=0.2)
    stage.show("stoker logs -f 1", read_s=0.4)
    stage.show("stoker profiles", read_s=2)


def _packed(stage: Stage) -> None:
    stage.title("2. So a sweep shares the GPUs: three trainings fit on each")
    stage.show(
        "stoker sweep lr=0.3,0.1,0.03 bs=16,32,64 --name search --mem auto \\\n"
        "    -- python train.py",
        read_s=0.2,
    )
    stage.show("stoker add --gpus 2 --name big -- python train.py --epochs 2", read_s=0.2)
    stage.until(lambda: _is_full(stage), lambda: "the trainings load their data")
    stage.show("stoker", read_s=1.5)


def _explained(stage: Stage) -> bool:
    stage.title("3. What waits, says why, and when it should start")
    stage.show("stoker why --name big", read_s=1.5)
    told: Job = stage.call("why", select={"ids": [str(_BIG)]})["jobs"][0]
    return told["starts_at_ms"] is not None


def _killed(stage: Stage) -> int:
    """How many jobs ended while there was no daemon."""
    stage.title("4. kill -9 of the daemon, halfway")
    running = [job for job in stage.jobs() if job["state"] == "running"]
    pids = [int(job["pid"]) for job in running if job["pid"]]
    daemon = int(stage.call("hello")["pid"])
    stage.typed(f"kill -9 {daemon}")
    os.kill(daemon, signal.SIGKILL)
    stage.until(lambda: not _living([daemon]), lambda: "it is dying")
    many = len(_living(pids))
    go_on = "1 training goes on" if many == 1 else f"{many} trainings go on"
    stage.tell(f"The daemon is dead; {go_on} without it.")

    def words() -> str:
        return f"no daemon: {len(_living(pids))} trainings run, {_ended(pids)} have ended"

    stage.until(lambda: _ended(pids) >= min(2, len(pids)), words)
    ended = _ended(pids)
    stage.tell(f"{ended} of them have ended meanwhile. The next command starts a new daemon:\n")
    stage.show("stoker", read_s=2)
    return ended


def _finished(stage: Stage) -> Job:
    """The parameters of the sweep's best point."""
    stage.title("5. Nothing was lost, and the sweep has its answer")

    def words() -> str:
        counts = Counter(job["state"] for job in stage.jobs())
        return ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))

    stage.until(lambda: all(job["state"] in FINAL_STATES for job in stage.jobs()), words)
    stage.show("stoker sweep show search", read_s=1.5)
    stage.tell("")
    stage.show("stoker metrics --group search --metric loss", read_s=1)
    losses = stage.answer("metrics", "--group", "search", "--metric", "loss")["metrics"]
    lowest = min(losses, key=lambda found: found["lowest"][1])
    found: list[Job] = stage.call("sweep_points", sweep="search")["points"]
    params: Job = next(point["params"] for point in found if point["id"] == lowest["id"])
    values = ", ".join(f"{name}={value}" for name, value in params.items())
    stage.tell(f"\nThe best point is {values}: job {lowest['id']}, loss {lowest['lowest'][1]:g}.")
    return params


def false_claims(stage: Stage, start_was_told: bool, without_daemon: int, best: Job) -> list[str]:
    """What was claimed and is not so; by what the trainings themselves wrote down."""
    jobs = stage.jobs()
    with open(os.path.join(stage.work, "records.txt"), encoding="ascii") as file:
        records = Counter(file.read().splitlines())
    once = {f"{job} {word}": 1 for job in (_ALONE, *_OF_SWEEP, _BIG) for word in ("began", "ended")}
    ended_well = [job for job in jobs if (job["state"], job["exit_code"]) == ("succeeded", 0)]
    found = {
        f"all {_BIG} jobs succeeded": len(jobs) == len(ended_well) == _BIG,
        "each training ran to its end exactly once": records == once,
        "three trainings shared a GPU": most_at_once(jobs) >= 3,
        "the start of a waiting job was estimated": start_was_told,
        "trainings ended while there was no daemon": without_daemon > 0,
        "the best point was found": best == {"lr": 0.1, "bs": 32},
    }
    if all(found.values()):
        stage.tell(
            f"\nChecked: {len(jobs)} jobs, each of which ran exactly once and succeeded. Some\n"
            "ended while the daemon was dead, and their exit codes are known."
        )
    return [claim for claim, held in found.items() if not held]


def most_at_once(jobs: list[Job]) -> int:
    """The largest number of jobs that ran on one GPU at the same time."""
    moments = [
        (gpu, at_ms, change)
        for job in jobs
        for gpu in job["gpus"]
        for at_ms, change in ((job["started_at_ms"], 1), (job["ended_at_ms"], -1))
    ]
    most = now = 0
    for _, _, change in sorted(moments):
        now += change
        most = max(most, now)
    return most


def _is_full(stage: Stage) -> bool:
    """Whether the memory that was expected is in use."""
    return all(gpu["ours_mib"] == 3 * PEAK_MIB for gpu in stage.call("gpus")["gpus"])


def _living(pids: list[int]) -> list[int]:
    return [pid for pid in pids if _is_alive(pid)]


def _ended(pids: list[int]) -> int:
    return len(pids) - len(_living(pids))


def _is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
