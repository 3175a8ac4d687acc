"""What was sent: an append-only file of the sender's own, so that nothing is told twice.

"sending" is on disk before a message leaves, and "sent" or "failed" after it. One process at a time
writes it, under a lock; the daemon reads it. Notices below the `floor` are done, and not kept here.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path

from stoker.wholefile import write_whole

HOOK = "hook"  # instead of an address
SENDING, SENT, FAILED = "sending", "sent", "failed"
_WRITE_AGAIN_S = 1.0

Key = tuple[int, str]
"""A notice, and the address that it goes to."""


def known_as(url: str) -> str:
    """An address, which may have a password in it, as the journal has it."""
    return hashlib.sha256(url.encode()).hexdigest()[:16]


class Record:
    """What a journal says: what became of each notice at each address, and why it failed."""

    def __init__(self, path: Path) -> None:
        self.floor = 0
        self.did: dict[Key, str] = {}
        self.why: dict[Key, str] = {}
        try:
            lines = path.read_bytes().splitlines()
        except FileNotFoundError:
            lines = []
        for line in lines:
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # It was cut off: what it says had not begun.
            if "floor" in entry:
                self.floor = entry["floor"]
            else:
                key = (entry["id"], entry["to"])
                self.did[key], self.why[key] = entry["did"], entry.get("why", "")

    def is_done(self, notice: int, to: str) -> bool:
        """Whether nothing is left to do."""
        return notice < self.floor or self.did.get((notice, to)) == SENT


class Journal(Record):
    """The same for the one process that writes it."""

    def __init__(self, path: Path, floor: int) -> None:
        """`floor`: the oldest notice that is not done, as far as the daemon knows."""
        super().__init__(path)
        if floor > self.floor:
            self.floor = floor
            kept = [key for key in self.did if key[0] >= floor]
            self.did = {key: self.did[key] for key in kept}
            lines = [_line(key, self.did[key], self.why[key]) for key in kept]
            text = "".join([json.dumps({"floor": floor}) + "\n", *lines])
            write_whole(str(path), text.encode(), flush=True)
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def begin(self, key: Key) -> None:
        """It is about to be sent. Raises OSError if that can't be put on record: then it is not."""
        self._write(key, SENDING, "")

    def end(self, key: Key, why: str | None) -> None:
        """It was sent or, with a reason, it was not. On a full disk that waits: it is the truth."""
        while True:
            try:
                return self._write(key, SENT if why is None else FAILED, why or "")
            except OSError:
                time.sleep(_WRITE_AGAIN_S)

    def _write(self, key: Key, did: str, why: str) -> None:
        # What was cut off before must not be one line with this.
        line = f"\n{_line(key, did, why)}".encode()
        if os.write(self._fd, line) != len(line):
            raise OSError("the disk took only a part of it")
        os.fdatasync(self._fd)
        self.did[key], self.why[key] = did, why


def _line(key: Key, did: str, why: str) -> str:
    entry = {"id": key[0], "to": key[1], "did": did, **({"why": why} if why else {})}
    return json.dumps(entry) + "\n"
