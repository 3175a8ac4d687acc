"""Scripts, daemons and workers of calls are killed: no result is lost, doubled or invented.

Law: a call that has a result was made once to its end; that result is had by each program that asks
for it, whoever was killed meanwhile; a call that has none says so.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import stoker
from library_home import library, output_of, run_script
from stoker import JobFailed
from stoker_home import StokerHome, kill_and_wait, lines_of
from waiting import PATIENCE_S, eventually

__all__ = ["library"]

pytestmark = pytest.mark.timeout(600)

CALLS = 12

# Each call notes that it has come to its end, once for each time. Some are killed after that and
# before they have put down their result, as the result itself is what kills them.
QUEUES = """
import os, sys, time
import stoker

record = sys.argv[1]

class Falls:
    def __reduce__(self):
        if os.environ.get("STOKER_ATTEMPT") == "1":
            os.kill(os.getpid(), 9)
        return str, ("whole at last",)

class Counts:
    steps = 0

    def __init__(self, number):
        self.number = number

    def __call__(self):
        while self.steps < 6:
            self.steps += 1
            time.sleep(0.05)
        with open(record, "a") as file:
            file.write(f"{self.number}\\n")
        if self.number % 4 == 3:
            return [self.number, Falls()]
        return [self.number, bytes(200_000).hex()]

    def checkpoint(self):
        return self

executor = stoker.Executor(
    gpus_per_job=0, cpus=1, group="night", signal="USR2@60s", slice="1h", retries=1
)
futures = [executor.submit(Counts(n)) for n in range(int(sys.argv[2]))]
print("queued", flush=True)
for future in futures:
    future.exception()
"""


def test_results_outlive_the_deaths_of_scripts_daemons_and_workers(library: StokerHome) -> None:
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    chance = random.Random(seed)
    record = library.work / "record.txt"
    (library.work / "script.py").write_text(QUEUES, encoding="utf-8")
    words = [sys.executable, "script.py", str(record), str(CALLS)]
    with subprocess.Popen(
        words, env=library.env, cwd=library.work, stdout=subprocess.PIPE, text=True
    ) as script:
        assert script.stdout is not None and script.stdout.readline() == "queued\n"
        script.send_signal(signal.SIGKILL)
    futures = stoker.futures(group="night")
    assert len(futures) == CALLS
    for _ in range(4):
        running = [job["id"] for job in library.jobs().values() if job["state"] == "running"]
        for job in running[:2]:
            library.cli("requeue", str(job))  # It may have ended by now.
        if chance.random() < 0.5:
            kill_and_wait(eventually(library.daemons, "a daemon is there")[0])
        else:
            library.kill_daemon()
        library.start()
    told = [future.result(4 * PATIENCE_S) for future in futures]
    whole = bytes(200_000).hex()
    assert told == [[n, "whole at last" if n % 4 == 3 else whole] for n in range(CALLS)]
    ended = library.until_final(*(future.job_id or 0 for future in futures))
    assert {job["state"] for job in ended} == {"succeeded"}
    made = [int(line) for line in lines_of(record)]
    for number, job in enumerate(ended):  # An attempt may end before its result is written.
        assert 1 <= made.count(number) <= job["attempt"]
    # The next day, in another process, of another daemon.
    library.kill_daemon()
    again = """
import stoker
print([future.result(60)[0] for future in stoker.futures(group="night")])
"""
    assert output_of(run_script(library, again)) == f"{list(range(CALLS))}\n"


def test_a_worker_that_is_killed_before_its_result_is_whole_has_none(library: StokerHome) -> None:
    class Falls:
        def __reduce__(self) -> tuple[type, tuple[str]]:
            os.kill(os.getpid(), 9)
            return str, ("never",)

    def falls() -> list[object]:
        return [bytes(3_000_000), Falls()]

    future = stoker.submit(falls, gpus=0)
    with pytest.raises(JobFailed) as caught:
        future.result(PATIENCE_S)
    assert caught.value.job_signal == 9
    with pytest.raises(JobFailed):
        stoker.future(future.job_id).result(PATIENCE_S)
    call = Path(library.job(future.job_id or 0)["argv"][3])
    assert not call.with_name(f"{call.name}.1.result").exists()


def test_a_result_that_is_awaited_is_read_though_its_job_was_removed_meanwhile(
    library: StokerHome,
) -> None:
    (library.work / "script.py").write_text("""
import os, signal, stoker
future = stoker.submit(pow, 2, 5, hold=True)
print(future.job_id, flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
print(future.result(60), flush=True)
""")
    with subprocess.Popen(
        [sys.executable, "script.py"],
        env=library.env,
        cwd=library.work,
        stdout=subprocess.PIPE,
        text=True,
    ) as script:
        assert script.stdout is not None
        job = int(script.stdout.readline())
        os.waitid(os.P_PID, script.pid, os.WSTOPPED | os.WNOWAIT)
        library.stoker("release", str(job))
        call = Path(library.until_final(job)[0]["argv"][3])
        library.stoker("rm", str(job))
        library.kill_daemon()  # Its events are lost, too.
        library.start()
        assert call.exists(), "it is awaited"
        script.send_signal(signal.SIGCONT)
        assert script.stdout.readline() == "32\n"
    library.stoker("config", "set", "keep-results", "7d,9G")  # It looks at all that there is.
    eventually(lambda: not call.exists(), "it is not wanted any more")
    library.stoker("config", "unset", "keep-results")
