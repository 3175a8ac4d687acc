"""Tells users of ends: hands what is in the outbox to a sender, one batch at a time.

The sender is a process of its own (stoker.notify.main), so that neither the network nor a hook is
ever waited for in the loop that starts jobs. It outlives the daemon, and its journal says what it
has done; only then is a notice deleted. Nothing here touches a job.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from stoker import command_lines
from stoker.api.paths import make_private
from stoker.daemon import companions, settings
from stoker.daemon.addresses import addresses, quiet_until_ms
from stoker.daemon.requests.ls import shown_jobs
from stoker.errors import StokerError
from stoker.executors.environment import inherited, of_job
from stoker.notify.journal import HOOK, Record, known_as
from stoker.ports import Sighting, StoreFailed
from stoker.store.outbox import LOST_GPUS, Notice

if TYPE_CHECKING:
    from stoker.core.model import Launch
    from stoker.daemon.main import Daemon

log = logging.getLogger("stoker.daemon")

_AT_A_TIME = 20
_FIRST_PAUSE_MS = 2_000
_LONGEST_PAUSE_MS = 3_600_000
_GIVEN_UP_AFTER_MS = 7 * 24 * 3_600_000
# A group is looked at when one of its jobs has ended, but not again and again where thousands do,
# and now and then for those that leave it otherwise.
_GROUPS_EVERY_S = 1.0
_GROUPS_AT_LEAST_EVERY_S = 30.0
_REST_FACTOR = 100
_AFTER_TROUBLE_S = 5.0
_LONGEST_SLEEP_S = 3_600.0


class Notices:
    """At most one sender at a time."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._outbox = daemon.store.outbox
        self._directory = Path(daemon.home.root, "notify")
        self._timer: asyncio.TimerHandle | None = None
        self._sender: int | None = None  # its pidfd
        self._handed: list[Notice] = []
        self._handed_to: list[str] = []
        self._groups_after_s = 0.0
        self._seen: Sighting | None = None
        self._lost: list[str] = json.loads(daemon.store.settings().get(LOST_GPUS) or "[]")

    def look(self) -> None:
        """After each turn: see whether there is something to tell."""
        sighting = self._daemon.inventory.observe()
        if sighting is not self._seen:
            self._seen = sighting
            self._look_at_gpus(sighting)
        if self._outbox.has_news:
            self._outbox.has_news = False
            self._sleep(0.0)

    def close(self) -> None:
        """The daemon ends; a sender that is at work finishes that by itself."""
        if self._timer is not None:
            self._timer.cancel()
        if self._sender is not None:
            os.close(self._sender)

    def wake(self) -> None:
        """The settings have changed."""
        self._outbox.has_news = True

    # ------------------------------------------------------------------ what there is to tell

    def _urls(self) -> list[str]:
        return addresses(settings.value_of("notify", self._daemon.store.settings()))

    def _look_at_gpus(self, sighting: Sighting) -> None:
        """Tell once of each GPU that is lost, however often the daemon is replaced meanwhile."""
        seen = {gpu.id: gpu for gpu in sighting.gpus or ()}
        lost = [i for i in self._lost if i not in seen or seen[i].lost]
        new = [gpu for gpu in seen.values() if gpu.lost and gpu.id not in self._lost]
        if not new and lost == self._lost:
            return
        lost += [gpu.id for gpu in new]
        shown = self._daemon.turn_loop.state.shown_gpus
        told = [(shown([gpu.id])[0], gpu.fault) for gpu in new] if self._urls() else []
        try:
            self._outbox.note_gpus(lost, told, self._daemon.clock.now_ms())
        except StoreFailed as failure:
            log.warning("a lost GPU can't be noted: %s", failure)
            self._seen = None
            return
        self._lost = lost

    def _close_groups(self) -> float | None:
        """Note which groups have ended; in how many seconds to look again, if there are others."""
        now_s = time.monotonic()
        names = self._outbox.open_groups()
        if not names:
            return None
        if now_s < self._groups_after_s:
            return self._groups_after_s - now_s
        at_ms = self._daemon.clock.now_ms()
        still_open = [name for name in names if not self._outbox.close_group(name, at_ms)]
        took_s = time.monotonic() - now_s
        self._groups_after_s = now_s + took_s + max(_GROUPS_EVERY_S, _REST_FACTOR * took_s)
        return _GROUPS_AT_LEAST_EVERY_S if still_open else None

    # ------------------------------------------------------------------ sending

    def _sleep(self, seconds: float) -> None:
        """Go on in so many seconds, or sooner."""
        loop = asyncio.get_running_loop()
        when_s = loop.time() + min(seconds, _LONGEST_SLEEP_S)
        if self._timer is not None:
            if self._timer.when() <= when_s:
                return
            self._timer.cancel()
        self._timer = loop.call_at(when_s, self._go_on)

    def _go_on(self) -> None:
        self._timer = None
        try:
            self._work()
        except (OSError, StoreFailed, StokerError) as error:
            log.warning("messages can't be sent now: %s", error)
            self._sleep(_AFTER_TROUBLE_S)

    def _work(self) -> None:
        groups_in_s = self._close_groups()
        if groups_in_s is not None:
            self._sleep(groups_in_s)
        if self._sender is not None:
            return  # Its end is heard.
        now_ms, urls = self._daemon.clock.now_ms(), self._urls()
        hours = settings.value_of("notify.quiet", self._daemon.store.settings())
        quiet_ms = quiet_until_ms(hours, now_ms)
        if not urls:
            self._outbox.drop_messages()
        due = self._outbox.due(now_ms, quiet_ms is not None, _AT_A_TIME)
        if due and not self._settle(due, urls, Record(self._directory / "journal"), tried=False):
            self._hand_over(due, urls)
            return
        self._outbox.has_news = False
        next_ms, _ = self._outbox.next_ms(quiet_ms is not None)
        moments = [ms for ms in (next_ms, quiet_ms) if ms is not None]
        if moments:
            self._sleep(max(0.0, (min(moments) - now_ms) / 1000))

    def _settle(self, some: list[Notice], urls: list[str], record: Record, *, tried: bool) -> bool:
        """Delete what is done. What was tried and is not done comes later: True if any is over."""
        now_ms = self._daemon.clock.now_ms()
        done, again = [], []
        for notice in some:
            to = [HOOK] if notice.what == "hook" else [known_as(url) for url in urls]
            left = [one for one in to if not record.is_done(notice.id, one)]
            if not left:
                done.append(notice.id)
            elif tried:
                why = record.why.get((notice.id, left[0])) or "the sender was killed"
                if now_ms - notice.at_ms > _GIVEN_UP_AFTER_MS:
                    log.warning("a message of %s %s is given up: %s", *notice[1:3], why)
                    done.append(notice.id)
                    continue
                pause_ms = min(_FIRST_PAUSE_MS << min(notice.tries, 20), _LONGEST_PAUSE_MS)
                again.append((notice.id, now_ms + pause_ms))
                log.warning("a message of %s %s was not sent: %s", *notice[1:3], why)
        if done or again:
            self._outbox.settle(done, again)
        return bool(done or again)

    def _hand_over(self, some: list[Notice], urls: list[str]) -> None:
        """Start a sender for these."""
        make_private(str(self._directory))
        _, oldest = self._outbox.next_ms(False)
        batch = {"urls": urls, "floor": oldest or 0, "notices": [self._told(n) for n in some]}
        # In memory, and in no argument: there are passwords in it.
        fd = os.memfd_create("stoker-notices")
        try:
            with open(fd, "wb", closefd=False) as file:
                file.write(msgspec.json.encode(batch))
            os.lseek(fd, 0, os.SEEK_SET)
            command = command_lines.sender(str(self._directory))
            self._sender = companions.start(command, self._daemon.home.root, fd)
        finally:
            os.close(fd)
        self._handed, self._handed_to = some, urls
        asyncio.get_running_loop().add_reader(self._sender, self._ended)

    def _ended(self) -> None:
        assert self._sender is not None
        asyncio.get_running_loop().remove_reader(self._sender)
        os.waitid(os.P_PIDFD, self._sender, os.WEXITED)
        os.close(self._sender)
        self._sender = None
        self._sleep(0.0)
        try:
            record = Record(self._directory / "journal")
            self._settle(self._handed, self._handed_to, record, tried=True)
        except (OSError, StoreFailed) as error:
            log.warning("it can't be noted which messages were sent: %s", error)

    def _told(self, notice: Notice) -> dict[str, Any]:
        """A notice with what the sender has to know of its job, as it was when it ended."""
        told: dict[str, Any] = {**notice._asdict(), "job": None}
        job_id = notice.subject if notice.what != "group" else notice.body.get("first_failed")
        if notice.what == "gpu" or job_id is None:
            return told
        daemon = self._daemon
        found = shown_jobs(daemon, [int(job_id)])
        if found:
            job = told["job"] = found[0]
            if notice.what != "group":  # It may have been retried since.
                names = ("state", "reason", "attempt", "exit_code", "signal")
                job |= {name: notice.body[name] for name in names}
                job["ended_at_ms"] = notice.at_ms
        if notice.what == "hook":
            told |= {"cwd": "/", "env": dict(os.environ)}
            if found:
                launch = daemon.store.launch(int(job_id))
                told |= {"cwd": launch.cwd, "env": _environment(launch, found[0])}
        return told


def _environment(launch: Launch, job: dict[str, Any]) -> dict[str, str]:
    """The environment of a hook: the job's, and which job it was.

    Not what marks the processes of an attempt, which end with it, nor its GPUs, which others have.
    """
    return {
        **inherited(launch.env, bool(launch.options.get("env_all"))),
        **launch.extra_env,
        "PWD": launch.cwd,
        "STOKER_JOB_ID": str(job["id"]),
        "STOKER_ATTEMPT": str(job["attempt"]),
        **of_job(launch, job["group"]),
    }
