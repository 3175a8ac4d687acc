"""The git repository that a directory is in: which commit is checked out there, by reading files.

Every submission asks, and to start `git` would take longer than the rest of it.

Law: what is read belongs to somebody else and may be anything, so no more than a little of a file
is read, none that may block, and what is not a commit's name is not taken for one.
"""

from __future__ import annotations

import os

_MOST_BYTES = 4096
_MOST_PACKED_BYTES = 64 * 1024 * 1024
_MOST_STEPS = 5
_HEX = frozenset("0123456789abcdef")


def commit_of(root: str) -> str | None:
    """The commit that is checked out in the repository at `root`; None if that can't be told."""
    git_dir = git_dir_of(root)
    if git_dir is None or not root.isprintable():  # Such a name could not be sent or shown.
        return None
    # A worktree has a HEAD of its own, and branches in common with the others.
    common = os.path.join(git_dir, _line(os.path.join(git_dir, "commondir")))
    found = _line(os.path.join(git_dir, "HEAD"))
    for _ in range(_MOST_STEPS):
        name = found.removeprefix("ref: ").strip()
        if name == found:
            is_name = len(found) in (40, 64) and _HEX.issuperset(found)
            return found if is_name else None
        if not name.startswith("refs/") or ".." in name:
            return None
        found = _line(os.path.join(git_dir, name)) or _line(os.path.join(common, name))
        found = found or _packed(common, name)
    return None


def git_dir_of(root: str) -> str | None:
    """Where git keeps what it knows: in worktrees and submodules, `.git` is a file that says so."""
    path = os.path.join(root, ".git")
    if os.path.isdir(path):
        return path
    said = _line(path)
    place = said.removeprefix("gitdir: ")
    return None if place == said else os.path.normpath(os.path.join(root, place))


def _line(path: str) -> str:
    return os.fsdecode(_read(path, _MOST_BYTES).partition(b"\n")[0]).strip()


def _packed(common: str, name: str) -> str:
    """The commit of a branch that has no file of its own."""
    packed = _read(os.path.join(common, "packed-refs"), _MOST_PACKED_BYTES)
    before, found, _ = packed.partition(b" " + os.fsencode(name) + b"\n")
    return before.rpartition(b"\n")[2].decode("ascii", "replace") if found else ""


def _read(path: str, most: int) -> bytes:
    """What is in a file; nothing if it can't be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError):
        return b""
    try:
        parts = []
        while most > 0 and (part := os.read(fd, min(most, 1 << 20))):
            parts.append(part)
            most -= len(part)
        return b"".join(parts)
    except OSError:
        return b""
    finally:
        os.close(fd)
