"""The peers, each in the way that is fastest for it: output is not kept where that may be chosen.

Each lives in an environment of its own, which `make bench` makes; one that is not there is left
out, and named. Where a peer can't hold a queue back, its submissions are part of its time.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from side_by_side import HERE, Load, timed

# The older tools have commands of the same names as ours, so they live in places of their own.
_OLDER = HERE.parent / ".venv-peers" / "bin"
_OTHERS = HERE.parent / ".venv-bench"


@dataclass(frozen=True, slots=True)
class Peer:
    """One of the others."""

    name: str
    program: Path | str  # without which it can't be run
    run: Callable[[Load], float]
    most_jobs: int | None = None  # what takes very long is run with fewer jobs

    @property
    def missing(self) -> str | None:
        """Why it can't be run here."""
        if shutil.which(self.program) is not None:
            return None
        return f"{Path(self.program).name} is not installed; `make bench` tries to"

    def seconds(self, load: Load) -> float:
        """How long it takes for the load, or would at the rate that it shows with fewer jobs."""
        if self.most_jobs is None or load.jobs <= self.most_jobs:
            return self.run(load)
        fewer = Load(self.most_jobs, load.slots, load.scratch)
        return self.run(fewer) * load.jobs / fewer.jobs


def present(peers: Iterable[Peer]) -> tuple[list[Peer], dict[str, str]]:
    """Those that are here, and why the others are not."""
    left_out: dict[str, str] = {}
    here = []
    for peer in peers:
        why = peer.missing
        if why is None:
            here.append(peer)
        else:
            left_out[peer.name] = why
    return here, left_out


def numbers(load: Load) -> str:
    """A line for each job."""
    return "".join(f"{number}\n" for number in range(load.jobs))


def run_xargs(load: Load) -> float:
    """`xargs -P`, which gives each command one word that it does not look at."""
    return timed(["xargs", f"-P{load.slots}", "-n1", "sh", "-c", "true"], numbers(load))


def run_simple_gpu_scheduler(load: Load) -> float:
    """It puts `sh -c` before each line itself."""
    gpus = [str(number) for number in range(load.slots)]
    return timed([str(_OLDER / "simple_gpu_scheduler"), "--gpus", *gpus], "true\n" * load.jobs)


def run_parallel(load: Load) -> float:
    """GNU parallel, with a shell as light as the others'."""
    words = ["parallel", "--will-cite", f"-j{load.slots}", "-n0", "true"]
    home = tempfile.mkdtemp(prefix="parallel-", dir=load.scratch)
    return timed(words, numbers(load), {**os.environ, "SHELL": "/bin/sh", "HOME": home})


def run_task_spooler(load: Load) -> float:
    """A server of its own; a loop of clients, and the wait for the last job."""
    root = Path(tempfile.mkdtemp(prefix="tsp-", dir=load.scratch))
    env = {
        **os.environ,
        "TS_SOCKET": str(root / "socket"),
        "TS_SLOTS": str(load.slots),
        "TMPDIR": str(root),
    }
    script = f"""
        i=0
        while [ $i -lt {load.jobs} ]; do tsp -n sh -c true; i=$((i + 1)); done
        tsp -w
    """
    try:
        return timed(["sh", "-c", script], env=env)
    finally:
        subprocess.run(["tsp", "-K"], env=env, check=True, stdout=subprocess.DEVNULL)


def run_nq(load: Load) -> float:
    """It has no slots: a queue for each of them, in turn."""
    root = tempfile.mkdtemp(prefix="nq-", dir=load.scratch)
    script = f"""
        i=0
        while [ $i -lt {load.slots} ]; do mkdir {root}/$i; i=$((i + 1)); done
        i=0
        while [ $i -lt {load.jobs} ]; do
            NQDIR={root}/$((i % {load.slots})) nq -c -q sh -c true; i=$((i + 1))
        done
        i=0
        while [ $i -lt {load.slots} ]; do NQDIR={root}/$i nq -q -w; i=$((i + 1)); done
    """
    return timed(["sh", "-c", script])


