"""`stoker feed` beside simple_gpu_scheduler: the same file of commands that do nothing.

Both are timed as whole commands, from their start to the end of the last line. Stoker's daemon is
there already, as it is on every day but the first.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from side_by_side import (
    BIN,
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


def run_feed(load: Load) -> float:
    """`stoker feed`, with the shell that the other one uses."""
    return _timed_beside_a_daemon(load, [str(BIN / "stoker"), "feed", "--on", _gpus(load)])


def run_drop_in(load: Load) -> float:
    """Stoker's command of the older tool's name."""
    return _timed_beside_a_daemon(load, [str(BIN / "simple_gpu_scheduler"), "--gpus", _gpus(load)])


def _timed_beside_a_daemon(load: Load, words: list[str]) -> float:
    root = Path(tempfile.mkdtemp(prefix="home-", dir=load.scratch)) / "stoker"
    os.environ |= {"STOKER_HOME": str(root), "SHELL": "/bin/sh"}
    with Client(Home(str(root))) as client:
        client.call("config_set", name="gpus", value=_gpus(load))
    try:
        return timed(words, "true\n" * load.jobs)
    finally:
        stop_daemon()


def _gpus(load: Load) -> str:
    return ",".join(str(number) for number in range(load.slots))


CONTENDERS: Contenders = {
    "simple_gpu_scheduler": run_simple_gpu_scheduler,
    "stoker feed": run_feed,
    "drop-in": run_drop_in,
}

if __name__ == "__main__":
    results = HERE / "results" / "feed.json"
    sys.exit(run("a file of commands", CONTENDERS, results, lambda scratch: None))
