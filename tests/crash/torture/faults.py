"""Kills, stops and shortages. What lasts is taken back later, by `tend`, or at once by `mend`."""

from __future__ import annotations

import errno
import heapq
import os
import random
import resource
import signal
import time
from collections.abc import Callable

from crash.torture.clients import Clients
from crash.torture.log import Log
from crash.torture.place import Place
from crash.torture.shim import WHO, Shim
from crash.torture.stoker_processes import Seen, look

# Within it, a client that is stopped may still be waited for; beyond it, it counts as gone.
_LONG_STOP_S = 17.0
_THERE_WITHIN_S = 5.0


class Faults:
    """All that can be done to Stoker."""

    def __init__(self, place: Place, shim: Shim, clients: Clients, log: Log) -> None:
        self._place = place
        self._home = place.stoker.home.root
        self._shim = shim
        self._clients = clients
        self._log = log
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._going_on: set[str] = set()
        self._stopped: dict[int, int] = {}  # by pid: a pidfd
        self._mending = False
        self.daemon_answers = False  # as far as is known

    # ------------------------------------------------------------------ what lasts

    def later(self, after_s: float, what: Callable[[], None]) -> None:
        """Do something in a while."""
        self._count += 1
        heapq.heappush(self._due, (time.monotonic() + after_s, self._count, what))

    def tend(self) -> None:
        """Do what is due."""
        while self._due and self._due[0][0] <= time.monotonic():
            heapq.heappop(self._due)[2]()

    def mend(self) -> None:
        """Take everything back that lasts."""
        self._mending = True
        while self._due:
            heapq.heappop(self._due)[2]()
        self._shim.mend_all()
        if self._place.has_disk:
            self._place.make_room()

    def look(self) -> Seen:
        """The processes, with what is learned of who is whose keeper."""
        seen = look(self._home)
        for daemon, parent in seen.parents.items():
            # Once its keeper is dead, another is its parent; one that was killed before its daemon
            # was seen is not known any more.
            keeper = parent if parent in seen.of("keeper") else 0
            self._log.keepers.setdefault(daemon, keeper)
        return seen

    # ------------------------------------------------------------------ kills

    def kill(self, target: str, chance: random.Random) -> bool:
        """SIGKILL to one process of that kind; False if there is none."""
        if target == "client":
            return self._kill_client(chance)
        if target in ("daemon", "page"):
            return self._kill_once_there(target, chance)
        seen = self.look()
        if target == "both":
            return self._kill_both(seen)
        if target == "starting":
            return self._kill_starting(seen, chance)
        pids = seen.of(target)
        return bool(pids) and self._kill(chance.choice(pids), target)

    def _kill(self, pid: int, target: str) -> bool:
        began_ns = time.monotonic_ns()
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        self._log.happened(f"kill-{target}", began_ns, pid)
        return True

    def _kill_once_there(self, target: str, chance: random.Random) -> bool:
        """As soon as there is one to kill, and a little later.

        A daemon that never gets to do anything is not worth a kill: `starting` sees to those.
        """
        if f"kill-{target}" in self._going_on:
            return False
        self._going_on.add(f"kill-{target}")
        deadline, after_s = time.monotonic() + _THERE_WITHIN_S, chance.uniform(0.0, 0.4)

        def kill() -> None:
            self._going_on.discard(f"kill-{target}")
            if target == "daemon":
                self.daemon_answers = False
            for pid in self.look().of(target):
                self._kill(pid, target)

        def look_again() -> None:
            is_there = self.daemon_answers if target == "daemon" else self.look().of(target)
            if is_there or self._mending or time.monotonic() > deadline:
                self.later(after_s, kill)
            else:
                self.later(0.05, look_again)

        look_again()
        return True

    def _kill_both(self, seen: Seen) -> bool:
        """The daemon and its keeper: what runs then is nobody's child."""
        daemons = seen.of("daemon")
        if not daemons:
            return False
        keeper = self._log.keepers.get(daemons[0], 0)
        if keeper in seen.of("keeper"):
            self._kill(keeper, "keeper")
        return self._kill(daemons[0], "daemon")

    def _kill_starting(self, seen: Seen, chance: random.Random) -> bool:
        """The daemon, and then the one that comes after it, while it starts."""
        for pid in seen.of("daemon"):
            self._kill(pid, "daemon")
        self._clients.start("daemon", "start")
        for _ in range(chance.randint(1, 2)):
            self.later(chance.uniform(0.05, 0.6), self._kill_daemons)
        return True

    def _kill_daemons(self) -> None:
        for pid in self.look().of("daemon"):
            self._kill(pid, "daemon")

    def _kill_client(self, chance: random.Random) -> bool:
        living = self._clients.that_live()
        # Those that only look can be killed without end, and jobs still get through.
        looking = [client for client in living if client.submission is None]
        living = looking if looking and chance.random() < 0.6 else living
        if not living:
            return False
        client = chance.choice(living)
        if client.submission is not None:
            client.submission.killed = True
        return self._kill(client.process.pid, "client")

    # ------------------------------------------------------------------ stops

    def stop(self, target: str, chance: random.Random) -> bool:
        """SIGSTOP, and SIGCONT after a while."""
        if target == "client":
            # An attached one, if there is any: it may hold a grant.
            living = self._clients.that_live("run") or self._clients.that_live()
            pids = [client.process.pid for client in living]
        else:
            pids = self.look().of(target)
        if not pids:
            return False
        pid = chance.choice(pids)
        if pid in self._stopped:
            return False
        began_ns = time.monotonic_ns()
        try:
            fd = os.pidfd_open(pid)
            signal.pidfd_send_signal(fd, signal.SIGSTOP)
        except ProcessLookupError:
            return False
        self._stopped[pid] = fd
        longest_s = {"client": _LONG_STOP_S, "page": 3.0}.get(target, 1.5)
        # A client that is stopped while it starts a daemon keeps all others from doing so.
        is_long = chance.random() < 0.15 and self.daemon_answers
        lasts_s = longest_s if is_long else chance.uniform(0.05, 1.0)
        self.later(lasts_s, lambda: self._continue(pid, target, began_ns))
        return True

    def _continue(self, pid: int, target: str, began_ns: int) -> None:
        fd = self._stopped.pop(pid)
        try:
            signal.pidfd_send_signal(fd, signal.SIGCONT)
        except ProcessLookupError:
            pass  # It was killed meanwhile.
        os.close(fd)
        self._log.happened(f"stop-{target}", began_ns, pid)

    # ------------------------------------------------------------------ shortages

    def shortage(self, kind: str, chance: random.Random) -> bool:
        """Let something be short for a while; False if it is already, or can't be here."""
        if kind in self._going_on:
            return False
        begun = {
            "full-disk": self._full_disk,
            "inodes": self._no_inodes,
            "failing-writes": self._failing_writes,
            "failing-forks": self._failing_forks,
            "few-files": self._few_files,
        }[kind](chance)
        if begun is None:
            return False
        end, lasts_s = begun
        self._going_on.add(kind)
        began_ns = time.monotonic_ns()

        def be_over() -> None:
            end()
            self._going_on.discard(kind)
            self._log.happened(kind, began_ns)

        self.later(lasts_s, be_over)
        return True

    def _full_disk(self, chance: random.Random) -> tuple[Callable[[], None], float] | None:
        if not self._place.has_disk or "inodes" in self._going_on:
            return None
        self._place.fill()
        return self._place.make_room, chance.uniform(0.1, 2.5)

    def _no_inodes(self, chance: random.Random) -> tuple[Callable[[], None], float] | None:
        if not self._place.has_disk or "full-disk" in self._going_on:
            return None
        self._place.fill_inodes()
        return self._place.make_room, chance.uniform(0.1, 2.5)

    def _failing_writes(self, chance: random.Random) -> tuple[Callable[[], None], float]:
        kind = chance.choice(("write", "sync", "rename", "open"))
        error = chance.choice((errno.ENOSPC, errno.EIO))
        if kind == "open":
            error = chance.choice((errno.ENOSPC, errno.EIO, errno.EMFILE))
        everyone = sum(WHO.values())
        who = chance.choice((WHO["daemon"], WHO["keeper"], WHO["client"], everyone, everyone))
        self._shim.let_fail(kind, who, error, chance.choice((20, 200, 1000)))
        return lambda: self._shim.mend(kind), chance.uniform(0.3, 2.5)

    def _failing_forks(self, chance: random.Random) -> tuple[Callable[[], None], float]:
        who = chance.choice((WHO["daemon"], sum(WHO.values())))
        error = chance.choice((errno.EAGAIN, errno.ENOMEM))
        self._shim.let_fail("fork", who, error, chance.choice((200, 1000)))
        return lambda: self._shim.mend("fork"), chance.uniform(0.3, 2.5)

    def _few_files(self, chance: random.Random) -> tuple[Callable[[], None], float] | None:
        daemons = self.look().of("daemon")
        if not daemons:
            return None
        pid = daemons[0]
        try:
            soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            files = len(os.listdir(f"/proc/{pid}/fd"))
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (files + chance.randint(0, 4), hard))
        except OSError:
            return None

        def end() -> None:
            try:
                resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
            except OSError:
                pass  # It was killed meanwhile.

        return end, chance.uniform(0.1, 1.5)
