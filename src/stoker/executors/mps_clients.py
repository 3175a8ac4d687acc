"""Attempts as clients of MPS servers: how they come, are ended, and are taken down by a server.

Like `mps` it waits for nothing: what can't be said yet is asked again in a later turn.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from stoker.core import commands as cmd
from stoker.core import events as ev
from stoker.core.model import Exit, Job
from stoker.executors.ledger import Key
from stoker.executors.mps import CantStart, MpsServers, Task


@dataclass(slots=True)
class Client:
    """What an attempt has to do with MPS."""

    gpu: str
    had_company: bool = False  # others used the same server: what failed may not have been itself
    tasks: dict[bool, Task] = field(default_factory=dict)  # ending its GPU work; by force or not


@dataclass(slots=True)
class _Examined:
    """An attempt that has failed, while it is found out whether its server did."""

    exit: Exit
    client: Client
    at_ms: int
    task: Task


class MpsClients:
    """All attempts that use MPS."""

    def __init__(self, servers: MpsServers) -> None:
        self.servers = servers
        self._waiting_on: set[str] = set()  # GPUs on which attempts wait to start, this turn
        self._offered: dict[Key, Client] = {}  # to users' terminals
        self._examined: dict[Key, _Examined] = {}

    def begin_turn(self) -> None:
        """Orders are about to be carried out."""
        self._waiting_on.clear()

    def end_turn(self, running: Iterable[Client | None], now_ms: int) -> None:
        """All orders were carried out: servers that no job uses are ended."""
        if self.servers.any():
            self.servers.tend(self._used(running) | self._waiting_on, now_ms)

    def close(self, running: Iterable[Client | None]) -> None:
        """The daemon ends."""
        self.servers.close(self._used(running))

    def _used(self, running: Iterable[Client | None]) -> set[str]:
        clients = [*running, *self._offered.values()]
        clients += [examined.client for examined in self._examined.values()]
        return {client.gpu for client in clients if client is not None}

    # ------------------------------------------------------------------ their beginning

    def come(
        self,
        command: cmd.Start | cmd.StartAttached,
        env: dict[str, str],
        running: Iterable[Client | None],
    ) -> Client | CantStart | None:
        """The attempt as a client of its GPU's server, which its environment is told of.

        None: that can't be said yet.
        """
        assert command.mps is not None
        gpu, key = command.gpus[0], (command.job_id, command.attempt)
        clients = [client for client in running if client is not None]
        offered = self._offered.get(key)
        self._waiting_on.add(gpu)
        used = gpu in self._used(clients) and offered is None
        variables = self.servers.ready(gpu, command.mps, used)
        if variables is None or isinstance(variables, CantStart):
            return variables
        env.update(variables)
        if offered is not None:
            return offered
        neighbours = [client for client in clients if client.gpu == gpu]
        for neighbour in neighbours:
            neighbour.had_company = True
        return Client(gpu, had_company=bool(neighbours))

    def adopted(self, job: Job) -> Client | None:
        """An attempt of an earlier daemon; whether it had company is not known any more."""
        attempt = job.active
        assert attempt is not None
        if not job.terms.mps or not attempt.gpus:
            return None
        return Client(attempt.gpus[0], had_company=True)

    def offer(self, key: Key, client: Client) -> None:
        """A user's terminal is to start it."""
        self._offered[key] = client

    def taken(self, key: Key) -> Client | None:
        """What was offered is started, or will never be."""
        return self._offered.pop(key, None)

    # ------------------------------------------------------------------ their end

    def may_signal(self, client: Client, force: bool, pids: Callable[[], list[int]]) -> bool:
        """True once its GPU work was ended: a client that is killed in it hurts its neighbours."""
        task = client.tasks.get(force)
        if task is None:
            task = client.tasks[force] = self.servers.end_clients(client.gpu, pids())
        return task.done

    def examine(self, key: Key, how: Exit, client: Client, at_ms: int) -> None:
        """An attempt has failed; `examined` tells of it when it is known whether its server did."""
        task = self.servers.examine(client.gpu)
        self._examined[key] = _Examined(how, client, at_ms, task)

    def is_examining(self, key: Key) -> bool:
        """True while that is being found out."""
        return key in self._examined

    def examined(self) -> list[ev.AttemptExited]:
        """Those of which it is known by now."""
        facts = []
        for key, one in list(self._examined.items()):
            if not one.task.done:
                continue
            del self._examined[key]
            failed = one.task.result is True
            if failed:
                self.servers.note_failure(one.client.gpu)
            # One that had the server for itself, or was killed, has nothing else to blame.
            victim = failed and one.client.had_company and may_be_a_victim(one.exit)
            facts.append(ev.AttemptExited(one.at_ms, *key, one.exit, mps_fault=victim))
        return facts


def may_be_a_victim(how: Exit) -> bool:
    """False for a process that was killed: that is its own story, and may have been the cause.

    One whose server fails is told so by CUDA and exits with a code, or aborts.
    """
    number = how.signal
    if how.code is not None and how.code > 128:
        number = how.code - 128  # As a shell tells of it.
    return not how.ok and number in (None, signal.SIGABRT)
