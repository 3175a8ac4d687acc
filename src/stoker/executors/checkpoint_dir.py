"""The directory that a job keeps over all its attempts, for what they leave to those that go on.

It is beside the directory of attempts: `checkpoints/0007/7123` for job 7123. The point of a sweep
has one whichever job it is: if the point is queued again, it goes on with what is there.
It is made for the jobs that count on being put back; others are told its name, and may make it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress

_JOBS_A_FOLDER = 1000
_NAME = "checkpoints"
_TRASH = ".deleted"
_MOST_LOOKED_AT = 100_000


def checkpoint_text(attempts: str, job_id: int, point: str | None) -> str:
    """The path of the directory of a job; `attempts` is where attempts have their files."""
    root = f"{attempts.rpartition('/')[0]}/{_NAME}"  # Each start asks for it.
    if point is None:
        return f"{root}/{job_id // _JOBS_A_FOLDER:04d}/{job_id}"
    import hashlib  # Most jobs are no points, and the keeper needs none of this.

    return f"{root}/points/{hashlib.sha256(point.encode()).hexdigest()[:24]}"


def make_checkpoint_dir(path: str) -> None:
    """Make it, unless it is there."""
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)


def link_checkpoint_dir(path: str, elsewhere: str) -> None:
    """Let it be found where all look for it, if it is where a cluster's nodes see it too."""
    if path != elsewhere and not os.path.lexists(path):
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        with suppress(FileExistsError):
            os.symlink(elsewhere, path)


def written_since(path: str, since_ms: int) -> bool:
    """Whether a file in it was written since; where that can't be told, yes.

    Directories tell nothing: they change, too, when a file is removed that the disk had no room
    for, and a job that can't save its work would go on forever.
    """
    since_ns = since_ms * 1_000_000
    try:
        return any(ns > since_ns for ns in _changes(path))
    except FileNotFoundError:
        return False
    except OSError:
        return True


def last_written_ms(path: str) -> int | None:
    """When a file in it was last written; None if there is none, or that can't be told."""
    try:
        latest_ns = max(_changes(path), default=None)
    except OSError:
        return None
    return None if latest_ns is None else latest_ns // 1_000_000


def _changes(root: str) -> Iterator[int]:
    """When each file in it was last written."""
    directories, count = [root], 0
    while directories:
        with os.scandir(directories.pop()) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # It is just being replaced.
                    if entry.is_dir(follow_symlinks=False):
                        directories.append(entry.path)
                    else:
                        yield entry.stat(follow_symlinks=False).st_mtime_ns
                count += 1
                if count == _MOST_LOOKED_AT:
                    raise OSError("there is too much in it to look at")


def throw_away(path: str) -> bool:
    """Let it be gone at once, however large it is; `empty_trash` then deletes it. Was it there?"""
    trash = os.path.join(_root_of(path), _TRASH)
    try:
        if not os.path.lexists(path):
            return False
        os.makedirs(trash, 0o700, exist_ok=True)
        os.rename(path, os.path.join(trash, os.path.basename(path)))
    except OSError:
        shutil.rmtree(path, ignore_errors=True)  # One of that name may be there still.
    return True


def empty_trash(attempts: str) -> None:
    """Delete what was thrown away; this takes as long as it takes, so a thread does it."""
    trash = os.path.join(os.path.dirname(attempts), _NAME, _TRASH)
    with suppress(OSError):
        for name in os.listdir(trash):
            path = os.path.join(trash, name)
            if not os.path.islink(path):
                shutil.rmtree(path, ignore_errors=True)
                continue
            if _is_ours(os.readlink(path), name):
                shutil.rmtree(os.path.realpath(path), ignore_errors=True)
            with suppress(OSError):
                os.unlink(path)


def _is_ours(target: str, name: str) -> bool:
    """Whether a link is one of `link_checkpoint_dir`. A job may have put in a link of its own."""
    return os.path.basename(target) == name and os.path.basename(_root_of(target)) == _NAME


def _root_of(path: str) -> str:
    return os.path.dirname(os.path.dirname(path))
