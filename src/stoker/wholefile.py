"""Files that are there whole or not at all, whatever is killed and however full the disk is.

And the text of files that may not be there, or not yet whole.
"""

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


def text_of(path: str) -> str:
    """All of a file as text; "" if it can't be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def end_of(path: str, most_bytes: int) -> str:
    """The last part of a file as text, however long it is; "" if it can't be read."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - most_bytes))
            return file.read(most_bytes).decode(errors="replace")
    except OSError:
        return ""
