"""The files of calls: what is to be called, and what came of it.

Each submitting process has a directory of its own, mode 0700, and holds the lock in it as long as
it lives. In it are, for each call, `N.call` (the submitter's path and the pickled call),
`N.call.prepared` (the same between two steps of a worker) and `N.call.ATTEMPT.result`. A result is
read once and then deleted. What a process that has gone left behind is deleted by the next one.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import pickle
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from stoker.api.paths import make_private
from stoker.errors import Failed


@dataclass(frozen=True, slots=True)
class Result:
    """What a call gave: a value, or an error with its traceback as text."""

    ok: bool
    value: Any
    text: str = ""
    summary: str = ""


class Calls:
    """The directory of one process under `root`.

    The root itself is private, or else (a folder that the user named) as the user has it: then a
    worker still takes no call from a file that is not its own user's.
    """

    def __init__(self, root: str, *, private_root: bool = True) -> None:
        if private_root:
            make_private(root)
        else:
            os.makedirs(root, exist_ok=True)
        self.name = os.urandom(6).hex()
        self.directory = os.path.join(root, self.name)
        # Whoever clears away after others must never see a directory that is not locked yet.
        hidden = os.path.join(root, "." + self.name)
        os.mkdir(hidden, 0o700)
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC
        self._lock = os.open(os.path.join(hidden, "lock"), flags, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        os.rename(hidden, self.directory)
        self._numbers = itertools.count(1)
        self._groups: set[str] = set()

    def close(self) -> None:
        """Delete the directory, and let go of the lock."""
        shutil.rmtree(self.directory, ignore_errors=True)
        os.close(self._lock)

    def note_group(self, group: str) -> None:
        """Jobs of this process are in this group: by it they are found again after its end."""
        if group not in self._groups:
            self._groups.add(group)
            with open(os.path.join(self.directory, "groups"), "a", encoding="utf-8") as file:
                file.write(group + "\n")

    def write(self, call: bytes) -> str:
        """Put a pickled call down; the path of its file."""
        path = os.path.join(self.directory, f"{next(self._numbers)}.call")
        header = pickle.dumps({"path": sys.path, "argv": sys.argv})
        try:
            fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(header)
                file.write(call)
        except OSError as error:
            self.forget(path)
            raise Failed(f"the call can't be written: {error.strerror}", "make room") from None
        return path

    def forget(self, path: str, attempts: int = 0) -> None:
        """Delete the files of a call of which so many attempts were made."""
        results = [f"{path}.{number}.result" for number in range(1, attempts + 1)]
        for name in (path, f"{path}.prepared", *results):
            try:
                os.unlink(name)
            except FileNotFoundError:
                pass


def read_result(path: str, attempt: int) -> Result | None:
    """What an attempt of a call put down; None if it came to no end of its own."""
    try:
        file = open(f"{path}.{attempt}.result", "rb")  # noqa: SIM115
    except FileNotFoundError:
        return None
    with file:
        header = pickle.load(file)
        try:
            value = pickle.load(file)
        except Exception as error:
            if header["ok"]:
                error.add_note("the call succeeded, but its result can't be unpickled here")
                return Result(False, error, "", str(error))
            value = None
    return Result(header["ok"], value, header.get("text", ""), header.get("repr", ""))


def clear_after_others(root: str, unfinished: Callable[[str], Iterable[str]]) -> None:
    """Delete what processes that have gone left behind, but for what is still to be called.

    `unfinished` gives the files of calls that jobs of a group have yet to make.
    """
    try:
        names = os.listdir(root)
    except FileNotFoundError:
        return
    for name in names:
        directory = os.path.join(root, name)
        if name.startswith(".") or not _is_abandoned(directory):
            continue
        try:
            with open(os.path.join(directory, "groups"), encoding="utf-8") as file:
                groups = file.read().splitlines()
        except FileNotFoundError:
            groups = []
        needed = {path for group in groups for path in unfinished(group)}
        if not any(path.startswith(directory + "/") for path in needed):
            shutil.rmtree(directory, ignore_errors=True)


def _is_abandoned(directory: str) -> bool:
    try:
        lock = os.open(os.path.join(directory, "lock"), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True
