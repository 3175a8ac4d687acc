"""Whose fault it is if no process is made: the job's, or a machine's that is short of something.

This is the one place that decides it. What is the job's fault (no such program or directory, no
permission) would be so again, and fails the attempt. What is the machine's passes: the attempt is
put back and tried again.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass

# The process, its descriptors and its memory are the machine's, whatever they were wanted for.
_OF_THE_MACHINE = {
    errno.EAGAIN: "no more processes can be made (ulimit -u, or the limit of a cgroup)",
    errno.EMFILE: "too many files are open in the daemon (ulimit -n)",
    # So says posix_spawn of a descriptor that is over the limit, which was higher before.
    errno.EBADF: "too many files are open in the daemon (ulimit -n)",
    errno.ENFILE: "too many files are open on this machine (fs.file-max)",
    errno.ENOMEM: "not enough memory is free",
    errno.ENOBUFS: "not enough memory is free",
}
# These are about the disk that a file is on, which may be one that only this job uses.
_OF_A_DISK = {
    errno.ENOSPC: "no space or inodes are left for {path}",
    errno.EDQUOT: "the disk quota is used up for {path}",
    errno.EIO: "{path} can't be read or written: input/output error",
}
# Our own files are never where a user may not write, so this disk has become so.
_OF_OUR_DISK = {errno.EROFS: "the disk of {path} is read-only"}


@dataclass(frozen=True, slots=True)
class Shortage:
    """What the machine has not enough of; `alone` if that concerns this job's own files only."""

    what: str
    alone: bool = False


def shortage(error: int | None, path: str, *, own: bool = False) -> Shortage | None:
    """What is short by this error number; None if it is the job's own fault.

    `own`: the path is one that the job's user has named, and not one of ours.
    """
    if error in _OF_THE_MACHINE:
        return Shortage(_OF_THE_MACHINE[error])
    if error in _OF_A_DISK:
        return Shortage(_OF_A_DISK[error].format(path=path), alone=own)
    if error in _OF_OUR_DISK and not own:
        return Shortage(_OF_OUR_DISK[error].format(path=path))
    return None


class CouldNotStart(Exception):
    """No process was made; the message says why, and `short` what was missing if anything was."""

    def __init__(self, why: str, short: Shortage | None = None) -> None:
        super().__init__(why)
        self.short = short


def could_not(error: OSError, path: str, *, own: bool = False) -> CouldNotStart:
    """Say it of an error; `own` as for `shortage`."""
    why = f"{path}: {os.strerror(error.errno or 0)}"
    return CouldNotStart(why, shortage(error.errno, path, own=own))
