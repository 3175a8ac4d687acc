"""The composition root: chooses the adapters, builds the daemon, and runs it until it is told.

Started by a keeper (see executors.keeper) as `python -m stoker.daemon.main READY_FD`: one line on
that descriptor says that it is ready, or why it is not. The keeper adds who it is.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import gc
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from stoker import __version__, command_lines
from stoker.api import holder
from stoker.api.paths import Home, make_private, socket_address
from stoker.api.skew import announce
from stoker.core.model import Job
from stoker.daemon import own_log, settings
from stoker.daemon.awaited_processes import AwaitedProcesses
from stoker.daemon.browsing import Browsing
from stoker.daemon.checkpoints import Checkpoints
from stoker.daemon.clock import SystemClock
from stoker.daemon.code_states import CodeStates
from stoker.daemon.disk_room import DiskWatch
from stoker.daemon.door import Door, most_to_stay
from stoker.daemon.followers import Followers
from stoker.daemon.frozen_code import FrozenCode
from stoker.daemon.home_watch import HomeWatch
from stoker.daemon.kept_calls import KeptCalls
from stoker.daemon.lent_gpus import LentGpus
from stoker.daemon.log_caps import LogCaps
from stoker.daemon.loop import TurnLoop
from stoker.daemon.notices import Notices
from stoker.daemon.page import Page
from stoker.daemon.readings import Readings
from stoker.daemon.requests.config import take_settings
from stoker.daemon.requests.dispatch import Dispatcher
from stoker.daemon.requests.gpus import shown_gpus
from stoker.daemon.retention import Clearing
from stoker.daemon.searches import SearcherProcesses
from stoker.daemon.server import Connection
from stoker.daemon.telemetry import Telemetry
from stoker.daemon.tenure import Tenure
from stoker.daemon.terminals import Terminals
from stoker.daemon.watchers import Watchers
from stoker.engine import Engine
from stoker.errors import AlreadyRunning, StokerError, Unavailable
from stoker.executors import file_limit
from stoker.executors.adoption import Past
from stoker.executors.attempt_dir import delete_files, log_found, spread_folders
from stoker.executors.keeper import keeper_of_this_process, ledger_path
from stoker.executors.ledger import LedgerWriter
from stoker.executors.local import LocalExecutor
from stoker.executors.mps import MpsServers
from stoker.executors.mps_clients import MpsClients
from stoker.executors.processes import this_process
from stoker.executors.router import Router
from stoker.executors.slurm.executor import NAME as CLUSTER
from stoker.executors.slurm.executor import SlurmExecutor
from stoker.executors.spawn import named_files
from stoker.inventory.auto import AutoInventory
from stoker.learn.output import last_bytes, says_out_of_memory
from stoker.ports import StoreFailed
from stoker.store.browsing import Browser
from stoker.store.histories import Histories
from stoker.store.sqlite import SqliteStore
from stoker.store.views import Views

log = logging.getLogger("stoker.daemon")

_WAIT_FOR_DRIVER_S = 5.0
_TOKENS_KEPT_MS = 24 * 3600 * 1000
_REMOVALS_AT_A_TIME = 200
# Little that we make is garbage in a circle, and a submission makes a million things that stay.
_COLLECTOR = (50_000, 50, 50)
# Where others have taken over from those that ended, and more stand by, no job waits for the turn:
# several ends share one.
_TAKEN_IN_WITHIN_S = 0.004
_RESERVE_AGAIN_S = 10.0
# A home is deleted one file after the other. Till then a socket made anew would be in the way, and
# what is still there tells nothing.
_DELETED_BY_THEN_S = 0.5
_BACKLOG = 512  # clients that may knock at the same moment


class Daemon:
    """One daemon on one state directory."""

    def __init__(self, home: Home, keeper_word: str, files: int) -> None:
        """`files`: how many may be open."""
        self.home = home
        self._files = files
        self._lock = take_lock(home.lock)
        self.tenure = Tenure(home)
        make_private(home.attempts)
        # Paths that are shown and handed on mean the same on all machines that share the logs.
        home.attempts = os.path.realpath(home.attempts)
        spread_folders(home.attempts)
        ledgers = Path(home.root, "ledgers")
        make_private(str(ledgers))
        self.store = SqliteStore(Path(home.database))
        self._watch = HomeWatch(home, self._lock)
        values = self.store.settings()
        if "instance" not in values:
            self.store.set_setting("instance", uuid4().hex)
            values = self.store.settings()
        self.clock = SystemClock(values.get("clock"), self._keep_clock)
        with suppress(StoreFailed):
            self.store.drop_old_submissions(self.clock.now_ms() - _TOKENS_KEPT_MS)
        self.inventory = AutoInventory(
            self.clock.now_ms,
            self._wake,
            cpus=settings.cpus_of(values),
            interval_s=settings.poll_s_of(values),
            ask_drivers=settings.value_of("driver", values) == "auto",
        )
        attempts = Path(home.attempts)
        elsewhere = self.tenure.elsewhere(values)
        past = Past(attempts, ledgers, elsewhere)
        self.tenure.refuse_if_kept(past)
        keeper = keeper_of_this_process(keeper_word)
        ledger = ledger_path(ledgers, keeper or this_process())
        self.executor = LocalExecutor(
            attempts,
            past,
            LedgerWriter(ledger, keeper),
            values["instance"],
            lambda grant: self.terminals.grant(grant),
            MpsClients(MpsServers(Path(home.root, "mps"), values["instance"])),
        )
        self.slurm = SlurmExecutor(attempts, values["instance"], self.clock.now_ms)
        launch_of, now_ms = self.store.launch, self.clock.now_ms
        self.checkpoints = Checkpoints(home.attempts, launch_of, now_ms, self._wake)
        engine = Engine(
            self.store,
            Router({"": self.executor, CLUSTER: self.slurm}),
            self.inventory,
            self.clock,
            says_out_of_memory=self._says_out_of_memory,
            takeover=self.executor.takeover,
            progressed=self.checkpoints.progressed,
            last_saved=self.checkpoints.last_saved,
        )
        active = [(job_id, engine.state.jobs[job_id].attempt) for job_id in engine.state.active]
        self.tenure.begin(elsewhere, active, self.store)
        past.tidy(active)
        self.turn_loop = TurnLoop(engine, self.clock.now_ms)
        self.disk_watch = DiskWatch(self.turn_loop, {home.root, home.attempts})
        self.views = Views(self.store.connection)
        self.terminals = Terminals(self.turn_loop, self.views, self.executor)
        self.awaited_processes = AwaitedProcesses(self.turn_loop)
        self.lent_gpus = LentGpus(self.turn_loop, values, self.store.set_setting)
        self.followers = Followers(self.turn_loop, home.attempts)
        self.log_caps = LogCaps(self.turn_loop, self.store.launch, home.attempts)
        self.telemetry = Telemetry(self.turn_loop, self.inventory, Histories(self.store.connection))
        self.telemetry.load()
        self.watchers = Watchers(self.turn_loop, self.store, lambda: shown_gpus(self))
        self.browsing = Browsing(Browser(Path(home.database)))
        self.frozen_code = FrozenCode(home.root, self.browsing)
        self.code_states = CodeStates(self.store)
        self.readings = Readings(self.turn_loop, self.browsing, home)
        self.searches = SearcherProcesses(self.store, home.root)
        is_read = self.readings.is_read_before_deletion
        delete = self.checkpoints.delete
        kept = self.kept_calls = KeptCalls(home.root, home.database)
        self.clearing = Clearing(
            self.turn_loop, self.views, self.store, home, is_read, delete, kept
        )
        self.page = Page(values, self.store.set_setting, home.root)
        self.notices = Notices(self)
        self.started_at_ms = self.clock.now_ms()
        self.started_monotonic = time.monotonic()
        self.dispatcher = Dispatcher(self)
        take_settings(self)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending = False
        self._ended = asyncio.Event()
        self._reserve_timer: asyncio.TimerHandle | None = None
        self._homeless = False

    def _keep_clock(self, text: str) -> None:
        """Note what is no more than a help: a full disk must not stop a turn for it."""
        try:
            self.store.set_setting("clock", text)
        except StoreFailed as failure:
            log.warning("clock can't be noted: %s", failure)

    def _wake(self) -> None:
        """The GPUs were read, by a thread of the inventory's own."""
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # The loop has ended, and the daemon is about to.
                loop.call_soon_threadsafe(self.turn_loop.wake)

    def _hear(self) -> None:
        """Processes have ended, unless a turn in this very pass of the loop has seen to them."""
        if not self.executor.has_news():
            return
        if self.executor.takeover.take_over(self.clock.now_ms()):
            self.turn_loop.turn_within(_TAKEN_IN_WITHIN_S)
        else:
            self.turn_loop.turn_now()

    def _says_out_of_memory(self, job: Job) -> bool:
        launch = self.store.launch(job.id)
        log_path = log_found(self.home.attempts, job.id, job.attempt)
        launch = named_files(launch, job.id, job.attempt)
        paths = [launch.out or log_path, launch.err]
        return any(says_out_of_memory(last_bytes(path)) for path in paths if path)

    async def run(self, ready: Callable[[], None]) -> None:
        """Serve until told to end."""
        loop = self._loop = asyncio.get_running_loop()
        # Only where no GPU is known yet is there a reason to wait for a driver.
        self.inventory.start(wait_s=0.0 if self.turn_loop.state.gpus else _WAIT_FOR_DRIVER_S)
        announce(self.home)
        listener = listen(self.home.socket)
        self._watch.socket_made()
        self._door = Door(
            listener,
            most_to_stay(self._files),
            lambda may_stay: Connection(self.dispatcher, may_stay),
        )
        if self._watch.fileno() >= 0:
            loop.add_reader(self._watch.fileno(), self._something_was_deleted)
        self.turn_loop.before_turn += [self._look_at_lock, self.disk_watch.before_turn]
        loop.add_reader(self.executor.fileno(), self._hear)
        loop.add_reader(self.slurm.fileno(), self.turn_loop.wake)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.shut_down, "leave")
        state = self.turn_loop.state
        for job in state.jobs.attached():
            if job.active is None or job.active.started_at_ms is None:
                self.terminals.expect(job.id)
        self.turn_loop.after_turn += [
            self.terminals.tell_reasons,
            self.terminals.expect_missing,
            self.followers.tell,
            self.telemetry.look,
            self.watchers.note,
            self.notices.look,
            self._delete_removed,
            lambda: self.frozen_code.jobs_removed(self.turn_loop.engine.committed),
            self.code_states.after_turn,
            self._keep_reserve,
            self.disk_watch.after_turn,
            self.log_caps.after_turn,
            self.readings.after_turn,
            lambda: self.searches.retried(self._groups_retried()),
            self.awaited_processes.look,
            self._end_if_done,
        ]
        self.tenure.keep(loop, self.turn_loop)
        self.clearing.begin()
        self.log_caps.begin()
        self.checkpoints.begin()
        self.readings.begin()
        self.lent_gpus.begin()
        self.turn_loop.turn()
        # What was loaded stays: the collector need not look at a long queue again and again, nor
        # at all while that was loaded (see `main`).
        gc.freeze()
        gc.set_threshold(*_COLLECTOR)
        gc.enable()
        log.info("ready: version %s, pid %d, %d jobs", __version__, os.getpid(), len(state.jobs))
        ready()
        self.page.come_back()
        self.searches.begin()
        await self._ended.wait()
        self._door.close()
        for connection in list(self.dispatcher.connections):
            connection.say_goodbye()
            connection.close()  # What comes now is for the next daemon.
        await asyncio.sleep(0)  # Answers that are on their way leave before we do.
        if self._watch.has_socket():
            os.unlink(self.home.socket)
        active = [state.jobs[job_id] for job_id in state.active]
        self.tenure.end(has_jobs=any(job.terms.executor != CLUSTER for job in active))

    def _something_was_deleted(self) -> None:
        self._watch.heard()
        asyncio.get_running_loop().call_later(_DELETED_BY_THEN_S, self._look_at_home)

    def _look_at_home(self) -> None:
        self._look_at_lock()
        if self._ended.is_set() or not self._watch.has_lock() or self._watch.has_socket():
            return
        log.warning("the socket was deleted, and is made anew")
        self._door.move_to(listen(self.home.socket))
        self._watch.socket_made()

    def _look_at_lock(self) -> None:
        """Without its lock a daemon is not alone with its jobs, and must start no more of them."""
        if self._homeless or self._watch.has_lock():
            return
        self._homeless = self.turn_loop.engine.starts_nothing = True
        log.error("the home %s, or the lock in it, was deleted: nothing is started", self.home.root)
        asyncio.get_running_loop().call_later(_DELETED_BY_THEN_S, self._leave_home)

    def _leave_home(self) -> None:
        """Let the next daemon have the jobs if it can find them, else stay until they end."""
        self.shut_down("leave" if self._watch.has_database() else "drain")

    def shut_down(self, mode: str) -> None:
        """See api.messages.Shutdown."""
        log.info("told to stop (%s)", mode)
        if mode == "leave":
            self._ended.set()
            return
        self._ending = True
        self.turn_loop.engine.starts_nothing = True
        self.turn_loop.wake()

    def _end_if_done(self) -> None:
        if not self._ending:
            return
        # What has ended and can't be put on record while the disk is full waits with the keeper.
        over = self.turn_loop.engine.failing and not self.executor.runs_anything()
        # What was adopted goes on without a daemon, and the next one finds it.
        state = self.turn_loop.state
        if over or all(state.jobs[job_id].terms.adopted for job_id in state.active):
            self._ended.set()

    def _groups_retried(self) -> set[str | None]:
        """The groups of jobs that the turn has brought back."""
        change = self.turn_loop.engine.committed
        if not change.retried:
            return set()
        jobs = {job_id: self.turn_loop.state.jobs.get(job_id) for job_id in change.retried}
        ended = {one.job.group for one in change.ended if one.job.id in jobs}
        return ended | {job.group for job in jobs.values() if job is not None}

    def _keep_reserve(self) -> None:
        """Have the room for hard times ready again, once there is some left."""
        if self._homeless:
            return
        reserve, loop = self.store.reserve, asyncio.get_running_loop()
        if self._reserve_timer is None and not reserve.is_whole:
            reserve.fill()
            if not reserve.is_whole:
                self._reserve_timer = loop.call_later(_RESERVE_AGAIN_S, self._try_reserve_again)

    def _try_reserve_again(self) -> None:
        self._reserve_timer = None
        self._keep_reserve()

    def _delete_removed(self) -> None:
        """Delete the files of removed jobs, a few at a time so that no request waits for it."""
        may_be_some = self._more_removals or self.turn_loop.engine.committed.removed
        pending = self.store.removals(_REMOVALS_AT_A_TIME) if may_be_some else []
        points = [point for _, _, point, _ in pending if point is not None]
        living = self.views.at_points(points) if points else {}
        for job_id, attempts, point, call in pending:
            for number in range(1, attempts + 1):
                delete_files(self.home.attempts, job_id, number)
            if call is not None:  # Where its result is awaited, `clearing` deletes it later.
                self.kept_calls.delete(call, attempts)
            if attempts and point not in living:
                self.checkpoints.delete(job_id, point)
        if pending:
            try:
                self.store.removals_done([job_id for job_id, *_ in pending])
            except StoreFailed as failure:
                log.warning("can't note that logs were deleted: %s", failure)
                return
            self.turn_loop.wake()
        self._more_removals = bool(pending)

    _more_removals = True  # a daemon before this one may have left some

    def close(self) -> None:
        """Let everything go; jobs go on, and their keeper writes down how they end."""
        self.inventory.stop()
        self.telemetry.save()
        self.executor.close()
        self.slurm.close()
        self.page.close()
        self.notices.close()
        self.searches.close()
        self.readings.close()
        self.code_states.close()
        self.checkpoints.close()
        self.kept_calls.close()
        self.browsing.close()
        self.store.close()
        self._watch.close()
        os.close(self._lock)


