"""How long it takes to find the metrics in a log of 100 MB, and grep to go through it."""

from __future__ import annotations

import random
import resource
import subprocess
import sys
from pathlib import Path

from harness.measures import Goal, Report, measure
from harness.setting import Setting

_READ = """
import sys
from stoker.metrics.attempt import read_attempt
from stoker.metrics.spec import Spec
print(read_attempt(Spec(1, 1, log=sys.argv[1]))["train_loss"].count)
"""


def metrics(setting: Setting) -> list[Report]:
    """Processor time, for logs of three kinds."""
    size = setting.so_many(100, 5) * 1_000_000
    measures = []
    for kind in ("log lines", "bars of tqdm", "dicts of a trainer"):
        path = setting.scratch / "train.log"
        count = _write(path, kind, size)
        reads, greps = [], []
        for _ in range(setting.times(5)):
            took, said = _cpu_s([sys.executable, "-c", _READ, str(path)])
            assert int(said) == count, f"{said} of {count} points were found"
            reads.append(took)
            greps.append(_cpu_s(["grep", "-c", "train_loss", str(path)])[0])
            setting.say(f"metrics: {kind}: {reads[-1]:.2f} s, grep {greps[-1]:.2f} s")
        measures.append(measure(kind, reads, "s", must=Goal(2.0), slack=0.1))
        measures.append(measure(f"grep -c, {kind}", greps, "s"))
        path.unlink()
    return [Report("metrics", "of one core, for the metrics in a log of 100 MB", measures)]


def _write(path: Path, kind: str, size: int) -> int:
    """Write a log of that size; how many points of train_loss it has."""
    chance = random.Random(7)
    count = number = 0
    with path.open("wb") as file:
        while file.tell() < size:
            number += 1
            loss = chance.random()
            said = f"train_loss={loss:.4f}, lr={loss / 1000:.3e}"
            if kind == "bars of tqdm":
                done = number % 1000
                bar = f"{done // 10:3d}%|{'█' * (done // 100):10s}| {done}/1000"
                line = f"\rEpoch {number // 1000}: {bar} [00:12<00:15, {40 * loss:.2f}it/s, {said}]"
            elif kind == "dicts of a trainer":
                rest = f"'learning_rate': {loss / 1000:.10e}, 'epoch': {number / 10_000:.2f}"
                line = f"{{'train_loss': {loss:.4f}, 'grad_norm': {3 * loss:.6f}, {rest}}}\n"
            elif number % 3:
                at = f"2026-11-18 07:00:{number % 60:02d},{number % 1000:03d} - INFO - trainer"
                line = f"{at} - epoch {number // 1000} step {number}: {said}, grad={5 * loss:.3f}\n"
            else:
                line = f"worker {number % 8} has loaded shard {number} of the data in {loss:.2f}s\n"
            count += "train_loss" in line
            file.write(line.encode())
    return count


def _cpu_s(words: list[str]) -> tuple[float, str]:
    """The processor time that a process takes, and what it prints."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return took, done.stdout.strip()
