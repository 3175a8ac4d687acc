"""The files of calls: what is to be called, and what came of it.

Each submitting process has a directory of its own, mode 0700, and holds the lock in it as long as
it lives. In it are, for each call, `N.call` (the submitter's path and the pickled call),
`N.call.prepared` (the same between two steps of a worker) and `N.call.ATTEMPT.result`. `jobs` says
which call is that of which job, `groups` in which groups they were queued; the daemon writes `cold`
if calls can't be warm.

Law: what is queued belongs to the daemon. A call's files are deleted by its submitter once its job
is final and its result was read, or if the daemon refused it; so a `.call` that is there when the
submitter leaves is one that a job may still need. What a process that has gone left behind is
deleted by a later one, when the daemon says that no job is still to make those calls.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import pickle
import shutil
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from stoker.api.paths import make_private
from stoker.command_lines import COLD
from stoker.errors import Failed
from stoker.locks import is_locked

_CALL = ".call"
_GROUPS, _JOBS = "groups", "jobs"


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
        # A process that cleans up after others must never see a directory that is not locked yet.
        hidden = os.path.join(root, "." + self.name)
        os.mkdir(hidden, 0o700)
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC
        self._lock = os.open(os.path.join(hidden, "lock"), flags, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        os.rename(hidden, self.directory)
        self._numbers = itertools.count(1)
        self._groups: set[str] = set()

    def close(self) -> None:
        """Let go of the lock, and of the directory if no call in it can still be needed."""
        if not _calls_in(self.directory):
            shutil.rmtree(self.directory, ignore_errors=True)
        os.close(self._lock)

    def note_groups(self, groups: Iterable[str]) -> None:
        """Jobs are about to be queued in these groups: by them they are found if we end now."""
        new = [group for group in dict.fromkeys(groups) if group not in self._groups]
        if new:
            self._append(_GROUPS, "".join(f"{group}\n" for group in new))
            self._groups.update(new)

    def note_jobs(self, files: Iterable[str], job_ids: Iterable[int]) -> None:
        """These calls are those of these jobs, whatever group they may be moved to."""
        pairs = zip(files, job_ids, strict=True)
        text = "".join(f"{os.path.basename(file)} {job_id}\n" for file, job_id in pairs)
        with suppress(Failed):  # They are queued, and are found by their group.
            self._append(_JOBS, text)

    def _append(self, name: str, text: str) -> None:
        try:
            with open(os.path.join(self.directory, name), "a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise _cant_be_written(error) from None

    def write(self, call: bytes) -> str:
        """Put a pickled call down; the path of its file."""
        path = os.path.join(self.directory, f"{next(self._numbers)}{_CALL}")
        header = pickle.dumps({"path": sys.path, "argv": sys.argv})
        try:
            fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(header)
                file.write(call)
        except OSError as error:
            self.forget(path)
            raise _cant_be_written(error) from None
        return path

    def why_cold(self, modules: str) -> str | None:
        """Why calls that were to have these modules from the start do not; None if they may."""
        for line in _lines(self.directory, COLD):
            named, _, why = line.partition("\t")
            if named == modules:
                return why
        return None

    def forget(self, path: str, attempts: int = 0) -> None:
        """Delete the files of a call of which so many attempts were made."""
        results = [f"{path}.{number}.result" for number in range(1, attempts + 1)]
        for name in (path, f"{path}.prepared", *results):
            with suppress(OSError):  # What can't be deleted stays.
                os.unlink(name)


def _cant_be_written(error: OSError) -> Failed:
    return Failed(f"the call can't be written: {error.strerror}", "make room")


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


class Unfinished(Protocol):
    """What is asked of the daemon before anything of others is deleted."""

    def calls_of_jobs(self, job_ids: list[int]) -> Iterable[str]:
        """The files of calls that these jobs have yet to make."""

    def calls_of_group(self, group: str) -> Iterable[str]:
        """The files of calls that the jobs of a group have yet to make."""


def clear_after_others(root: str, unfinished: Unfinished) -> None:
    """Delete what processes that have gone left behind, but for what is still to be called."""
    try:
        names = os.listdir(root)
    except FileNotFoundError:
        return
    for name in names:
        directory = os.path.join(root, name)
        if name.startswith(".") or not _is_abandoned(directory):
            continue
        if not _is_needed(directory, unfinished):
            shutil.rmtree(directory, ignore_errors=True)


def _is_needed(directory: str, unfinished: Unfinished) -> bool:
    left = _calls_in(directory)
    if not left:
        return False
    owners = [line.partition(" ") for line in _lines(directory, _JOBS)]
    job_ids = [int(owner) for name, _, owner in owners if name in left and owner.isdecimal()]
    groups = _lines(directory, _GROUPS)
    needed = itertools.chain(
        unfinished.calls_of_jobs(job_ids) if job_ids else (),
        itertools.chain.from_iterable(map(unfinished.calls_of_group, groups)),
    )
    # By name: the same directory may have been reached by another path.
    name = os.path.basename(directory)
    return any(os.path.basename(os.path.dirname(path)) == name for path in needed)


def _calls_in(directory: str) -> set[str]:
    """The names of the calls that are not done with."""
    try:
        return {name for name in os.listdir(directory) if name.endswith(_CALL)}
    except OSError:
        return set()


def _lines(directory: str, name: str) -> list[str]:
    """The whole lines of a file; the last one may be cut off by the end of its writer."""
    try:
        with open(os.path.join(directory, name), encoding="utf-8") as file:
            return [line.rstrip("\n") for line in file if line.endswith("\n")]
    except FileNotFoundError:
        return []


def _is_abandoned(directory: str) -> bool:
    lock = os.path.join(directory, "lock")
    try:
        return os.path.exists(lock) and not is_locked(lock)
    except OSError:
        return False
