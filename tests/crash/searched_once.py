"""Kills daemon and searcher again and again during a search, and counts trials and runs.

Meanwhile points that failed or were stopped early are retried: they stay the same trials.

`python -m crash.searched_once --kills 500` (in `tests`); `make test` runs a short stretch of it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from stoker.sweep.identity import trial_number
from stoker_home import StokerHome, command_line_of, kill_and_wait, lines_of
from waiting import eventually

NAME = "killed"
# It writes down that it runs, and its values as a metric. Some are slow, and worse by 10: they are
# to be stopped early, or end by themselves if that takes too long. Some fail at first.
TRAIN = """\
echo "$STOKER_JOB_ID $2" >> runs
if [ $(($STOKER_JOB_ID % 4)) = 1 ]; then
  for step in $(seq 60); do echo "step $step loss=1$2"; sleep 0.2; done
  exit 0
fi
sleep 0.$(($STOKER_JOB_ID % 3))
for step in 1 2 3 4; do echo "step $step loss=$2"; done
[ $(($STOKER_JOB_ID % 7)) != 0 ] || [ "$STOKER_ATTEMPT" -gt 1 ]
"""


class SearchedOnce:
    """One home with a search in it."""

    def __init__(self, home: StokerHome, seed: int) -> None:
        self._home = home
        self._chance = random.Random(seed)

    def run(self, kills: int, samples: int) -> None:
        """Begin a search, kill until it was killed so often, let it end, and compare."""
        home, chance = self._home, self._chance
        (home.work / "train.sh").write_text(TRAIN)
        home.start(gpus="0-3")
        self._search(samples)
        for number in range(kills):
            if self._is_over():
                samples += 20
                self._search(samples)  # The same again goes on with it.
            if chance.random() < 0.5:
                self._retry([chance.choice(("failed", "stopped"))])
            time.sleep(chance.choice((0.05, 0.5, 2.0)) * chance.random())
            victim = chance.choice(("daemon", "searcher", "both"))
            if victim != "daemon":
                self._kill_searcher()
            if victim != "searcher":
                kill_and_wait(home.daemon_pid())
                home.start()
            print(f"kill {number + 1}: {victim}", flush=True)
        eventually(self._is_over, "the search ends", timeout_s=600)
        self.check(samples)
        self._retry(("failed", "stopped"))
        eventually(self._is_over, "what was retried was told", timeout_s=600)
        self.check(samples)

    def _search(self, samples: int) -> None:
        words = ["--samples", str(samples), "--sampler", "random", "--max-running", "3"]
        words += ["--stop-early", "asha", "--min-steps", "3", "--grace", "1s"]
        command = ("--name", NAME, "--", "sh", "train.sh", "{x}", "{x}")
        self._home.stoker("sweep", "x=uniform(0,1)", "--minimize", "loss", *words, *command)

    def _retry(self, states: Sequence[str]) -> None:
        """Run those of its points again that stand so, if there are some."""
        words = [word for state in states for word in ("--state", state)]
        self._home.cli("retry", "--group", NAME, *words)

    def _is_over(self) -> bool:
        [search] = self._home.call("searches", name=NAME)["searches"]
        return bool(search["state"] == "ended")

    def _kill_searcher(self) -> None:
        for pid in self._home.processes():
            if b"stoker.search.main" in command_line_of(pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def check(self, samples: int) -> None:
        """Each trial is one job that ran once, and was told as it ended."""
        points: list[Any] = self._home.call("searches", name=NAME)["points"]
        jobs = {trial_number(NAME, point) or 0: (job_id, state, params["x"])
                for point, job_id, state, _, params, _ in points}  # fmt: skip
        attempts = {job_id: attempt for _, job_id, _, _, _, attempt in points}
        assert sorted(jobs) == list(range(samples)), f"{samples} trials, but {sorted(jobs)}"
        assert len(points) == samples, "a trial has two jobs"
        runs = Counter(int(line.split()[0]) for line in lines_of(self._home.work / "runs"))
        assert runs == attempts, "one run for each attempt"
        again = sum(attempt > 1 for attempt in attempts.values())
        print(f"{again} of {samples} points were retried", flush=True)
        with closing(sqlite3.connect(f"{self._home.home.root}/studies.db")) as study:
            rows = study.execute(
                "SELECT number, state, value, value_json FROM trials"
                " LEFT JOIN trial_values USING (trial_id)"
                " LEFT JOIN trial_user_attributes AS of ON of.trial_id = trials.trial_id"
                " AND of.key = 'stoker job' ORDER BY number"
            ).fetchall()
            steps = study.execute(
                "SELECT number, step FROM trials JOIN trial_intermediate_values USING (trial_id)"
            ).fetchall()
        assert len(set(steps)) == len(steps), "a step was reported twice"
        assert [row[0] for row in rows] == list(range(samples))
        for number, state, value, job in rows:
            job_id, ended, x = jobs[number]
            assert json.loads(job) == job_id
            printed = x + 10 if job_id % 4 == 1 else x
            if ended == "succeeded":
                assert (state, value) == ("COMPLETE", pytest.approx(printed))
            elif ended == "stopped":
                assert (state, value) == ("PRUNED", pytest.approx(printed))
            else:
                assert (state, value) == ("FAIL", None)
        early = sum(ended == "stopped" for _, ended, _ in jobs.values())
        print(f"{early} of {samples} points were stopped early", flush=True)
        assert early, "no point was stopped early"
        # Who tells a trial twice is refused by Optuna, and leaves a traceback.
        log = Path(self._home.home.log).read_text()
        assert "Traceback" not in log, log[-3000:]


def main() -> int:
    """Run it as long as is said."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=random.randrange(10**9))
    args = parser.parse_args()
    print(f"{args.kills} kills, seed {args.seed}", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        home = StokerHome(Path(directory))
        try:
            SearchedOnce(home, args.seed).run(args.kills, samples=20)
        finally:
            home.clean_up()
    print("no trial was lost, doubled or told twice")
    return 0


if __name__ == "__main__":
    sys.exit(main())
