"""The process that reads metrics beside the daemon: `python -m stoker.metrics.reader HOME`.

Its stdin is a socket to the daemon, with JSON lines. `read`: attempts to be read (see Spec). One
that has ended is read to its end; any other is followed from then on, about once a second, until
the daemon says that it has ended. `removed`: some jobs were removed. It answers `done`: job,
attempt and whether it was read to its end, of each that was stored for the first time or has ended.

It ends when the daemon does. What it had not stored by then is read again by the next.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import socket
import sqlite3
import sys
import time
import traceback
from collections import deque
from collections.abc import Iterable

from stoker.errors import Failed
from stoker.metrics.attempt import Reading
from stoker.metrics.kept import Kept, is_damage, move_away
from stoker.metrics.spec import Key, Spec

EVERY_S = 1.0
_FAR_EVERY = 10  # of these passes, for what is on a file system that many machines use
_NICENESS = 10  # Jobs, and the daemon that starts them, come first.
_MOST_AT_A_TIME = 8 << 20  # bytes of a log, before others have their turn
_STORE_EVERY_S = 0.5
_MOST_UNSTORED = 200


class DaemonGone(Exception):
    """There is no daemon any more to read for."""


class Reader:
    """Reads what it is told, and stores it."""

    def __init__(self, kept: Kept, jobs_database: str, daemon: socket.socket) -> None:
        self._kept = kept
        self._jobs_database = jobs_database
        self._daemon = daemon
        self._received = b""
        self._followed: dict[Key, Reading] = {}
        self._new: set[Key] = set()  # of these, those that were never stored
        self._ended: deque[Spec] = deque()
        self._under_way: Reading | None = None  # the first of those that have ended
        self._unstored: list[Reading] = []  # that were read to their end
        self._next_pass_s = 0.0
        self._next_store_s = 0.0
        self._failing = False  # to store
        self._passes = 0

    def run(self) -> None:
        """Read until the daemon ends."""
        self._forget_removed()
        try:
            while True:
                self._listen()
                self._work()
        except DaemonGone:
            return

    # ------------------------------------------------------------------ the daemon

    def _listen(self) -> None:
        next_s = [self._next_pass_s] if self._followed else []
        next_s += [self._next_store_s] if self._unstored else []
        rest_s = max(0.0, min(next_s) - time.monotonic()) if next_s else None
        if self._ended or self._under_way is not None:
            rest_s = 0.0
        while select.select([self._daemon], [], [], rest_s)[0]:
            piece = self._daemon.recv(1 << 20)
            if not piece:
                raise DaemonGone
            *lines, self._received = (self._received + piece).split(b"\n")
            for line in lines:
                self._take(json.loads(line))
            rest_s = 0.0

    def _take(self, message: dict[str, object]) -> None:
        specs = message.get("read")
        for fields in specs if isinstance(specs, list) else ():
            self._read(Spec(**fields))
        if "removed" in message:
            self._forget_removed()

    def _read(self, spec: Spec) -> None:
        if spec.ended:
            self._ended.append(spec)
        elif spec.key not in self._followed:
            self._followed[spec.key] = self._reading(spec)
            self._new.add(spec.key)
            self._next_pass_s = 0.0

    def _reading(self, spec: Spec) -> Reading:
        """One that goes on where it was stored."""
        reading = Reading(spec)
        try:
            self._kept.go_on(reading)
        except (ValueError, KeyError, TypeError):
            return Reading(spec)  # It was stored by another version.
        return reading

    def _say_done(self, readings: Iterable[Reading]) -> None:
        done = [(*reading.spec.key, reading.whole) for reading in readings]
        line = json.dumps({"done": done}).encode() + b"\n"
        try:
            self._daemon.sendall(line)
        except OSError:
            raise DaemonGone from None

    def _forget_removed(self) -> None:
        try:
            self._kept.forget_removed(self._jobs_database)
        except sqlite3.Error as error:
            if is_damage(error):
                raise
            traceback.print_exc()  # It is done at the next start.

    # ------------------------------------------------------------------ reading

    def _work(self) -> None:
        """Read a bit of what has ended, and now and then of what is followed."""
        if self._under_way is None and self._ended:
            spec = self._ended.popleft()
            self._new.discard(spec.key)
            self._under_way = self._followed.pop(spec.key, None) or self._reading(spec)
        if self._under_way is not None and not self._read_on(self._under_way, ended=True):
            self._unstored.append(self._under_way)
            self._under_way = None
        now_s = time.monotonic()
        if self._followed and now_s >= self._next_pass_s:
            self._pass(now_s)
        is_last = self._under_way is None and not self._ended
        if now_s >= self._next_store_s or is_last or len(self._unstored) >= _MOST_UNSTORED:
            self._store_ended()

    def _store_ended(self) -> None:
        """Store what was read to its end, and how far the one is that is under way."""
        under_way = [] if self._under_way is None else [self._under_way]
        if self._unstored and self._store([*self._unstored, *under_way]):
            self._say_done(self._unstored)
            self._unstored.clear()
        elif under_way:
            self._store(under_way)
        self._next_store_s = time.monotonic() + _STORE_EVERY_S

    def _pass(self, began_s: float) -> None:
        """Read what is new of all that is followed; it then rests for as long as that took."""
        self._passes += 1
        due = [
            reading
            for key, reading in self._followed.items()
            if key in self._new or not reading.spec.far or self._passes % _FAR_EVERY == 0
        ]
        more = [reading.spec.key for reading in due if self._read_on(reading, ended=False)]
        done = self._new.difference(more)
        if self._store(due) and done:
            self._say_done(self._followed[key] for key in done)
            self._new -= done
        took_s = time.monotonic() - began_s
        self._next_pass_s = began_s + took_s + (took_s if more else max(EVERY_S - took_s, took_s))

    def _read_on(self, reading: Reading, *, ended: bool) -> bool:
        try:
            return reading.read(_MOST_AT_A_TIME, ended=ended)
        except Exception as error:  # Whatever is in a log, the others are read.
            traceback.print_exc()
            what = f"its metrics can't be read: {type(error).__name__}"
            reading.trouble = Failed(what, "see the daemon's log")
            reading.whole = ended
            return False

    def _store(self, readings: Iterable[Reading]) -> bool:
        try:
            self._kept.store(readings)
        except sqlite3.Error as error:
            if is_damage(error):
                raise
            if not self._failing:  # What is kept stays, and this is tried again.
                print(f"metrics can't be stored now: {error}", file=sys.stderr)
            self._failing = True
            return False
        self._failing = False
        return True


def main() -> int:
    """See the module."""
    home = sys.argv[1]
    os.nice(_NICENESS)
    lock = os.open(f"{home}/metrics.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)  # A reader of a daemon that was killed is about to end.
    path = f"{home}/metrics.db"
    try:
        kept = Kept(path)
        with socket.socket(fileno=0) as daemon:
            Reader(kept, f"{home}/stoker.db", daemon).run()
        kept.close()
    except sqlite3.DatabaseError as error:
        if is_damage(error):
            move_away(path)
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
