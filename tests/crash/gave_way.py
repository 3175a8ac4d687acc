"""Lets jobs give way, requeues them and kills all there is, at random, and counts what was done.

`python -m crash.gave_way --kills 2000` (in `tests`); `make test` runs a short stretch of it.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from stoker.errors import Failed
from stoker_home import StokerHome, kill_and_wait, lines_of
from waiting import eventually

STEPS = 8
ALIVE = 8  # so many jobs that offer to give way are there at a time, on three GPUs
MOST_KILLED = 2  # times that one of them is killed: it then waits longer and longer

# It does some steps, one line each, and asks to go on later when it is told to, or in between. It
# notes with which code it is about to exit. Two attempts at once would be seen by the lock.
WORKS = f"""
exec 9> "$1.lock"; flock -n 9 || {{ echo "$STOKER_ATTEMPT" >> "$1.twice"; exit 99; }}
own=$1
ends() {{ echo "$STOKER_ATTEMPT $1" >> "$own.codes"; exit $1; }}
trap 'ends 75' USR2
n=$(wc -l < "$STOKER_CHECKPOINT_DIR/steps" 2>/dev/null || echo 0)
for step in 1 2 3 4 5; do
  [ $n -lt {STEPS} ] || ends 0
  sleep 0.1 & wait $!
  n=$((n + 1)); echo $n >> "$STOKER_CHECKPOINT_DIR/steps"
