"""The engine in an asyncio loop: a turn whenever something was asked, heard, or has become due.

All requests and exits that have arrived by the time of a turn share it, and so share its commit.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from stoker.core.change import Change
from stoker.core.state import State
from stoker.engine import Answer, Engine, Proposal
from stoker.errors import Failed, StokerError

log = logging.getLogger("stoker.daemon")

_AFTER_TROUBLE_S = 1.0
_TURNS_REMEMBERED = 1_000
_LONGEST_S = 86_400.0

Reply = Callable[[Answer], None]


@dataclass(slots=True, eq=False)
class Watcher:
    """What waits until jobs are final."""

    missing: set[int]
    done: Callable[[], None]
    each: bool = False  # `done` is called whenever some of them are


@dataclass(slots=True)
class TurnLoop:
    """Schedules turns and hands out their answers."""

    engine: Engine
    now_ms: Callable[[], int]
    before_turn: list[Callable[[], None]] = field(default_factory=list)
    after_turn: list[Callable[[], None]] = field(default_factory=list)
    turns: int = 0
    _latest_s: deque[float] = field(default_factory=lambda: deque(maxlen=_TURNS_REMEMBERED))
    _inbox: list[tuple[Proposal, Reply]] = field(default_factory=list)
    _scheduled: bool = False
    _timer: asyncio.TimerHandle | None = None
    _soon: asyncio.TimerHandle | None = None  # a turn that gathers what happens until then
    _watchers: dict[int, list[Watcher]] = field(default_factory=dict)

    @property
    def state(self) -> State:
        """The state as of the last turn."""
        return self.engine.state

    def ask(self, proposal: Proposal, reply: Reply) -> None:
        """Let the next turn look at a proposal."""
        self._inbox.append((proposal, reply))
        self.wake()

    def wake(self) -> None:
        """Have a turn soon; what arrives in the same moment shares it."""
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self.turn)

    def turn_now(self) -> None:
        """Have a turn without another pass of the loop, unless one is about to begin anyway.

        For what stays readable until a turn has looked at it: in the other pass it would be seen
        again, and have a turn of its own in which nothing is left to do but to commit.
        """
        if not self._scheduled:
            self.turn()

    def turn_within(self, seconds: float) -> None:
        """Have a turn by then; what happens meanwhile shares it."""
        if not self._scheduled and self._soon is None:
            self._soon = asyncio.get_running_loop().call_later(seconds, self.turn)

    def watch(
        self, job_ids: Iterable[int], done: Callable[[], None], *, each: bool = False
    ) -> Watcher:
        """Call `done` once all these jobs are final; at once if they are.

        With `each`, after every turn in which some of them have become final.
        """
        watcher = Watcher({i for i in job_ids if i in self.state.jobs}, done, each)
        if not watcher.missing:
            done()
        for job_id in watcher.missing:
            self._watchers.setdefault(job_id, []).append(watcher)
        return watcher

    def unwatch(self, watcher: Watcher) -> None:
        """Wait no more."""
        for job_id in watcher.missing:
            others = self._watchers.get(job_id, [])
            if watcher in others:
                others.remove(watcher)
            if not others:
                self._watchers.pop(job_id, None)
        watcher.missing.clear()

    def turn(self) -> None:
        """One turn, its answers, and the alarm for the next."""
        began = time.perf_counter()
        self._scheduled = False
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        _call_each(self.before_turn)
        asked, self._inbox = self._inbox, []
        trouble = False
        try:
            answers = self.engine.turn([proposal for proposal, _ in asked])
        except Exception:
            # A bug of ours. The state is as it was on disk; one bad proposal must not end the rest.
            log.exception("a turn failed, and nothing of it was committed")
            trouble = True
            error: StokerError = Failed("something went wrong inside the daemon", "see its log")
            answers = [Answer(error=error) for _ in asked]
        _call_each(
            partial(reply, answer) for (_, reply), answer in zip(asked, answers, strict=True)
        )
        _call_each([watcher.done for watcher in self._satisfied()])
        _call_each(self.after_turn)
        if asked:
            # All have heard of it, and what a long submission has brought is not kept any longer.
            self.engine.committed = Change()
        self._set_alarm(trouble or self.engine.failing)
        self.turns += 1
        self._latest_s.append(time.perf_counter() - began)

    def pace(self, latest: int | None = None) -> dict[str, float]:
        """How many turns there were, and how long the latest took, in milliseconds."""
        times = list(self._latest_s)
        ordered = sorted(times[-latest:] if latest is not None else times) or [0.0]

        def below(percent: int) -> float:
            return round(1000 * ordered[-(-len(ordered) * percent // 100) - 1], 3)

        took = {"p50_ms": below(50), "p99_ms": below(99), "most_ms": below(100)}
        return {"count": self.turns, **took}

    def _satisfied(self) -> Iterator[Watcher]:
        """The watchers that are to hear of what has become final in this turn."""
        found: list[Watcher] = []
        for ended in self.engine.committed.ended:
            if not ended.job_is_final:
                continue
            for watcher in self._watchers.pop(ended.job.id, ()):
                watcher.missing.discard(ended.job.id)
                if not watcher.missing or watcher.each:
                    found.append(watcher)
        return iter(dict.fromkeys(found))

    def _set_alarm(self, trouble: bool) -> None:
        loop = asyncio.get_running_loop()
        if trouble:
            self._cancel_alarm()
            self._timer = loop.call_later(_AFTER_TROUBLE_S, self._try_again)
            return
        moment_ms = self.engine.next_wakeup_ms()
        if moment_ms is None:
            self._cancel_alarm()
            return
        # A timer beyond what select can take is simply set again when it rings.
        delay_s = min(max(0.0, (moment_ms - self.now_ms()) / 1000), _LONGEST_S)
        moment_s = loop.time() + delay_s
        if self._timer is not None and self._timer.when() <= moment_s:
            return  # It rings early enough, and is then set anew.
        self._cancel_alarm()
        self._timer = loop.call_at(moment_s, self._ring)

    def _try_again(self) -> None:
        self._timer = None
        self.wake()

    def _ring(self) -> None:
        self._timer = None
        moment_ms = self.engine.next_wakeup_ms()
        if moment_ms is not None and moment_ms <= self.now_ms():
            self.wake()
        else:
            self._set_alarm(False)

    def _cancel_alarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _call_each(actions: Iterable[Callable[[], None]]) -> None:
    """One that fails is a bug of ours, and keeps neither the others nor the next turn waiting."""
    for action in actions:
        try:
            action()
        except Exception:
            log.exception("%r failed beside a turn", action)
