"""The files of calls: what is to be called, and what came of it.

Each submitting process has a directory of its own, mode 0700, and holds the lock in it as long as
it lives. What is in it is said in call_files.py; a `.call` has the submitter's path and the pickled
call. `groups` says in which groups they were queued; the daemon writes `cold` if calls can't be
warm.

Law: what is queued belongs to the daemon. It deletes the files of a call with its job, or when they
are old; the submitter deletes those that the daemon has refused. In a folder that the user named
there is no daemon that knows of them: there a call's files are deleted by its submitter once its
job is final and its result was read, and what a process that has gone left behind by a later one,
when the daemon says that no job is still to make those calls.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import pickle
import shutil
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from stoker import call_files
from stoker.api.paths import make_private
from stoker.call_files import CALL, LOCK, RESULT, Asked
from stoker.command_lines import COLD
from stoker.errors import Failed
from stoker.locks import is_locked

_GROUPS = "groups"


@dataclass(frozen=True, slots=True)
class Result:
    """What a call gave: a value, or an error with its traceback as text."""

    ok: bool
    value: Any
    text: str = ""
    summary: str = ""


class Calls:
    """The directory of one process under `root`.

    `keeps`: the daemon keeps what is in it, and the root is private. Else it is a folder that the
    user named, and as the user has it: then a worker still takes no call from a file that is not
    its own user's.
    """

    def __init__(self, root: str, *, keeps: bool = True) -> None:
        self.keeps = keeps
        if keeps:
            make_private(root)
        else:
            os.makedirs(root, exist_ok=True)
        self.name = os.urandom(6).hex()
        self.directory = os.path.join(root, self.name)
        # A process that cleans up after others must never see a directory that is not locked yet.
        hidden = os.path.join(root, "." + self.name)
        os.mkdir(hidden, 0o700)
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC
        self._lock = os.open(os.path.join(hidden, LOCK), flags, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        os.rename(hidden, self.directory)
        self.asked = Asked(self.directory)
        self._numbers = itertools.count(1)
        self._groups: set[str] = set()

    def close(self) -> None:
        """Let go of the lock, and of the directory if no call in it can still be needed."""
        if not _calls_in(self.directory):
            shutil.rmtree(self.directory, ignore_errors=True)
        self.asked.close()
        os.close(self._lock)

    def note_groups(self, groups: Iterable[str]) -> None:
        """Jobs are about to be queued in these groups: by them they are found if we end now."""
        new = [group for group in dict.fromkeys(groups) if group not in self._groups]
        if new:
            self._append(_GROUPS, "".join(f"{group}\n" for group in new))
            self._groups.update(new)

    def note_jobs(self, files: Iterable[str], job_ids: Iterable[int]) -> None:
        """These calls are those of these jobs, whatever group they may be moved to."""
        with suppress(OSError):  # They are queued, and are found by their group.
            call_files.note_jobs(self.directory, zip(files, job_ids, strict=True))

    def _append(self, name: str, text: str) -> None:
        try:
            with open(os.path.join(self.directory, name), "a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise _cant_be_written(error) from None

    def write(self, call: bytes, signals: Sequence[int] = ()) -> str:
        """Put a pickled call down, and ask for its result; the path of its file.

        `signals`: those that it has a checkpoint for.
        """
        path = os.path.join(self.directory, f"{next(self._numbers)}{CALL}")
        said = {"path": sys.path, "argv": sys.argv, "kept": self.keeps, "signals": list(signals)}
        header = pickle.dumps(said)
        self.asked.ask(path)
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
        for line in call_files.lines(os.path.join(self.directory, COLD)):
            named, _, why = line.partition("\t")
            if named == modules:
                return why
        return None

    def forget(self, path: str, attempts: int = 0) -> None:
        """Delete the files of a call of which so many attempts were made."""
        for name in call_files.files_of(path, attempts):
            with suppress(OSError):  # What can't be deleted stays.
                os.unlink(name)
        self.asked.done(path)


def _cant_be_written(error: OSError) -> Failed:
    return Failed(f"the call can't be written: {error.strerror}", "make room")


def read_result(path: str, attempt: int) -> Result | None:
    """What an attempt of a call put down; None if it came to no end of its own."""
    try:
        file = open(f"{path}.{attempt}{RESULT}", "rb")  # noqa: SIM115
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


def succeeded_attempt(path: str) -> int:
    """The number of the attempt of a call that has returned; 0 if there is none."""
    directory, base = os.path.split(path)
    numbers = (name[len(base) + 1 : -len(RESULT)] for name in _results_of(directory, base))
    for number in sorted(map(int, filter(str.isdecimal, numbers)), reverse=True):
        with suppress(Exception):
            found = read_result(path, number)
            if found is not None and found.ok:
                return number
    return 0


def _results_of(directory: str, base: str) -> list[str]:
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    return [name for name in names if name.startswith(base + ".") and name.endswith(RESULT)]


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
    owners = call_files.jobs_of(directory)
    job_ids = [owner for name, owner in owners.items() if name in left]
    groups = call_files.lines(os.path.join(directory, _GROUPS))
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
        return {name for name in os.listdir(directory) if name.endswith(CALL)}
    except OSError:
        return set()


def _is_abandoned(directory: str) -> bool:
    lock = os.path.join(directory, LOCK)
    try:
        return os.path.exists(lock) and not is_locked(lock)
    except OSError:
        return False
