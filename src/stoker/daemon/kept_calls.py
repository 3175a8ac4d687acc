"""The calls and results that are kept for the programs that made them, and for any other.

They are deleted with their jobs, and by `retention` when they are old or too many. What is left
behind, because a program was killed before it had queued what it had written, or because a result
was awaited when its job was removed, is found by a look at all that there is. That takes its time,
so a thread does it.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from stoker import call_files
from stoker.errors import StokerError
from stoker.locks import is_locked
from stoker.store.browsing import Browser

log = logging.getLogger("stoker.daemon")

_ABANDONED_S = 86_400.0  # after that long, what was written is not about to be queued


class KeptCalls:
    """At most one look at a time; `total_bytes` is what the last one has found."""

    def __init__(self, home: str, database: str) -> None:
        self._home = home
        self._database = Path(database)
        self._thread = ThreadPoolExecutor(1, "calls")
        self._look: Future[int] | None = None
        self.total_bytes = 0

    def close(self) -> None:
        """Wait for nothing that hangs."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def delete(self, path: str, attempts: int) -> int | None:
        """Delete a call: how many bytes; None if its result is awaited.

        A job names its own files, and may be anybody's: nothing else is deleted.
        """
        if not call_files.is_kept(self._home, path):
            return 0
        with suppress(OSError):
            freed = call_files.delete(path, attempts)
            self.total_bytes -= freed or 0
            return freed
        return 0

    def look_anew(self) -> None:
        """What a look has found, and was not taken yet, does not count any more."""
        self._look = None

    def look(self) -> bool:
        """Have a look, and take what the last one has found; whether one is under way."""
        if self._look is None:
            self._look = self._thread.submit(self._looked)
        elif self._look.done():
            self.total_bytes = self._look.result()
            self._look = None
        return self._look is not None

    def _looked(self) -> int:
        root = os.path.join(self._home, call_files.ROOT)
        if not os.path.isdir(root):
            return 0
        try:
            browser = Browser(self._database)
            try:
                return tidied(root, browser)
            finally:
                browser.close()
        except (OSError, StokerError) as error:
            log.warning("calls can't be looked at now: %s", error)
            return 0


def tidied(root: str, browser: Browser) -> int:
    """Delete what no job has any more; how many bytes the rest takes."""
    total = 0
    for name in _names(root):
        directory = os.path.join(root, name)
        with suppress(OSError):
            if os.path.isdir(directory):
                total += _tidied(directory, browser)
    return total


def _tidied(directory: str, browser: Browser) -> int:
    sizes = call_files.sizes(directory)
    # Looked at first: what is queued meanwhile is there now.
    calls = [name for name in sizes if name.endswith(call_files.CALL)]
    is_over = not is_locked(os.path.join(directory, call_files.LOCK))
    if not calls:
        if is_over:
            shutil.rmtree(directory, ignore_errors=True)
            return 0
        return sum(sizes.values())
    owners = call_files.jobs_of(directory)
    known = browser.states([owners[name] for name in calls if name in owners])
    for name in calls:
        path = os.path.join(directory, name)
        if name not in owners:
            if not (is_over and time.time() - os.stat(path).st_mtime > _ABANDONED_S):
                continue
            job_id = browser.job_with_call(path)
            if job_id is not None:
                call_files.note_jobs(directory, [(path, job_id)])
                continue
        elif owners[name] in known:
            continue
        attempts = _attempts_of(name, sizes)
        freed = call_files.delete(path, attempts)
        if freed:
            del sizes[name]
            sizes = {n: size for n, size in sizes.items() if not n.startswith(name + ".")}
    return sum(sizes.values())


def _attempts_of(name: str, found: dict[str, int]) -> int:
    """The highest number of an attempt of which there is a result."""
    mine = (one.removeprefix(name + ".") for one in found if one.startswith(name + "."))
    numbers = [one.removesuffix(call_files.RESULT) for one in mine]
    return max((int(one) for one in numbers if one.isdecimal()), default=0)


def _names(root: str) -> list[str]:
    with suppress(OSError):
        return os.listdir(root)
    return []
