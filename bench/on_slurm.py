"""500 jobs on Slurm: through `stoker feed`, and by hand as one array and as a loop of `sbatch`.

Each contender gets a cluster of its own, made anew on this machine: a controller that remembers
thousands of jobs is slower. Timed is from the first command until the last job has ended, by the
word of `squeue` for those by hand, and of the feed itself, which knows how each has ended.
Stoker's daemon is there already, as it is on every day but the first.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from side_by_side import BIN, HERE, Contenders, Load, measured, stop_daemon, summary, table

sys.path.insert(0, str(HERE.parent / "tests"))

from slurm.cluster import Cluster, missing_programs

_ASKS_EVERY_S = 0.2
_SCRIPT = "#!/bin/sh\ntrue\n"


def on_a_cluster(run: Callable[[Cluster, Load, Path], float]) -> Callable[[Load], float]:
    """The contender on a new cluster, which is gone afterwards."""

    def contend(load: Load) -> float:
        root = Path(tempfile.mkdtemp(prefix="cluster-", dir=load.scratch))
        cluster = Cluster(root)
        cluster.start()
        try:
            return run(cluster, load, root)
        finally:
            cluster.stop()

    return contend


def run_array(cluster: Cluster, load: Load, root: Path) -> float:
    """One call for all of them."""
    script = _script(root)
    began = time.perf_counter()
    _sbatch(cluster, f"--array=0-{load.jobs - 1}", script)
    return _until_empty(cluster, began)


def run_loop(cluster: Cluster, load: Load, root: Path) -> float:
    """A call for each."""
    script = _script(root)
    began = time.perf_counter()
    for _ in range(load.jobs):
        _sbatch(cluster, script)
    return _until_empty(cluster, began)


def run_feed(cluster: Cluster, load: Load, root: Path) -> float:
    """`stoker feed`, with the shell that runs the scripts of the others."""
    os.environ |= {
        "STOKER_HOME": str(root / "stoker"),
        "SLURM_CONF": str(cluster.conf),
        "SHELL": "/bin/sh",
    }
    stoker = str(BIN / "stoker")
    subprocess.run([stoker, "daemon", "start"], check=True, stderr=subprocess.DEVNULL)
    try:
        began = time.perf_counter()
        subprocess.run(
            [stoker, "feed", "--executor", "slurm"],
            input="true\n" * load.jobs,
            text=True,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        return time.perf_counter() - began
    finally:
        stop_daemon()


def _script(root: Path) -> str:
    path = root / "job.sh"
    path.write_text(_SCRIPT)
    return str(path)


def _sbatch(cluster: Cluster, *words: str) -> None:
    cluster.command("sbatch", "--parsable", "--gres=gpu:1", "--output=/dev/null", *words)


def _until_empty(cluster: Cluster, began: float) -> float:
    while cluster.command("squeue", "--noheader"):
        time.sleep(_ASKS_EVERY_S)
    return time.perf_counter() - began


CONTENDERS: Contenders = {
    "sbatch --array": on_a_cluster(run_array),
    "sbatch in a loop": on_a_cluster(run_loop),
    "stoker feed": on_a_cluster(run_feed),
}


def main() -> int:
    """Measure as the command line says."""
    parser = argparse.ArgumentParser(description="jobs on a Slurm cluster")
    parser.add_argument("--jobs", type=int, default=500, help="how many (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="how often (%(default)s)")
    parser.add_argument("--results", type=Path, help="where to keep the numbers")
    args = parser.parse_args()
    if missing_programs():
        sys.exit(f"bench: Slurm is not here ({', '.join(missing_programs())}); see `make bench`")
    scratch = Path(tempfile.mkdtemp(prefix="stoker-bench-"))
    try:
        seconds = measured(CONTENDERS, Load(args.jobs, 12, scratch), args.rounds)
    finally:
        shutil.rmtree(scratch)
    rows = summary(seconds, args.jobs)
    print(f"on Slurm: {args.jobs} × `true`, a GPU each, 12 GPUs, rounds: {args.rounds}\n")
    print(table(rows))
    if args.results is not None:
        record = {"jobs": args.jobs, "contenders": rows}
        args.results.write_text(json.dumps(record) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
