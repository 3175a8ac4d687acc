"""How much a scheduler adds to the cost of its jobs: many that do nothing, on four slots.

Every contender runs `sh -c true` so many times, four at once. The first is the limit: a C loop of
posix_spawn. The others are shown as multiples of it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from side_by_side import (
    HERE,
    Contenders,
    Load,
    run,
    run_simple_gpu_scheduler,
    stop_daemon,
    timed,
)
from stoker.api.client import Client
from stoker.api.paths import Home


def compiled_limit(scratch: Path) -> Path:
    """The C loop, compiled on the spot."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        sys.exit("bench: no C compiler; `make bench` installs one where it may")
    program = scratch / "limit"
    subprocess.run([compiler, "-O2", "-Wall", "-o", program, HERE / "limit.c"], check=True)
    return program


def run_limit(load: Load) -> float:
    """A loop in C."""
    return timed([str(load.scratch / "limit"), str(load.jobs), str(load.slots)])


def run_xargs(load: Load) -> float:
    """`xargs -P`, which gives each command one word that it does not look at."""
    text = "".join(f"{number}\n" for number in range(load.jobs))
    return timed(["xargs", f"-P{load.slots}", "-n1", "sh", "-c", "true"], text)


def run_stoker(load: Load) -> float:
    """A real daemon with the jobs already queued, from `resume` to the end of the last job."""
    root = Path(tempfile.mkdtemp(prefix="home-", dir=load.scratch)) / "stoker"
    os.environ["STOKER_HOME"] = str(root)
    home = Home(str(root))
    with Client(home) as client, Client(home) as waiting:
        try:
            gpus = ",".join(str(number) for number in range(load.slots))
            client.call("config_set", name="gpus", value=gpus)
            client.call("pause")
            job = {"argv": ["sh", "-c", "true"], "gpus": 1}
            ids = client.call(
                "submit",
                jobs=[job] * load.jobs,
                cwd="/",
                env=dict(os.environ),
                user="bench",
            )["ids"]
            waiting.connect()
            began = time.perf_counter()
            waiting.send("wait", select={"ids": [f"{ids[0]}-{ids[-1]}"]})
            client.call("resume")
            jobs: list[dict[str, Any]] = waiting.receive(600.0)["jobs"]
            took = time.perf_counter() - began
        finally:
            stop_daemon()
    assert len(jobs) == load.jobs, f"{len(jobs)} jobs were reported"
    assert all(job["state"] == "succeeded" for job in jobs), "not every job succeeded"
    return took


CONTENDERS: Contenders = {
    "posix_spawn in C": run_limit,
    "xargs": run_xargs,
    "simple_gpu_scheduler": run_simple_gpu_scheduler,
    "Stoker": run_stoker,
}

if __name__ == "__main__":
    results = HERE / "results" / "dispatch.json"
    sys.exit(run("dispatch of queued jobs", CONTENDERS, results, compiled_limit))
