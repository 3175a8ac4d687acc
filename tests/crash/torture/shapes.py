"""Jobs of all kinds: what each is to do, what it needs, and how front ends are told so."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

GPUS, GPU_MIB, CPUS = 4, 24_576, 6
LIMITED_GROUP, GROUP_LIMIT = "narrow", 2
GRACE_MS = 700
# Classes of their own: an attached job shares the session of its terminal, and its client, which is
# to start it, may be late.
_OF_ATTACHED = {"children": "run-children", "time-limits": "run-limits"}


@dataclass(frozen=True, slots=True)
class Job:
    """One job as it was asked for. The token is in its command line, and names it for good."""

    token: str
    front_end: str
    codes: tuple[int, ...] = (0,)  # of each attempt; the last one for all further ones
    ms: int = 50
    on_term: str = ""
    child: str = ""
    gpus: int = 1
    share: float = 0.0
    mem_mib: int = 0
    cpus: int = 0
    group: str = ""
    retries: int = 0
    time_limit_ms: int = 0
    after: tuple[int, ...] = ()  # ids of jobs that must have succeeded
    after_any: tuple[int, ...] = ()  # ids of jobs that must have ended

    def words(self, program: str, records: str) -> list[str]:
        """The command."""
        codes = ",".join(map(str, self.codes))
        words = [program, records, self.token, codes, str(self.ms)]
        words += [f"on-term={self.on_term}"] if self.on_term else []
        return words + ([f"child={self.child}"] if self.child else [])

    def options(self) -> list[str]:
        """As `stoker add` and its like are told of it; a name and a group apart."""
        found = ["--gpus", str(self.share or self.gpus), "--grace", f"{GRACE_MS}ms"]
        for option, value in (
            ("--mem", f"{self.mem_mib}M" if self.mem_mib else ""),
            ("--cpus", self.cpus),
            ("--retries", self.retries),
            ("--time-limit", f"{self.time_limit_ms}ms" if self.time_limit_ms else ""),
            ("--after", ",".join(map(str, self.after))),
            ("--after-any", ",".join(map(str, self.after_any))),
        ):
            found += [option, str(value)] if value else []
        return found

    def fields(self, program: str, records: str) -> dict[str, Any]:
        """As the daemon and the HTTP api are told of it."""
        found: dict[str, Any] = {
            "argv": self.words(program, records),
            "name": self.token,
            "grace_ms": GRACE_MS,
            "cpus": self.cpus,
            "retries": self.retries,
        }
        found |= {"share": self.share} if self.share else {"gpus": self.gpus}
        found |= {"mem_mib": self.mem_mib} if self.mem_mib else {}
        found |= {"group": self.group} if self.group else {}
        found |= {"after": list(map(str, self.after)), "after_any": list(map(str, self.after_any))}
        found |= {"time_limit_ms": self.time_limit_ms} if self.time_limit_ms else {}
        return found


def some_job(
    chance: random.Random,
    token: str,
    front_end: str,
    known_ids: Sequence[int],
    without: Collection[str],
) -> Job:
    """A job of any kind that is not left out."""
    job = Job(token, front_end, (chance.choice((0, 0, 0, 0, 0, 0, 1, 7, 77, 255, -9)),))
    job = replace(job, ms=chance.choice((5, 20, 60, 150, 400, 900)))
    wanted = chance.choices(["plain", "shares", "memory", "several-gpus", "cpus"], [8, 3, 3, 2, 3])[
        0
    ]
    if wanted not in without:
        job = _with_need(chance, job, wanted)
    for shape, odds in (
        ("dependencies", 0.15), ("retries", 0.15), ("time-limits", 0.12), ("groups", 0.15),
        ("children", 0.12), ("leavers", 0.15), ("stubborn", 0.12),
    ):  # fmt: skip
        # Drawn in any case, so that what is left out changes nothing else.
        drawn, own = chance.random(), random.Random(chance.random())
        kind = _OF_ATTACHED.get(shape, shape) if front_end == "run" else shape
        if drawn < odds and kind not in without:
            job = _shaped(own, job, shape, known_ids)
    return job


def _with_need(chance: random.Random, job: Job, wanted: str) -> Job:
    if wanted == "shares":
        return replace(job, share=chance.choice((0.25, 0.5)))
    if wanted == "memory":
        return replace(job, mem_mib=chance.choice((4096, 10_240, 16_384)))
    if wanted == "several-gpus":
        return replace(job, gpus=chance.randint(2, GPUS))
    if wanted == "cpus":
        return replace(job, gpus=chance.randint(0, 1), cpus=chance.randint(1, 3))
    return job


def _shaped(chance: random.Random, job: Job, shape: str, known_ids: Sequence[int]) -> Job:
    if shape == "dependencies" and known_ids:
        ids = tuple({chance.choice(known_ids[-20:]) for _ in range(chance.randint(1, 3))})
        if chance.random() < 0.5:
            return replace(job, after=ids)
        return replace(job, after_any=ids)
    if shape == "retries":
        return replace(job, retries=1, codes=(chance.choice((1, 7)), chance.choice((0, 9))))
    if shape == "time-limits":
        return replace(job, time_limit_ms=300, ms=chance.choice((20, 2000)))
    if shape == "groups":
        return replace(job, group=LIMITED_GROUP)
    if shape in ("children", "leavers"):
        kind = "leave" if shape == "leavers" else "stay"
        return replace(job, child=f"{kind}:{chance.choice((100, 600, 1500))}")
    if shape == "stubborn":
        return replace(job, on_term=chance.choice(("ignore", "exit:5", "exit:0")))
    return job
