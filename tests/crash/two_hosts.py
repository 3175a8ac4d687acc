"""Two machines on one state directory, killed again and again: each job stays with its machine.

`python -m crash.two_hosts --kills 1000 --seed 7` (or `make two-hosts KILLS=1000 SEED=7`) prints a
table. What must hold is checked by the jobs' own record of where and when they ran. The machines
are namespaces (see tests/hosts.py); the locks of one do not reach the other.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

from hosts import Box, missing
from stoker.api.client import Client
from stoker.api.paths import Home
from stoker.errors import StokerError
from stoker_home import lines_of
from waiting import PATIENCE_S, eventually

# Where it ran, and its end: a job without an end was still running when its machine went off.
SCRIPT = """
echo began $STOKER_JOB_ID $STOKER_ATTEMPT $(uname -n) >> {record}
sleep $1
echo ended $STOKER_JOB_ID $STOKER_ATTEMPT $(uname -n) >> {record}
exit $((STOKER_JOB_ID % 3))
"""


class Lab:
    """Two machines, the one that has the state, and what is known of the jobs."""

    def __init__(self, root: Path, chance: random.Random) -> None:
        self.chance = chance
        self.root = root
        self.home = Home(str(root / "home"))
        self.record = root / "record"
        self.boxes = [
            Box(root, "alpha", root / "home"),
            Box(root, "beta", root / "home", locks_cross=False),
        ]
        self.owner, self.other = self.boxes
        self.jobs: list[int] = []
        self.kills = 0
        self.did: Counter[str] = Counter()

    def submit(self) -> None:
        """Some jobs, by whichever daemon is there."""
        script = SCRIPT.format(record=self.record)
        jobs = [
            {
                "argv": ["sh", "-c", script, "job", self.chance.choice(("0", "0.05", "0.3", "2"))],
                "gpus": 0,
                "retries": self.chance.choice((0, 0, 1)),
            }
            for _ in range(self.chance.randint(1, 3))
        ]
        order = {"jobs": jobs, "cwd": "/", "env": {"PATH": os.environ["PATH"]}, "user": "tester"}
        try:
            with Client(self.home, autostart=False) as client:
                self.jobs += client.call("submit", **order)["ids"]
        except StokerError:
            pass  # There is none just now.

    def start(self) -> None:
        """The owner's daemon runs when this returns."""
        self.owner.stoker("daemon", "start")

    def stranger_tries(self) -> None:
        """The machine that does not have the state is refused, by the name of the one that does."""
        words = self.chance.choice(
            (["ls"], ["add", "--gpus", "0", "--", "true"], ["daemon", "start"])
        )
        ran = self.other.cli(*words)
        assert ran.code == 1 and f"in use by {self.owner.name}" in ran.err, ran
        assert not self.other.daemons()
        self.did["refused"] += 1

    def some_time(self) -> None:
        """Until a few more lines are there, or nothing at all."""
        now = len(lines_of(self.record))
        wanted = now + self.chance.randint(0, 3)
        deadline = time.monotonic() + 0.5
        eventually(lambda: len(lines_of(self.record)) >= wanted or time.monotonic() > deadline)

    def kill_daemon(self) -> None:
        self.some_time()
        self.owner.kill(self.owner.daemons())
        self.kills += 1
        self.did["daemon killed"] += 1

    def kill_while_it_starts(self) -> None:
        self.owner.kill(self.owner.daemons())
        starter = self.owner.popen("daemon", "start")
        eventually(lambda: self.owner.daemons() or starter.poll() is not None)
        self.owner.kill(self.owner.daemons())
        starter.kill()
        starter.communicate()
        self.kills += 2
        self.did["killed while it starts"] += 1

    def power_cut(self) -> None:
        """The owner goes off; it comes back, or the other machine claims the state."""
        self.some_time()
        self.owner.power_off()
        with self.record.open("a") as file:
            file.write(f"off {self.owner.name}\n")
        self.kills += 1
        self.owner.power_on()
        if self.chance.random() < 0.5:
            self.did["power cut"] += 1
            return
        self.did["power cut and claimed"] += 1
        self.stranger_tries()
        long_ago = time.time() - 3600
        os.utime(self.home.claim, (long_ago, long_ago))
        back = self.owner.popen("daemon", "start") if self.chance.random() < 0.5 else None
        claims = self.other.popen("daemon", "claim")
        said = claims.communicate()[1].decode()
        is_back = back is not None and self._has_started(back)
        assert is_back != (claims.returncode == 0), f"one of them has it: {said}"
        if back is not None:
            self.did["claimed while it comes back"] += 1
        if not is_back:
            self.owner, self.other = self.other, self.owner

    def _has_started(self, starter: subprocess.Popen[bytes]) -> bool:
        said = starter.communicate()[1].decode()
        assert starter.returncode == 0 or "in use by" in said or "try again" in said, said
        return starter.returncode == 0

    def hand_over(self) -> None:
        """The owner stops with nothing running, and the first of two that start gets the state."""
        self.owner.stoker("daemon", "start")
        self.owner.stoker("daemon", "stop", "--drain")
        starters = [box.popen("daemon", "start") for box in self.boxes]
        started = [self._has_started(starter) for starter in starters]
        assert sorted(started) == [False, True], "one of them has it"
        self.owner, self.other = self.boxes if started[0] else self.boxes[::-1]
        assert self.owner.daemons()
        eventually(lambda: not self.other.daemons(), "the one that was refused has ended")
        self.did["started on both at once"] += 1

    def step(self) -> None:
        """One thing after another, and mostly a kill."""
        self.start()
        self.submit()
        if self.chance.random() < 0.3:
            self.stranger_tries()
        what = self.chance.choices(
            (self.kill_daemon, self.kill_while_it_starts, self.power_cut, self.hand_over),
            (60, 20, 15, 5),
        )[0]
        print(f"{self.kills}: {self.owner.name}: {what.__name__}", flush=True)
        what()
        if what in (self.kill_daemon, self.kill_while_it_starts) and self.chance.random() < 0.3:
            self.stranger_tries()

    def ended(self) -> dict[int, dict[str, Any]]:
        """All jobs, once they are over."""
        self.start()
        with Client(self.home, autostart=False) as client:
            client.send("wait", select={"ids": [str(job) for job in self.jobs]})
            client.receive(PATIENCE_S * 2)
            return {job["id"]: job for job in client.call("list", all=True)["jobs"]}

    def attempts(self, job_id: int) -> list[dict[str, Any]]:
        with Client(self.home, autostart=False) as client:
            found: list[dict[str, Any]] = client.call("show", select={"ids": [str(job_id)]})["jobs"]
            return list(found[0]["attempts"])


