"""Deleting a state directory: what Stoker has made there goes, and what is the user's stays.

A state directory may be any directory, a home too. So the names in it decide (`api.paths.NAMES`),
and the directory itself goes only if nothing else was in it.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from fnmatch import fnmatchcase
from shutil import rmtree
from typing import NamedTuple

from stoker.api.holder import no_locks
from stoker.api.paths import NAMES, Home
from stoker.errors import Failed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class Deletion(NamedTuple):
    """What came of it: paths."""

    deleted: list[str]
    kept: list[str]


def data_directories(home: Home) -> list[str]:
    """Where data are: the state, and the logs if they are on a disk that machines share."""
    if not os.path.exists(home.database):
        return []
    found = [home.root]
    if home.kept_in and os.path.islink(home.attempts):
        found.append(os.path.dirname(os.path.realpath(home.attempts)))
    return [path for path in found if os.path.isdir(path)]


def delete_state(home: Home) -> Deletion:
    """Delete all that is Stoker's; no daemon can start meanwhile."""
    found = data_directories(home)
    if os.path.isdir(home.root) and not os.path.exists(home.database):
        raise Failed(
            f"{home.root} has no database of Stoker, and is not deleted",
            "look at it, and delete it yourself",
        )
    result = Deletion([], [])
    if found:
        with _locked(home):
            # The state is last: its links and its database lead to the rest.
            for directory in reversed(found):
                _delete_in(directory, result)
    return result


def _own(directory: str) -> list[str]:
    """The names in it that Stoker makes, in the order of `NAMES`."""
    names = sorted(os.listdir(directory))
    return [name for pattern in NAMES for name in names if fnmatchcase(name, pattern)]


@contextmanager
def _locked(home: Home) -> Iterator[None]:
    """Have the lock of the daemon, so that there is none."""
    fd = os.open(home.lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failed(
                "another command has started the daemon again, and nothing was deleted",
                "end what uses Stoker, and try again",
            ) from None
        except OSError as error:
            raise no_locks(home.root, error) from None
        yield
    finally:
        os.close(fd)


def _delete_in(directory: str, result: Deletion) -> None:
    try:
        own = [os.path.join(directory, name) for name in dict.fromkeys(_own(directory))]
        for path in own:
            _delete(path, result)
        others = [os.path.join(directory, name) for name in sorted(os.listdir(directory))]
    except OSError as error:
        raise Failed(f"can't delete {error.filename}: {error.strerror}", "try again") from None
    result.kept.extend(path for path in others if path not in own)
    if others or not _remove_directory(directory):
        result.deleted.extend(path for path in own if path not in others)
    else:
        result.deleted.append(directory)


def _delete(path: str, result: Deletion) -> None:
    if os.path.islink(path) or not os.path.isdir(path):
        os.unlink(path)  # What a link leads to is another directory's, or was put there by a user.
    elif os.path.basename(path) == "frozen":
        _delete_frozen(path, result)
    else:
        rmtree(path)


def _delete_frozen(path: str, result: Deletion) -> None:
    """Delete frozen code, except trees into which a job has written results of its own."""
    from stoker.submission.rules import TREES
    from stoker.submission.snapshots import Snapshots

    home = os.path.dirname(path)
    Snapshots(home).collect((), 0)
    trees = os.path.join(home, TREES)
    left = sorted(os.listdir(trees)) if os.path.isdir(trees) else []
    if not left:
        rmtree(path)
        return
    result.kept.extend(os.path.join(trees, name) for name in left)
    for name in os.listdir(path):
        if (other := os.path.join(path, name)) != trees:
            rmtree(other) if os.path.isdir(other) else os.unlink(other)


def _remove_directory(directory: str) -> bool:
    """Remove an empty directory and, if its name is a link, that too; False if it has to stay."""
    try:
        os.rmdir(os.path.realpath(directory))
        if os.path.islink(directory):
            os.unlink(directory)
    except OSError:
        return False  # It is where a disk is mounted, or in a directory of another user.
    return True
