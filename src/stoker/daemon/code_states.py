"""Whether tracked files were changed in the repositories that jobs are queued in.

`git status` may take seconds, so it runs beside the daemon once the jobs are queued, and its answer
is written down when it comes. By then files may have changed: where it can't be told any more how
they were at the submission, nothing is claimed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from stoker.api.field_types import CodeAt
from stoker.core.code import Code
from stoker.ports import StoreFailed
from stoker.store.sqlite import SqliteStore
from stoker.submission.repositories import git_dir_of

log = logging.getLogger("stoker.daemon")

_LONGEST_S = 20.0
# A program that queues job after job does not keep git running all the time.
_BETWEEN_LOOKS_S = 0.2
_MOST_KEPT = 100
_STATUS = (
    # A repository may have been made by someone else: none of its programs is started.
    "git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null",
    "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=no", "--no-renames",
    "--ignore-submodules=dirty",
)  # fmt: skip
_WORDS_BEFORE_PATH = {b"1": 8, b"u": 10}


class CodeStates:
    """Gives numbers to what jobs were queued at, and looks at the repositories, one at a time."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._last = store.last_code()
        self._known: dict[CodeAt, Code] = {}  # The parts of a long submission share one.
        self._new: list[tuple[CodeAt, Code]] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="stoker-git")
        self._look: asyncio.Task[None] | None = None
        self._git: subprocess.Popen[bytes] | None = None
        self._closed = False

    def close(self) -> None:
        """Look no more; what was not told by now stays unknown."""
        self._closed = True
        if (git := self._git) is not None:
            _kill(git)
        self._thread.shutdown(wait=True, cancel_futures=True)

    def of(self, said: Mapping[str, CodeAt]) -> dict[str, Code]:
        """What a request says of directories, numbered."""
        return {directory: self._numbered(at) for directory, at in said.items()}

    def _numbered(self, at: CodeAt) -> Code:
        known = self._known.get(at)
        if known is None:
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            self._last += 1
            known = self._known[at] = Code(self._last, at.root, at.commit)
            self._new.append((at, known))
        return known

    def after_turn(self) -> None:
        """What was asked for is on record now: look, unless that is under way."""
        if self._new and (self._look is None or self._look.done()):
            self._look = asyncio.get_running_loop().create_task(self._look_at_all())

    async def _look_at_all(self) -> None:
        loop = asyncio.get_running_loop()
        while self._new and not self._closed:
            new, self._new = self._new, []
            by_root: dict[str, list[tuple[CodeAt, Code]]] = {}
            for at, code in new:
                by_root.setdefault(at.root, []).append((at, code))
            found: dict[int, bool] = {}
            for root, some in by_root.items():
                status = await loop.run_in_executor(self._thread, self._status, root)
                told = ((code.number, was_dirty(status, at)) for at, code in some if status)
                found |= {number: dirty for number, dirty in told if dirty is not None}
            try:
                if found:
                    self._store.set_dirty(found)
            except StoreFailed as failure:
                log.warning("can't note whether code was changed: %s", failure)
            await asyncio.sleep(_BETWEEN_LOOKS_S)

    def _status(self, root: str) -> Status | None:
        """What git says of a repository; None if it says nothing, or not in time."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        try:
            self._git = subprocess.Popen(
                _STATUS, cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, env={**env, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
                start_new_session=True,
            )  # fmt: skip
            with self._git as git:
                if self._closed:
                    _kill(git)
                try:
                    said, _ = git.communicate(timeout=_LONGEST_S)
                except subprocess.TimeoutExpired:
                    _kill(git)
                    return None
            return _understood(said, root) if git.returncode == 0 else None
        except OSError as error:
            log.debug("git can't be asked about %s: %s", root, error)
            return None
        finally:
            self._git = None


def _kill(git: subprocess.Popen[bytes]) -> None:
    """With the filters that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(git.pid, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class Status:
    """What a repository was found to be like, later than at the submission."""

    commit: str
    changed_ns: tuple[int, ...]  # when each of the files was last changed that differ from it
    index_ns: int  # when files were last added, stashed or checked out


def was_dirty(status: Status, at: CodeAt) -> bool | None:
    """Whether files were changed when a job was queued; None if that can't be told any more."""
    if status.commit != at.commit or status.index_ns >= at.at_ns:
        return None
    if any(changed_ns < at.at_ns for changed_ns in status.changed_ns):
        return True
    return None if status.changed_ns else False


def _understood(said: bytes, root: str) -> Status | None:
    git_dir = git_dir_of(root)
    commit, changed_ns = "", []
    for line in said.split(b"\0"):
        kind = line[:1]
        if line.startswith(b"# branch.oid "):
            commit = line.split(b" ")[2].decode("ascii", "replace")
        elif kind in _WORDS_BEFORE_PATH:
            path = line.split(b" ", _WORDS_BEFORE_PATH[kind])[-1]
            changed_ns.append(_changed_ns(os.path.join(root, os.fsdecode(path))))
    index_ns = 0 if git_dir is None else _changed_ns(os.path.join(git_dir, "index"))
    return Status(commit, tuple(changed_ns), index_ns)


def _changed_ns(path: str) -> int:
    """When a file was changed; of one that was deleted, when its directory was."""
    while True:
        with suppress(OSError):
            return os.lstat(path).st_ctime_ns
        path = os.path.dirname(path)
