"""Files that are there whole or not at all, whatever is killed and however full the disk is."""

from __future__ import annotations

import errno
import os


def write_whole(path: str, data: bytes, mode: int = 0o600, *, flush: bool = False) -> None:
    """Write a file through a temporary name beside it.

    All of it or, raising OSError, nothing: a disk that is all but full takes a part of what it is
    given, without a word of complaint. With `flush` it is on the disk when this returns.
    """
    temporary = f"{path}.{os.getpid()}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        try:
            while data:
                written = os.write(fd, data)
                if not written:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                data = data[written:]
            if flush:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, path)
    except BaseException:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise
