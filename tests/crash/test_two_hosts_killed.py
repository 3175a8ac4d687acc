"""Two machines on one state directory, killed again and again: each job stays with its machine.

`STOKER_HOST_KILLS=1000 STOKER_SEED=7 pytest tests/crash/test_two_hosts_killed.py` does as many as
one likes. What must hold is checked by the jobs' own record of where and when they ran.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hosts import Box, missing
from stoker.api.client import Client
from stoker.api.paths import Home
from stoker.errors import StokerError
from stoker_home import lines_of
from waiting import PATIENCE_S, eventually

KILLS = int(os.environ.get("STOKER_HOST_KILLS", "60"))
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
        self.other.stoker("daemon", "claim")
        self.owner, self.other = self.other, self.owner

    def hand_over(self) -> None:
        """The owner stops with nothing running, and the other goes on."""
        self.owner.stoker("daemon", "start")
        self.owner.stoker("daemon", "stop", "--drain")
        self.owner, self.other = self.other, self.owner
        self.did["handed over"] += 1

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
        print(f"{self.kills}: {self.owner.name}: {what.__name__}")
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


def test_no_job_is_lost_or_run_twice_by_the_machine_that_does_not_have_it(tmp_path: Path) -> None:
    why = missing()
    if why:
        pytest.skip(f"no machines can be made of namespaces here: {why}")
    seed = int(os.environ.get("STOKER_SEED", random.randrange(10**9)))
    print(f"seed {seed}")
    lab = Lab(tmp_path, random.Random(seed))
    try:
        for box in lab.boxes:
            box.power_on()
        while lab.kills < KILLS:
            lab.step()
        check(lab)
    finally:
        for box in lab.boxes:
            box.power_off()
    print(f"{lab.kills} kills, {len(lab.jobs)} jobs, {dict(lab.did)}")


def check(lab: Lab) -> None:
    """What must hold."""
    jobs = lab.ended()
    assert set(lab.jobs) <= set(jobs)
    lines = [line.split() for line in lines_of(lab.record)]
    began = Counter((words[1], words[2]) for words in lines if words[0] == "began")
    assert [key for key, count in began.items() if count > 1] == [], "no attempt ran twice"
    running: dict[str, str] = {}  # the machine on which each job runs
    for words in lines:
        match words:
            case ["began", job_id, _, host]:
                assert job_id not in running, f"job {job_id} ran twice at once"
                running[job_id] = host
            case ["ended", job_id, _, _]:
                del running[job_id]
            case ["off", host]:
                running = {job_id: at for job_id, at in running.items() if at != host}
    for job in lab.jobs:
        for attempt in lab.attempts(job):
            where = [
                number
                for number, words in enumerate(lines)
                if words[:3] == ["began", str(job), str(attempt["attempt"])]
            ]
            # A machine that goes off kills one after the other, and the daemon may see it happen.
            if attempt["state"] == "lost" or attempt["signal"] == signal.SIGKILL:
                after = lines[where[0] :] if where else lines
                hosts = [after[0][3]] if where else ["alpha", "beta"]
                gone_off = any(["off", host] in after for host in hosts)
                assert gone_off, f"{job} was declared lost while its machine ran: {attempt}"
            else:
                assert attempt["exit_code"] == job % 3, f"an exit code was invented: {attempt}"
                assert where, "what has an exit code has run"
    with sqlite3.connect(lab.home.database) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []
    log = Path(lab.home.log).read_text(encoding="utf-8", errors="replace")
    assert "Traceback" not in log