def take_lock(path: str) -> int:
    """The lock that only one daemon on a state directory can have; it goes with its process."""
    fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise AlreadyRunning(
            f"another daemon runs on {os.path.dirname(path)}", "see `stoker daemon status`"
        ) from None
    except OSError as error:
        os.close(fd)
        raise holder.no_locks(os.path.dirname(path), error) from None
    holder.put_down(fd)
    return fd


def listen(path: str) -> socket.socket:
    """The daemon's socket, private from its first moment; one left by a dead daemon is replaced."""
    with suppress(FileNotFoundError):
        os.unlink(path)
    address, directory = socket_address(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    mask = os.umask(0o177)
    try:
        listener.bind(address)
    finally:
        os.umask(mask)
        if directory >= 0:
            os.close(directory)
    listener.listen(_BACKLOG)
    listener.setblocking(False)
    return listener


async def _run(
    home: Home, keeper_word: str, starts_nothing: bool, ready: Callable[[], None]
) -> None:
    daemon = Daemon(home, keeper_word, file_limit.raise_limit())
    daemon.turn_loop.engine.starts_nothing = starts_nothing
    try:
        await daemon.run(ready)
    finally:
        daemon.close()
        call_off_timers(asyncio.get_running_loop())


def call_off_timers(loop: Any) -> None:
    """A loop that ends still rings while it waits for its threads, but all is closed by then."""
    for handle in list(loop._scheduled):
        handle.cancel()


def main() -> int:
    """Run a daemon in this process; see the module."""
    starts_nothing = command_lines.STARTS_NOTHING in sys.argv
    words = [word for word in sys.argv[1:] if word != command_lines.STARTS_NOTHING]
    ready_fd, keeper_word = int(words[0]), "".join(words[1:2])
    os.set_inheritable(ready_fd, False)  # The first jobs may be started before it is closed.
    home = Home.from_environment()
    own_log.begin(home.log)

    def say(text: str) -> None:
        with suppress(OSError):  # The process that started us is not there any more.
            os.write(ready_fd, text.encode(errors="replace") + b"\n")
            os.close(ready_fd)

    gc.collect()
    gc.disable()  # until the state is loaded
    try:
        asyncio.run(_run(home, keeper_word, starts_nothing, lambda: say("ready")))
    except StokerError as error:
        log.error("%s", error.message)
        say(f"{error.code}\t{error.message}\t{error.hint}")
        return error.exit_code
    except (OSError, StoreFailed) as error:
        log.exception("the daemon could not go on")
        no_room = isinstance(error, StoreFailed) or error.errno in (errno.ENOSPC, errno.EDQUOT)
        hint = "make room, or see its log" if no_room else "see its log"
        say(f"{Unavailable.code}\tthe daemon could not start: {error}\t{hint}")
        return Unavailable.exit_code
    except Exception as error:
        log.exception("the daemon could not go on")
        say(f"failed\tthe daemon could not start: {error}\tsee its log")
        return 1
    log.info("ended")
    return 0


if __name__ == "__main__":
    sys.exit(main())
