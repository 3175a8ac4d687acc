"""Making the processes of attempts.

Law: that a process is to be made is in the ledger before it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

from stoker.core import commands as cmd
from stoker.core import events as ev
from stoker.core.model import Launch
from stoker.executors.attempt_dir import log_text
from stoker.executors.checkpoint_dir import checkpoint_text, make_checkpoint_dir
from stoker.executors.environment import Encoder, command_line
from stoker.executors.mps import CantStart
from stoker.executors.mps_clients import Client
from stoker.executors.processes import ticks_since_boot
from stoker.executors.reaping import Reaping
from stoker.executors.running import Attempts, Loading
from stoker.executors.shortage import CouldNotStart, Shortage, could_not
from stoker.executors.spawn import Spawner, with_files
from stoker.executors.warm_servers import StartSpec, WarmServers


class Starting:
    """New processes, which are watched from then on."""

    def __init__(self, attempts: Attempts, reaping: Reaping, spawner: Spawner) -> None:
        self._attempts = attempts
        self._ledger = attempts.ledger
        self._reaping = reaping
        self._spawner = spawner
        self.warm_servers = WarmServers(attempts.instance, attempts.root, spawner)
        self._encoder = Encoder(attempts.instance, attempts.root)

    def start(self, command: cmd.Start, launch: Launch) -> None:
        """Make the process of an attempt, or tell why that can't be done."""
        key = (command.job_id, command.attempt)
        if self._attempts.short is not None:
            # It would be no different for this one.
            self._attempts.could_not(key, self._attempts.short)
            return
        client: Client | None = None
        variables: dict[str, str] = {}
        if command.mps is not None:
            client = self.client(command, variables)
            if client is None:
                return
        if len(command.gpus) > 1:
            try:
                launch, told = self._attempts.ports.told(key, launch)
            except CouldNotStart as error:
                self._attempts.could_not(key, error)
                return
            variables |= told
        failure = self.make(command, launch, variables, client)
        if failure is not None:
            self._attempts.could_not(key, failure)

    def client(self, command: cmd.Start | cmd.StartAttached, env: dict[str, str]) -> Client | None:
        """The attempt as a client of MPS; None if it can't start yet, or (told here) at all."""
        found = self._attempts.mps.come(command, env, self._attempts.clients())
        if isinstance(found, CantStart):
            gpu = (command.labels or command.gpus)[0]
            why = f"MPS can't be started on GPU {gpu}: {found.why}"
            failure = CouldNotStart(why, found.short)
            self._attempts.could_not((command.job_id, command.attempt), failure)
        return found if isinstance(found, Client) else None

    def make(
        self,
        command: cmd.Start,
        launch: Launch,
        variables: Mapping[str, str],
        client: Client | None = None,
        intend: Callable[..., None] | None = None,
    ) -> CouldNotStart | None:
        """Make the process of an attempt; if that can't be done, why.

        `intend` tells the ledger that it is about to be made; the default is its own `intend`.
        """
        key = (command.job_id, command.attempt)
        try:
            if launch.out is not None or launch.err is not None:
                launch = with_files(launch, *key)
            if command.resumes is not None:
                directory = checkpoint_text(self._attempts.root, key[0], launch.point)
                try:
                    make_checkpoint_dir(directory)
                except FileNotFoundError:  # Parents are made, except for what a link leads to.
                    away = f"{directory} can't be made; is its disk mounted?"
                    raise CouldNotStart(away, Shortage(away, alone=True)) from None
                except OSError as error:
                    raise could_not(error, directory) from None
            words = command_line(launch, command.labels or command.gpus)
            log = log_text(self._attempts.root, *key)
            intend = intend or partial(self._ledger.intend, key)
            spec = StartSpec(words, launch, command, variables, log, intend)
            made = self.warm_servers.made(spec, self._ledger)
            ticks_before = ticks_since_boot()
            if made is None:
                env = self._encoder.encoded(launch, command, variables)
                intend()
                note = self._ledger.note_for(key)
                made = self._spawner.spawn(words, env, launch, log, command.attempt, note)
            process, pidfd = self._spawner.known(made, ticks_before)
        except (CouldNotStart, OSError, ValueError) as error:
            with suppress(OSError):
                self._ledger.withdraw()
            if isinstance(error, CouldNotStart):
                return error
            if isinstance(error, OSError):
                return could_not(error, str(self._ledger.path))
            return CouldNotStart(str(error))  # What the system's encoding can't express.
        self._ledger.record_soon(key, process)
        watch, now_ms = self._reaping.watch, self._attempts.now_ms
        running = watch(key, process, True, True, command.grace_ms, client, command, pidfd)
        if made.underway is None or running is None:
            self._attempts.tell(ev.AttemptStarted(now_ms, *key, made.pid))
        else:
            running.loading = Loading(made.underway, words[0], now_ms)
            self._reaping.loading[key] = running
        return None