def run_hyperqueue(load: Load) -> float:
    """Its LocalCluster, with all tasks submitted before its worker comes."""
    root = tempfile.mkdtemp(prefix="hq-", dir=load.scratch)
    python = _OTHERS / "hyperqueue" / "bin" / "python"
    words = [str(python), str(HERE / "harness" / "on_hyperqueue.py")]
    done = subprocess.run(
        [*words, str(load.jobs), str(load.slots), root],
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    return float(done.stdout.splitlines()[-1])


def run_gflow(load: Load) -> float:
    """Its daemon, and one array of jobs that run in tmux, which is its default."""
    # A socket of tmux can't have a long name.
    root = Path(tempfile.mkdtemp(prefix="gflow-"))
    programs = _OTHERS / "gflow" / "bin"
    env = {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(root),
        "LANG": "C.UTF-8",
        "SHELL": "/bin/sh",
        "XDG_CONFIG_HOME": str(root / "config"),
        "XDG_DATA_HOME": str(root / "data"),
        "XDG_RUNTIME_DIR": str(root / "run"),
        "TMUX_TMPDIR": str(root),
    }
    # The shells in tmux are login shells, and must find the command that reports their end.
    (root / ".profile").write_text(f"PATH={env['PATH']}\n", encoding="utf-8")
    # tmux gives a session the default command of its server, which must not load anything more.
    (root / ".tmux.conf").write_text("set -g default-shell /bin/sh\n", encoding="utf-8")
    config = root / "config" / "gflow" / "gflow.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'[daemon]\nhost = "localhost"\nport = {_free_port()}\n', encoding="utf-8")
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    daemon = subprocess.Popen([str(programs / "gflowd")], env=env, **quiet)
    try:
        _until(lambda: _gflow_jobs(env) is not None, 30)
        began = time.perf_counter()
        words = ["--auto-close", "--array", f"1-{load.jobs}", "--max-concurrent", str(load.slots)]
        timed([str(programs / "gbatch"), *words, "true"], env=env, cwd=root)
        _until(lambda: (_gflow_jobs(env) or {}).get("Finished", 0) == load.jobs, 600)
        return time.perf_counter() - began
    finally:
        daemon.send_signal(signal.SIGTERM)
        try:
            daemon.wait(10)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
        subprocess.run(["tmux", "kill-server"], env=env, check=False, **quiet)
        shutil.rmtree(root, ignore_errors=True)


def _gflow_jobs(env: dict[str, str]) -> dict[str, int] | None:
    """How many jobs are in each state; None if its daemon does not answer."""
    words = [str(_OTHERS / "gflow" / "bin" / "gqueue"), "-a", "-o", "json"]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None
    counts: dict[str, int] = {}
    try:
        for job in json.loads(done.stdout or '{"jobs": []}')["jobs"]:
            counts[job["state"]] = counts.get(job["state"], 0) + 1
    except ValueError:
        return {}  # It says in words that there are none.
    return counts


def _until(fact: Callable[[], bool], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not fact():
        if time.monotonic() > deadline:
            raise TimeoutError(f"a peer has not come to an end within {timeout_s:.0f} s")
        time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


XARGS = Peer("xargs", "xargs", run_xargs)
SIMPLE_GPU_SCHEDULER = Peer(
    "simple_gpu_scheduler", _OLDER / "simple_gpu_scheduler", run_simple_gpu_scheduler
)
TASK_SPOOLER = Peer("task-spooler", "tsp", run_task_spooler)
HYPERQUEUE = Peer("HyperQueue", _OTHERS / "hyperqueue" / "bin" / "python", run_hyperqueue)
PARALLEL = Peer("GNU parallel", "parallel", run_parallel)
NQ = Peer("nq", "nq", run_nq)
GFLOW = Peer("gflow", _OTHERS / "gflow" / "bin" / "gflowd", run_gflow, most_jobs=8)
