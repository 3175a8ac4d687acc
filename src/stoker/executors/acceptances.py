"""Who may start an attached attempt: one file in its directory, which can be made only once.

The client to which an attempt was granted *accepts* it before it lets the process begin; the daemon
*voids* a grant that it takes back. Both make the same name, `pid`, by link(2), which fails if the
name is there: the first to come has decided, however late, stopped or dead the other one is.

| content                      | meaning                                                         |
|------------------------------|-----------------------------------------------------------------|
| PID START NAMESPACE BOOT SID | accepted: the process, as the client's PID namespace has it     |
| `void`                       | no client may start it any more                                 |
| `failed` WHY                 | its client could not start it, or died before it did            |
| anything else                | accepted, by a machine that went down before it was on the disk |
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from stoker.core.model import Cause
from stoker.executors.attempt_dir import make_attempt_dir
from stoker.executors.ledger import Key
from stoker.executors.processes import CANT_LOOK, ProcessId
from stoker.machine import boot_id
from stoker.wholefile import write_whole

_NAME = "pid"
# Written by a process that was to become the job, and saw its client die first (cli/attached.py).
_TERMINAL_GONE = "its terminal was gone"
_MOST_BYTES = 1_000


@dataclass(frozen=True, slots=True)
class Accepted:
    """A client has made the process, which begins, or has begun, or is over."""

    process: ProcessId
    namespace: int | None = None  # the inode of its PID namespace; None: a client that told none
    this_boot: bool = True
    session: int = 0  # in which it begins: that of its terminal


@dataclass(frozen=True, slots=True)
class Void:
    """No client may start it."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A client accepted it and could not start it."""

    why: str

    @property
    def cause(self) -> Cause:
        """Whose fault that is: the command's, or that of a client which was killed."""
        return Cause.TERMINAL_GONE if self.why == _TERMINAL_GONE else Cause.NOT_STARTED


@dataclass(frozen=True, slots=True)
class Torn:
    """It was accepted, and it is not known by which process."""


Acceptance = Accepted | Void | Failed | Torn


def read_acceptance(directory: str) -> Acceptance | None:
    """What was decided, if anything was; raises OSError if that can't be told now."""
    try:
        with open(f"{directory}/{_NAME}", "rb") as file:
            text = file.read(_MOST_BYTES).decode("utf-8", errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in CANT_LOOK:
            raise
        return Torn()  # It is there; nothing may be concluded from what can't be read.
    return _acceptance_of(text) if text.endswith("\n") else Torn()


def _acceptance_of(text: str) -> Acceptance:
    match text.split():
        case ["void"]:
            return Void()
        case ["failed", *_]:
            return Failed(text.split(maxsplit=1)[1].strip() if " " in text else "no reason given")
        case [pid, start] if pid.isdecimal() and start.isdecimal():
            return Accepted(ProcessId(int(pid), int(start)))
        case [pid, start, space, boot, session] if (pid + start + space + session).isdecimal():
            process = ProcessId(int(pid), int(start))
            return Accepted(process, int(space), boot == boot_id(), int(session))
    return Torn()


def void(directory: str) -> Acceptance:
    """Take a grant back, unless it was accepted: what is decided now. OSError: nothing is yet."""
    found = read_acceptance(directory)
    if found is not None:
        return found
    make_attempt_dir(directory)
    prepared = prepared_void(directory)
    try:
        # On a full disk there is still room for another name of a file.
        os.link(prepared, f"{directory}/{_NAME}")
        return Void()
    except FileExistsError:
        return read_acceptance(directory) or Torn()
    except OSError:
        pass  # It could not be prepared, or has as many names as a file can have.
    temporary = f"{directory}/void.{os.getpid()}"
    try:
        write_whole(temporary, b"void\n", flush=True)
        os.link(temporary, f"{directory}/{_NAME}")
    except FileExistsError:
        return read_acceptance(directory) or Torn()
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
    return Void()


def prepared_void(directory: str) -> str:
    """A file beside all attempts that says `void`, to be linked where that is to be said."""
    return os.path.join(os.path.dirname(os.path.dirname(directory)), "void")


class AcceptanceFiles:
    """The acceptances of all attempts."""

    def __init__(self, path_of: Callable[[Key], str]) -> None:
        self._path_of = path_of
        with suppress(OSError):  # Each is written on its own then.
            prepared = prepared_void(path_of((0, 0)))
            if not os.path.exists(prepared):
                write_whole(prepared, b"void\n", flush=True)

    def read(self, key: Key) -> Acceptance | None:
        """See Acceptances."""
        return read_acceptance(self._path_of(key))

    def void(self, key: Key) -> Acceptance:
        """See Acceptances."""
        return void(self._path_of(key))