def violations(lab: Lab) -> list[str]:
    """What should have held, once all jobs are over."""
    jobs = lab.ended()
    found = [f"job {job} is gone" for job in lab.jobs if job not in jobs]
    lines = [line.split() for line in lines_of(lab.record)]
    began = Counter((words[1], words[2]) for words in lines if words[0] == "began")
    found += [f"attempt {key} ran {count} times" for key, count in began.items() if count > 1]
    running: dict[str, str] = {}  # the machine on which each job runs
    for words in lines:
        match words:
            case ["began", job_id, _, host]:
                if job_id in running:
                    found.append(f"job {job_id} ran twice at once, on {host}")
                running[job_id] = host
            case ["ended", job_id, _, _]:
                running.pop(job_id, None)
            case ["off", host]:
                running = {job_id: at for job_id, at in running.items() if at != host}
    for job in lab.jobs:
        for attempt in lab.attempts(job):
            found += _judged(job, attempt, lines)
    with closing(sqlite3.connect(lab.home.database)) as database:
        for pragma, right in (("integrity_check", [("ok",)]), ("foreign_key_check", [])):
            if database.execute(f"PRAGMA {pragma}").fetchall() != right:
                found.append(f"the database is corrupt: {pragma}")
    if "Traceback" in Path(lab.home.log).read_text(encoding="utf-8", errors="replace"):
        found.append(f"there is a traceback in {lab.home.log}")
    return found


def _judged(job: int, attempt: dict[str, Any], lines: list[list[str]]) -> list[str]:
    """What is wrong with what is said of an attempt."""
    name = ["began", str(job), str(attempt["attempt"])]
    where = [number for number, words in enumerate(lines) if words[:3] == name]
    # A machine that goes off kills one after the other, and the daemon may see it happen.
    if attempt["state"] == "lost" or attempt["signal"] == signal.SIGKILL:
        after = lines[where[0] :] if where else lines
        hosts = [after[0][3]] if where else ["alpha", "beta"]
        if not any(["off", host] in after for host in hosts):
            return [f"job {job} was declared lost while its machine ran: {attempt}"]
    elif attempt["exit_code"] != job % 3 or not where:
        return [f"an exit code was invented: job {job}, {attempt}"]
    return []


def torment(root: Path, kills: int, seed: int) -> tuple[list[str], str]:
    """So many kills, by that seed: what should have held, and a table of what was done."""
    lab = Lab(root, random.Random(seed))
    began = time.monotonic()
    try:
        for box in lab.boxes:
            box.power_on()
        while lab.kills < kills:
            lab.step()
        found = violations(lab)
    finally:
        for box in lab.boxes:
            box.power_off()
    rows = {
        "seed": seed,
        "seconds": round(time.monotonic() - began),
        "kills": lab.kills,
        "jobs": len(lab.jobs),
        **dict(sorted(lab.did.items())),
        "violations": len(found),
    }
    return found, "".join(f"{name:<28}{value:>10}\n" for name, value in rows.items())


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="make two-hosts")
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=random.randrange(10**9))
    args = parser.parse_args()
    why = missing()
    if why:
        print(f"two-hosts: no machines can be made of namespaces here: {why}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="two-hosts-") as root:
        found, table = torment(Path(root), args.kills, args.seed)
    print("\n".join([*found, table]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
