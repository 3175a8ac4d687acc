"""One port before several executors: each order goes to the one that runs the job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from stoker.core import commands as cmd
from stoker.core import events as ev
from stoker.core.model import Job, Launch
from stoker.ports import Executor


class Router:
    """See ports.Executor. Executors are known by the names that jobs have for them."""

    def __init__(self, executors: Mapping[str, Executor]) -> None:
        if "" not in executors:
            raise ValueError("this machine is an executor too")
        self._executors = dict(executors)
        self._told: dict[str, list[ev.Fact]] = {}  # by executor, those that are not acknowledged

    def adopt(self, active: Iterable[Job], now_ms: int) -> None:
        """See ports.Executor."""
        jobs = list(active)
        for name, executor in self._executors.items():
            executor.adopt([job for job in jobs if job.terms.executor == name], now_ms)

    def carry_out(
        self, commands: Sequence[cmd.Command], launch_of: Callable[[int], Launch], now_ms: int
    ) -> None:
        """See ports.Executor."""
        orders: dict[str, list[cmd.Command]] = {name: [] for name in self._executors}
        for command in commands:
            orders[_executor_of(command)].append(command)
        for name, own in orders.items():
            self._executors[name].carry_out(own, launch_of, now_ms)

    def observe(self, now_ms: int) -> list[ev.Fact]:
        """See ports.Executor."""
        facts: list[ev.Fact] = []
        self._told.clear()
        for name, executor in self._executors.items():
            told = executor.observe(now_ms)
            if told:
                self._told[name] = told
                facts += told
        return facts

    def acknowledged(self, facts: Sequence[ev.Fact]) -> None:
        """See ports.Executor."""
        if len(facts) < sum(map(len, self._told.values())):
            ids = {id(fact) for fact in facts}
            for name, told in self._told.items():
                self._told[name] = [fact for fact in told if id(fact) in ids]
        for name, told in self._told.items():
            self._executors[name].acknowledged(told)

    def next_wakeup_ms(self) -> int | None:
        """See ports.Executor."""
        earliest_ms = None
        for executor in self._executors.values():
            moment_ms = executor.next_wakeup_ms()
            if moment_ms is not None and (earliest_ms is None or moment_ms < earliest_ms):
                earliest_ms = moment_ms
        return earliest_ms

    def owners(self, pids: Iterable[int]) -> dict[int, int]:
        """See ports.Executor."""
        found: dict[int, int] = {}
        asked_for = list(pids)
        for executor in self._executors.values():
            found |= executor.owners(asked_for)
        return found


def _executor_of(command: cmd.Command) -> str:
    match command:
        case cmd.HandOver(executor=executor) | cmd.Terminate(executor=executor):
            return executor
    return ""
