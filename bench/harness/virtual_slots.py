"""GPUs in virtual time, and the daemon beside them as far as a searcher asks it.

The searcher and the study are Stoker's own: what they are told here, a daemon tells them. A run
takes 20 to 80 s of virtual time, whatever it tries. The searcher takes none, unless its own time is
to be counted: then virtual time goes on while it thinks, and each call of the daemon takes 5 ms.
"""

from __future__ import annotations

import heapq
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.objectives import Problem
from stoker.search.searcher import Searcher
from stoker.search.stopping import EarlyStops

METRIC = "val_loss"
FASTEST_S, SLOWEST_S = 20.0, 80.0
_CALL_S = 0.005
_READ_EVERY_S = 1.0  # as the reader of metrics


@dataclass(slots=True)
class Run:
    """A point, from when it is queued."""

    id: int
    point: str
    params: dict[str, float]
    reports: list[float]
    takes_s: float
    queued_s: float
    state: str = "waiting"
    starts_s: float = 0.0
    ends_s: float = 0.0

    def reported(self, now_s: float) -> list[float]:
        """What it has said until then."""
        until_s = self.ends_s if self.state not in ("waiting", "running") else now_s
        if self.state == "waiting":
            return []
        step_s = self.takes_s / len(self.reports)
        return self.reports[: int((until_s - self.starts_s) / step_s + 1e-9)]

    @property
    def ran_to_its_end(self) -> bool:
        """Whether it has made all its steps."""
        return self.state == "succeeded"


@dataclass(slots=True)
class VirtualSlots:
    """So many GPUs, each with at most one run."""

    problem: Problem
    slots: int
    seed: int
    counts_searcher: bool = False
    runs: list[Run] = field(default_factory=list)
    waited_s: float = 0.0  # of slots, for a point to run on them
    _now_s: float = 0.0
    _thinks_since_s: float | None = None
    _free: list[float] = field(default_factory=list)  # since when
    _ends: list[tuple[float, int]] = field(default_factory=list)
    _changes: int = 0
    _seen: int = 0  # of them, by the searcher

    def __post_init__(self) -> None:
        self._free = [0.0] * self.slots

    @property
    def now_s(self) -> float:
        """Virtual time."""
        if self._thinks_since_s is None:
            return self._now_s
        return self._now_s + time.perf_counter() - self._thinks_since_s

    @property
    def gpu_s(self) -> float:
        """The time for which slots have worked until now."""
        return sum(
            (self.now_s if one.state == "running" else one.ends_s) - one.starts_s
            for one in self.runs
            if one.state != "waiting"
        )

    def gpu_s_until(self, moment_s: float) -> float:
        """The time for which slots had worked by then, once all has ended."""
        return sum(max(0.0, min(one.ends_s, moment_s) - one.starts_s) for one in self.runs)

    def search(self, searcher: Searcher, stops: EarlyStops | None = None) -> None:
        """Let a search come to its end."""
        while not self.step(searcher, stops):
            pass

    def step(self, searcher: Searcher, stops: EarlyStops | None = None) -> bool:
        """One look of the searcher, and time until something happens; whether it is over."""
        if self.counts_searcher:
            self._thinks_since_s = time.perf_counter()
        over = searcher.look()
        self._now_s, self._thinks_since_s = self.now_s, None
        self._pass(self._now_s)
        while not over and self._changes == self._seen:  # else it looks again at once
            now_s, self._now_s = self._now_s, self._ends[0][0]
            if stops is not None:
                self._now_s = min(self._now_s, now_s + _READ_EVERY_S)
            self._pass(self._now_s)
            if stops is not None:
                stops.look(searcher.running, searcher.attempts)
        return over

    # ------------------------------------------------------------------ what passes

    def _run(self, job_id: int) -> Run:
        return self.runs[job_id - 1]

    def _pass(self, until_s: float) -> None:
        while self._ends and self._ends[0][0] <= until_s:
            ends_s, number = heapq.heappop(self._ends)
            if self._run(number).state == "running":
                self._end(self._run(number), "succeeded", ends_s)

    def _end(self, run: Run, state: str, at_s: float) -> None:
        run.state, run.ends_s = state, at_s
        self._changes += 1
        heapq.heappush(self._free, at_s)
        self._start_waiting(at_s)

    def _start_waiting(self, at_s: float) -> None:
        for run in self.runs:
            if run.state == "waiting" and self._free:
                self.waited_s += at_s - heapq.heappop(self._free)
                run.state, run.starts_s, run.ends_s = "running", at_s, at_s + run.takes_s
                heapq.heappush(self._ends, (run.ends_s, run.id))
                self._changes += 1

    # ------------------------------------------------------------------ what is answered

    def call(self, op: str, **fields: Any) -> dict[str, Any]:
        """What a client's `call` answers."""
        if self._thinks_since_s is not None:
            self._thinks_since_s -= _CALL_S
            self._pass(self.now_s)
        answer: dict[str, Any] = getattr(self, f"_{op}")(**fields)
        return answer

    def _searches(self, name: str, newest: int, unsure: Sequence[int]) -> dict[str, Any]:
        self._seen = self._changes
        asked = {*unsure, *range(newest + 1, len(self.runs) + 1)}
        rows = [
            [one.point, one.id, one.state, None, one.params, 1]
            for one in self.runs
            if one.id in asked
        ]
        return {"searches": [], "points": rows}

    def _submit(self, each: list[dict[str, Any]], **_: Any) -> dict[str, Any]:
        [job] = each
        number = len(self.runs) + 1
        chance = random.Random(f"{self.seed}:{number - 1}")
        takes_s = chance.uniform(FASTEST_S, SLOWEST_S)
        reports = self.problem.curve(job["params"], chance)
        self.runs.append(Run(number, job["point"], job["params"], reports, takes_s, self.now_s))
        self._start_waiting(self.now_s)
        return {"ids": [number]}

    def _metrics(self, select: dict[str, Any], names: list[str]) -> dict[str, Any]:
        rows = []
        for run in (self._run(int(one)) for one in select["ids"]):
            said = run.reported(self.now_s)
            if said:
                low, high = min(said), max(said)
                rows.append({
                    "job": run.id, "attempt": 1, "name": METRIC, "count": len(said),
                    "last": said[-1], "last_step": len(said),
                    "min": low, "min_step": said.index(low) + 1,
                    "max": high, "max_step": said.index(high) + 1,
                })  # fmt: skip
        return {"unread": 0, "rows": rows}

    def _stop_early(self, job_id: int, **_: Any) -> dict[str, Any]:
        run = self._run(job_id)
        if run.state == "running":
            self._end(run, "stopped", self.now_s)
        return {"stopped": run.state == "stopped"}

    def _search_told(self, **_: Any) -> dict[str, Any]:
        return {}

    # ------------------------------------------------------------------ what the reader keeps

    def version(self) -> tuple[int, ...]:
        """See `Lookup`: at another time there may be something new."""
        return (round(self.now_s * 1000),)

    def settled(
        self, jobs: Iterable[int], name: str, seen: Mapping[int, tuple[int, int]]
    ) -> list[tuple[int, int, int, list[tuple[float, float]]]]:
        """See `Lookup`."""
        found = []
        for job in jobs:
            said = self._run(job).reported(self.now_s)
            if said and seen.get(job) != (1, len(said)):
                points = [(float(step), value) for step, value in enumerate(said, 1)]
                found.append((job, 1, len(said), points))
        return found
