"""Cancels: each is given by a thread, which then asks for the job until its end was told.

The most dangerous moment is just after a job was placed: for an attached job it can be waited for.
"""

from __future__ import annotations

import random
import threading
import time
from typing import Any

from crash.torture.log import Cancel, Log
from stoker.api.client import Client
from stoker.errors import NotFound, StokerError
from stoker_home import FINAL, StokerHome

_ANSWERS_WITHIN_S = 5.0
_LOOK_AGAIN_S = 0.02
_FOLLOWED_FOR_S = 60.0
_PLACED_WITHIN_S = 15.0
_MOST = 40


class Hands:
    """All cancels that are under way."""

    def __init__(self, stoker: StokerHome, log: Log) -> None:
        self._stoker = stoker
        self._log = log
        self._threads: list[threading.Thread] = []
        self._leave = threading.Event()

    def are_full(self) -> bool:
        """Whether no more can be taken on."""
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        return len(self._threads) >= _MOST

    def cancel(self, token: str, chance: random.Random, *, once_running: bool) -> None:
        """Cancel the job of that name: now, or at the very moment when it is placed."""
        pauses = (chance.choice((0.002, 0.01)), chance.choice((0.0, 0.0, 0.001, 0.002, 0.005)))
        thread = threading.Thread(
            target=self._cancel, args=(token, pauses if once_running else None), daemon=True
        )
        self._threads.append(thread)
        thread.start()

    def finish(self) -> None:
        """Wait for all of them, who see the end of what they follow, or give up."""
        self._leave.set()
        for thread in self._threads:
            thread.join()

    def _cancel(self, token: str, pauses: tuple[float, float] | None) -> None:
        with Client(self._stoker.home, autostart=False) as client:
            if pauses is not None:
                why_not = self._until_placed(client, token, pauses[0])
                if why_not:
                    self._log.passed_over[f"cancel: {why_not}"] += 1
                    return
                time.sleep(pauses[1])
            cancel = Cancel(token, time.monotonic_ns())
            with self._log.lock:
                self._log.cancels.append(cancel)
            answer = _ask(client, "cancel", token)
            if answer is None:
                self._log.passed_over["cancel: not acknowledged"] += 1
                return
            cancel.acknowledged_ns = time.monotonic_ns()
            cancel.ids = tuple(answer["ids"])
            self._log.done["cancel"] += 1
            self._follow(client, cancel)

    def _until_placed(self, client: Client, token: str, pause_s: float) -> str:
        """Empty once it is placed; else why it will not be."""
        deadline = time.monotonic() + _PLACED_WITHIN_S
        while time.monotonic() < deadline and not self._leave.is_set():
            shown = _ask(client, "show", token)
            states = {job["state"] for job in shown["jobs"]} if shown else set()
            if states & {"running", "stopping"}:
                return ""
            if states and states <= FINAL:
                return "over too soon"
            time.sleep(pause_s if states else _LOOK_AGAIN_S)
        return "not placed in time"

    def _follow(self, client: Client, cancel: Cancel) -> None:
        """Ask until its end is told, and note when."""
        deadline = time.monotonic() + _FOLLOWED_FOR_S
        while cancel.told.keys() != set(cancel.ids):
            if time.monotonic() > deadline or self._leave.is_set():
                return
            time.sleep(_LOOK_AGAIN_S)
            shown = _ask(client, "show", cancel.token)
            now_ns = time.monotonic_ns()
            for job in shown["jobs"] if shown else ():
                if job["state"] in FINAL and job["id"] in cancel.ids:
                    cancel.told.setdefault(job["id"], (now_ns, job["state"]))


def _ask(client: Client, op: str, token: str) -> dict[str, Any] | None:
    """An answer, or None: there is no daemon, no such job, or it takes too long."""
    try:
        client.send(op, select={"names": [token]})
        return client.receive(_ANSWERS_WITHIN_S)
    except NotFound:
        return None
    except (StokerError, OSError):
        # An answer that comes late must not be taken for that to the next question.
        client.close()
        time.sleep(_LOOK_AGAIN_S)
        return None