done
ends 75
"""
OFFERED: dict[str, Any] = {
    "preemptible": True, "yields": 1000, "signal": "USR2", "signal_before_ms": 300,
    "grace_ms": 1_000, "requeue": True, "retries": 10, "stuck_after": 0,
}  # fmt: skip
# By then an urgent job should have started: their time to save, their grace time and a second.
SOON_MS = OFFERED["signal_before_ms"] + OFFERED["grace_ms"] + 1_000


class GaveWay:
    """One home with jobs that give way, and others for which they do."""

    def __init__(self, home: StokerHome, seed: int) -> None:
        self._home = home
        self._chance = random.Random(seed)
        self._own: dict[int, Path] = {}  # jobs that offer to give way, and where they write
        self._after: dict[int, int] = {}  # what comes after each of them
        self._urgent: list[int] = []
        self._killed_at_ms: list[float] = []  # when there was no daemon to start anything
        self._killed: Counter[int] = Counter()
        self._did: Counter[str] = Counter()

    def run(self, kills: int) -> None:
        """Do as much as is said, let all end, and compare."""
        home, chance = self._home, self._chance
        (home.work / "works.sh").write_text(WORKS)
        home.start(gpus="0-2")
        happenings = {
            self._urgent_comes: 8, self._requeue: 3, self._yield: 3, self._kill_job: 3,
            self._kill_daemon: 2, self._kill_keeper: 1,
        }  # fmt: skip
        for number in range(kills):
            time.sleep(0.2 * chance.random())
            jobs = self._refill()
            happens = chance.choices([*happenings], [*happenings.values()])[0]
            happens(jobs)
            if number % 50 == 49:
                print(f"{number + 1}: {dict(self._did)}", flush=True)
        self.check()

    def _refill(self) -> list[dict[str, Any]]:
        """Those that run now, once there are enough that have not ended."""
        home, chance = self._home, self._chance
        jobs = home.jobs()
        alive = [job for job in jobs.values() if job["ended_at_ms"] is None]
        for _ in range(ALIVE - sum(job["id"] in self._own for job in alive)):
            own = home.work / f"job{len(self._own)}"
            more = {"slice_ms": 600} if chance.random() < 0.5 else {}
            argv = ["bash", str(home.work / "works.sh"), str(own)]
            job_id = home.submit(*argv, **OFFERED, **more)
            self._own[job_id] = own
            self._after[job_id] = home.submit("true", after=[str(job_id)])
        return [job for job in alive if job["state"] == "running" and job["id"] in self._own]

    # ------------------------------------------------------------------ what happens

    def _urgent_comes(self, jobs: list[dict[str, Any]]) -> None:
        gpus = self._chance.choice((1, 1, 2))
        script = 'echo "$STOKER_JOB_ID" >> urgent; sleep 0.05'
        self._urgent.append(self._home.submit("sh", "-c", script, urgent=True, gpus=gpus))
        self._did["urgent"] += 1

    def _requeue(self, jobs: list[dict[str, Any]]) -> None:
        self._put_back("requeue", jobs)

    def _yield(self, jobs: list[dict[str, Any]]) -> None:
        self._put_back("yield", jobs)

    def _put_back(self, how: str, jobs: list[dict[str, Any]]) -> None:
        if jobs:
            with suppress(Failed):  # It may have ended by now.
                self._home.call(how, select={"ids": [str(self._chance.choice(jobs)["id"])]})
                self._did[how] += 1

    def _kill_job(self, jobs: list[dict[str, Any]]) -> None:
        jobs = [job for job in jobs if job["pid"] and self._killed[job["id"]] < MOST_KILLED]
        if jobs:
            job = self._chance.choice(jobs)
            with suppress(ProcessLookupError):
                os.kill(job["pid"], signal.SIGKILL)
            self._killed[job["id"]] += 1
            self._did["kill job"] += 1

    def _kill_daemon(self, jobs: list[dict[str, Any]]) -> None:
        self._kill_and_start(self._home.daemon_pid())
        self._did["kill daemon"] += 1

    def _kill_keeper(self, jobs: list[dict[str, Any]]) -> None:
        """And the daemon with it, so that it may be that nothing sees how jobs end."""
        daemon, keeper = self._home.daemon_pid(), self._home.keeper_pid()
        self._kill_and_start(keeper, daemon)
        self._did["kill keeper"] += 1

    def _kill_and_start(self, *pids: int) -> None:
        for pid in pids:
            kill_and_wait(pid)
        self._killed_at_ms.append(time.time() * 1000)
        self._home.start()

    # ------------------------------------------------------------------ what came of it

    def check(self) -> None:
        """None lost, none doubled, no wrong exit code."""
        home = self._home
        ended = {job["id"]: job for job in home.until_final(*self._own)}
        gave_way: Counter[str] = Counter()  # for which job
        for job_id, own in self._own.items():
            job = ended[job_id]
            assert (job["state"], job["exit_code"]) == ("succeeded", 0), f"{job_id}: {job}"
            assert not own.with_suffix(".twice").exists(), f"job {job_id} ran twice at once"
            steps = [int(line) for line in lines_of(Path(job["checkpoint_dir"], "steps"))]
            assert steps == list(range(1, STEPS + 1)), f"job {job_id} did the steps {steps}"
            self._check_attempts(job, own)
            said = [
                re.search(r"gave way for job (\d+)", a["reason"] or "") for a in job["attempts"]
            ]
            gave_way.update(found[1] for found in said if found is not None)
        urgent = home.until_final(*self._urgent)
        for job in urgent:
            # Only where its keeper was killed too, nothing may have seen its end.
            lost = job["state"] == "lost" and self._did["kill keeper"]
            assert lost or (job["state"], job["exit_code"]) == ("succeeded", 0), job
            assert job["attempt"] == 1
        runs = Counter(int(line) for line in lines_of(home.work / "urgent"))
        assert runs == Counter(self._urgent), "an urgent job did not run once"
        after = {job["id"]: job for job in home.until_final(*self._after.values())}
        for job_id, then in self._after.items():
            job = after[then]
            assert (job["state"], job["attempt"]) in (("succeeded", 1), ("lost", 1)), job
            assert job["state"] == "succeeded" or self._did["kill keeper"], job
            assert job["started_at_ms"] >= ended[job_id]["ended_at_ms"], "it started too soon"
        eventually(lambda: all(gpu["state"] == "free" for gpu in home.call("gpus")["gpus"]))
        assert "Traceback" not in home.log_text(), home.log_text()[-3000:]
        attempts = sum(job["attempt"] for job in ended.values())
        print(
            f"{dict(self._did)}; {len(ended)} jobs, {attempts} attempts, of which "
            f"{gave_way.total()} gave way for urgent jobs\n"
            + self._how_soon([job for job in urgent if str(job["id"]) in gave_way]),
            flush=True,
        )
        assert gave_way, "none gave way"

    def _how_soon(self, urgent: list[dict[str, Any]]) -> str:
        """How long urgent jobs waited for others to give way, where a daemon was there all along.

        It is told and not checked: it depends on what else this machine has to do.
        """
        waited_ms = sorted(
            job["started_at_ms"] - job["submitted_at_ms"]
            for job in urgent
            if job["state"] == "succeeded"
            and not any(
                job["submitted_at_ms"] <= killed <= job["started_at_ms"]
                for killed in self._killed_at_ms
            )
        )
        if not waited_ms:
            return "no urgent job was started by a daemon that lived on"
        late = sum(waited > SOON_MS for waited in waited_ms)
        return (
            f"{len(waited_ms)} urgent jobs waited for them {waited_ms[len(waited_ms) // 2]} ms "
            f"(median), {waited_ms[-1]} ms at most; {late} more than {SOON_MS} ms"
        )

    def _check_attempts(self, job: dict[str, Any], own: Path) -> None:
        noted = [line.split() for line in lines_of(own.with_suffix(".codes"))]
        codes = {int(attempt): int(code) for attempt, code in noted}
        attempts = job["attempts"]
        assert [one["attempt"] for one in attempts] == list(range(1, job["attempt"] + 1))
        failed = [one for one in attempts if one["state"] == "failed"]
        assert {one["state"] for one in attempts[:-1]} <= {"requeued", "failed"}, attempts
        assert all(one["signal"] == 9 for one in failed), failed
        assert len(failed) <= self._killed[job["id"]], f"{failed}, and that was not us"
        for one in attempts:
            if one["exit_code"] is not None:
                assert one["exit_code"] == codes.get(one["attempt"]), f"{one}, not {codes}"


def main() -> int:
    """Run it as long as is said."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=random.randrange(10**9))
    args = parser.parse_args()
    print(f"{args.kills} kills and other happenings, seed {args.seed}", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        home = StokerHome(Path(directory))
        try:
            GaveWay(home, args.seed).run(args.kills)
        finally:
            home.clean_up()
    print("no job was lost or doubled, and no exit code is wrong")
    return 0


if __name__ == "__main__":
    sys.exit(main())
