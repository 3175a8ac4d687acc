"""What the jobs say of themselves: one record for each of their processes. See c/job.c."""

from __future__ import annotations

import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path

_LAYOUT = struct.Struct("<4s5i3q2i40s64s96x")
_MAGIC = b"TORT"
_ENDED_AT = 40  # the place of `ended_ns`, `code` and `signal` in a record
assert _LAYOUT.size == 256


@dataclass(frozen=True, slots=True)
class Record:
    """One process of one attempt; times are those of the monotonic clock."""

    role: str  # m: the main process, s: a child in its session, l: one that has left that
    job_id: int
    attempt: int
    pid: int
    parent: int  # when it began
    began_ns: int
    alive_ns: int  # it was alive then, for certain
    ended_ns: int  # 0 if it did not end by itself
    code: int  # with which it ended, or -1
    signal: int  # with which it ended itself, or 0
    token: str
    gpus: tuple[str, ...]

    @property
    def key(self) -> tuple[int, int]:
        """The attempt."""
        return self.job_id, self.attempt

    @property
    def last_ns(self) -> int:
        """The last moment at which it is known to have been there."""
        return max(self.alive_ns, self.ended_ns)


def read_records(path: Path) -> list[Record]:
    """All of them, in the order in which the processes began."""
    data = path.read_bytes()
    return [
        _record(fields)
        for fields in _LAYOUT.iter_unpack(data[: len(data) // _LAYOUT.size * _LAYOUT.size])
        if fields[0] == _MAGIC
    ]


def _record(fields: tuple[bytes, ...]) -> Record:
    _, role, job, attempt, pid, parent, began, alive, ended, code, number, token, gpus = fields
    return Record(
        chr(int(role)), int(job), int(attempt), int(pid), int(parent),
        int(began), int(alive), int(ended), int(code), int(number),
        _text(token), tuple(word for word in _text(gpus).split(",") if word),
    )  # fmt: skip


def _text(data: bytes) -> str:
    return data.split(b"\0")[0].decode("ascii", "replace")


class OwnRecord:
    """The record of a call of the library, which is its own process's."""

    def __init__(self, path: str, token: str) -> None:
        now_ns = time.monotonic_ns()
        environ = os.environ
        data = _LAYOUT.pack(
            _MAGIC, ord("m"), int(environ["STOKER_JOB_ID"]), int(environ["STOKER_ATTEMPT"]),
            os.getpid(), os.getppid(), now_ns, now_ns, 0, -1, 0,
            token.encode(), environ.get("STOKER_GPUS", "").encode(),
        )  # fmt: skip
        self._fd = os.open(path, os.O_RDWR | os.O_APPEND)
        os.write(self._fd, data)
        # The position after an append is the end of what was appended, whatever others append.
        self._at = os.lseek(self._fd, 0, os.SEEK_CUR) - _LAYOUT.size
        # Linux appends whatever is written through a descriptor with O_APPEND, at any place.
        self._write_fd = os.open(path, os.O_WRONLY)

    def end(self) -> None:
        """To be called last: the call returns."""
        data = struct.pack("<q2i", time.monotonic_ns(), 0, 0)
        os.pwrite(self._write_fd, data, self._at + _ENDED_AT)
        os.close(self._fd)
        os.close(self._write_fd)
