"""A bound for the log of a running job: its beginning and its end are kept.

The job writes to the file itself, without a pipe in between, so its log is cut while it grows: what
is in the middle is given back to the file system (`fallocate`, FALLOC_FL_PUNCH_HOLE). The length of
the file and all positions in it stay what they were, so that neither the job, which appends, nor a
reader notices. One line before the hole says how much was left out.
"""

from __future__ import annotations

import ctypes
import errno
import os

_PUNCH_HOLE, _KEEP_SIZE = 2, 1
# At least the block size of any usual file system: what is not aligned would become zeros.
_ALIGNED_BYTES = 65_536
_NOTICE_BYTES = 120
_MIB = 1024 * 1024
_CANT = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.ENODEV)

_libc = ctypes.CDLL(None, use_errno=True)


class CantPunch(Exception):
    """The file system can't take back the middle of a file."""


def cut(path: str, most_mib: int) -> bool:
    """Leave out the middle of a log that takes more than this; whether anything was."""
    most = most_mib * _MIB
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        status = os.fstat(fd)
        if status.st_blocks * 512 <= most:
            return False
        start = most // 4 // _ALIGNED_BYTES * _ALIGNED_BYTES
        # Half is kept of the end, so that a log that goes on growing is not cut all the time.
        end = (status.st_size - most // 2) // _ALIGNED_BYTES * _ALIGNED_BYTES
        if end <= start:
            return False
        _punch(fd, start, end - start)
        notice = _notice(end - start + _NOTICE_BYTES, most_mib)
        os.pwrite(fd, notice, start - _NOTICE_BYTES)
        return True
    finally:
        os.close(fd)


def _notice(left_out: int, most_mib: int) -> bytes:
    text = f"[stoker: {left_out / _MIB:.1f} MiB left out here: --max-log {most_mib}M]"
    return f"\n{text}".ljust(_NOTICE_BYTES - 1).encode() + b"\n"


def _punch(fd: int, start: int, length: int) -> None:
    mode = _PUNCH_HOLE | _KEEP_SIZE
    if _libc.fallocate(fd, mode, ctypes.c_int64(start), ctypes.c_int64(length)) != 0:
        number = ctypes.get_errno()
        if number in _CANT:
            raise CantPunch(os.strerror(number))
        raise OSError(number, os.strerror(number))
