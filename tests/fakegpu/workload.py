"""Two hundred trainings of eight kinds, as a lab has them, and what they need at least.

Peaks differ by kind; two kinds reach theirs late, two vary by a fifth from run to run, and one is
queued by somebody who says that it needs half of what it does.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

GIB = 1024


@dataclass(frozen=True)
class Kind:
    """Trainings that differ only in their parameters."""

    name: str
    peak_mib: int
    seconds: int
    use_percent: int
    ramp_s: int = 20
    late_at_percent: int | None = None
    vary_percent: int = 0
    says_mib: int | None = None  # what its user says that it needs; None: nothing


KINDS = (
    Kind("tiny", 2 * GIB, 1050, 5),
    Kind("small", 3 * GIB, 1050, 6),
    Kind("varied", 3 * GIB + GIB // 2, 1000, 8, vary_percent=20),
    Kind("late", 4 * GIB + GIB // 2, 1000, 9, late_at_percent=60),
    Kind("medium", 5 * GIB + GIB // 2, 950, 10),
    Kind("wavering", 5 * GIB, 950, 12, vary_percent=20),
    Kind("later", 6 * GIB + GIB // 2, 900, 13, late_at_percent=70),
    Kind("liar", 3 * GIB, 1000, 6, says_mib=GIB + GIB // 2),
)


@dataclass(frozen=True)
class Training:
    """One of them."""

    kind: Kind
    seed: int

    @property
    def peak_mib(self) -> float:
        """What it really needs: the same sum as in c/train.c."""
        mask = (1 << 64) - 1
        x = (self.seed * 0x9E3779B97F4A7C15 + 0x7F4A7C15) & mask
        x ^= x >> 31
        x = x * 0xBF58476D1CE4E5B9 & mask
        x ^= x >> 27
        unit = (x >> 11) / (1 << 53) * 2 - 1
        return self.kind.peak_mib * (1 + self.kind.vary_percent / 100 * unit)

    @property
    def command(self) -> list[str]:
        """The words that run it."""
        kind = self.kind
        words = [
            "fakegpu-train", "--peak", f"{kind.peak_mib}M", "--seconds", str(kind.seconds),
            "--ramp", str(kind.ramp_s), "--use", str(kind.use_percent), "--seed", str(self.seed),
        ]  # fmt: skip
        if kind.late_at_percent is not None:
            words += ["--late-peak-at", f"{kind.late_at_percent}%"]
        if kind.vary_percent:
            words += ["--vary", f"{kind.vary_percent}%"]
        return words

    def request(self, mem: str) -> dict[str, Any]:
        """The job, with its memory left to Stoker ("auto") or whole GPUs ("whole")."""
        job: dict[str, Any] = {"argv": self.command, "kind": self.kind.name, "mem": mem}
        if mem == "auto" and self.kind.says_mib is not None:
            job |= {"mem": None, "mem_mib": self.kind.says_mib}
        return job


def trainings(count: int = 200, seed: int = 1) -> list[Training]:
    """So many, the kinds mixed as they come."""
    shuffled = [Training(KINDS[number % len(KINDS)], number + 1) for number in range(count)]
    random.Random(seed).shuffle(shuffled)
    return shuffled


def lower_bound_s(jobs: list[Training], gpus: int, memory_mib: int) -> float:
    """No order of these on these GPUs takes less: by memory and time, and by the longest."""
    memory_time = sum(job.peak_mib * job.kind.seconds for job in jobs)
    return max(memory_time / (gpus * memory_mib), max(job.kind.seconds for job in jobs))
