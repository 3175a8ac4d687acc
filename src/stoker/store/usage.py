"""What the GPUs were used for over time: whose they were, how jobs ended, how long jobs waited.

A GPU that several jobs share is split evenly between those that run at the same moment, so that
what groups and users have adds up to what was in use.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

MOST_NAMED = 50  # groups, or users; the rest are put together under no name


class Ran(NamedTuple):
    """An attempt: where it ran, when, and for which user."""

    number: int
    gpus: str  # a JSON list
    started_at_ms: int
    ended_at_ms: int | None
    state: str
    submitted_at_ms: int
    group: str | None
    user: str


def usage(attempts: Iterable[Ran], edges_ms: Sequence[int], now_ms: int) -> dict[str, Any]:
    """One figure for each stretch between two edges; see api.messages.Usage."""
    found = _Usage(edges_ms)
    on_gpu: defaultdict[str, list[tuple[int, int, Ran]]] = defaultdict(list)
    for ran in attempts:
        found.note(ran)
        begin = max(ran.started_at_ms, edges_ms[0])
        end = min(now_ms if ran.ended_at_ms is None else ran.ended_at_ms, edges_ms[-1])
        if begin < end:
            for gpu in json.loads(ran.gpus):
                on_gpu[gpu].append((begin, end, ran))
    for spans in on_gpu.values():
        for begin, end, who in _shared(spans):
            found.use(begin, end, who)
    return found.answer()


def _shared(spans: list[tuple[int, int, Ran]]) -> Iterator[tuple[int, int, list[Ran]]]:
    """Who ran on one GPU, from one change to the next."""
    changes: defaultdict[int, list[int]] = defaultdict(list)
    for place, (begin, end, _) in enumerate(spans):
        changes[begin].append(place)
        changes[end].append(place)
    running: set[int] = set()
    for at, following in pairwise(sorted(changes)):
        running.symmetric_difference_update(changes[at])
        if running:
            yield at, following, [spans[place][2] for place in sorted(running)]


class _Usage:
    def __init__(self, edges_ms: Sequence[int]) -> None:
        self._edges = edges_ms
        self._size = len(edges_ms) - 1
        self._busy = [0.0] * self._size
        self._of: dict[str, defaultdict[str, list[float]]] = {
            "groups": defaultdict(self._nothing),
            "users": defaultdict(self._nothing),
        }
        self._ended: list[Counter[str]] = [Counter() for _ in range(self._size)]
        self._waited: list[list[int]] = [[] for _ in range(self._size)]

    def _nothing(self) -> list[float]:
        return [0.0] * self._size

    def _place(self, at_ms: int) -> int | None:
        place = bisect_right(self._edges, at_ms) - 1
        return place if 0 <= place < self._size else None

    def note(self, ran: Ran) -> None:
        """How it ended, and how long it had waited: counted where that happened."""
        if ran.ended_at_ms is not None and (place := self._place(ran.ended_at_ms)) is not None:
            self._ended[place][ran.state] += 1
        if ran.number == 1 and (place := self._place(ran.started_at_ms)) is not None:
            self._waited[place].append(max(0, ran.started_at_ms - ran.submitted_at_ms))

    def use(self, begin: int, end: int, who: list[Ran]) -> None:
        """A GPU was in use by these."""
        place = self._place(begin)
        while place is not None and begin < end:
            until = min(end, self._edges[place + 1])
            self._busy[place] += until - begin
            part = (until - begin) / len(who)
            for ran in who:
                self._of["groups"][ran.group or ""][place] += part
                self._of["users"][ran.user][place] += part
            begin = until
            place = place + 1 if place + 1 < self._size else None

    def answer(self) -> dict[str, Any]:
        """All of it, with whole milliseconds."""
        return {
            "busy_ms": [round(one) for one in self._busy],
            **{kind: _most(found) for kind, found in self._of.items()},
            "ended": [dict(one) for one in self._ended],
            "started": [len(one) for one in self._waited],
            "waited_ms": [round(median(one)) if one else None for one in self._waited],
            "waited_long_ms": [sorted(one)[len(one) * 9 // 10] if one else None
                               for one in self._waited],
        }  # fmt: skip


def _most(found: dict[str, list[float]]) -> list[dict[str, Any]]:
    """Those that used most; the rest together, as that without a name."""
    ordered = sorted(found.items(), key=lambda item: (-sum(item[1]), item[0]))
    named = [(name, use) for name, use in ordered if name][:MOST_NAMED]
    kept = dict(named)
    rest = [use for name, use in ordered if name not in kept]
    if rest:
        named.append(("", [sum(column) for column in zip(*rest, strict=True)]))
    return [{"name": name, "gpu_ms": [round(one) for one in use]} for name, use in named]
