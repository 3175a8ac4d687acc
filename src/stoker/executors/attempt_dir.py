"""The files of an attempt: its log, and a directory if it is not the daemon that sees it end.

The usual attempt has one file, its log: a file system takes ten times as long to make a directory
and to put files into it. Its end is a line in the daemon's ledger. An attempt whose parent is
another (a client with a terminal, or the keeper of a daemon that was killed) has a directory, made
with exclusive create, 0700. There that parent writes `exit`, before it reaps the attempt's main
process, through a temporary name: it is there whole or not at all. `pid` is only in the directory
of an attempt that a client may run in its own terminal: see `acceptances`.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import struct
from contextlib import suppress
from functools import lru_cache

from stoker.core.model import Exit
from stoker.executors.processes import CANT_LOOK
from stoker.wholefile import write_whole

_JOBS_A_FOLDER = 1000
# Of ext4 (see `chattr +T`): what is in this directory does not belong together.
_GET_FLAGS, _SET_FLAGS, _TOP_DIRECTORY = 0x80086601, 0x40086602, 0x20000


def attempt_dir_text(root: str, job_id: int, attempt: int) -> str:
    """The directory of an attempt. Folders of a thousand jobs keep each listing short."""
    return f"{root}/{job_id // _JOBS_A_FOLDER:04d}/{job_id}.{attempt}"


def log_text(root: str, job_id: int, attempt: int) -> str:
    """The path of the log of an attempt that has no directory."""
    return f"{root}/{job_id // _JOBS_A_FOLDER:04d}/{job_id}.{attempt}.log"


def metrics_text(root: str, job_id: int, attempt: int) -> str:
    """The path of the file to which an attempt reports its metrics, if it does."""
    return f"{root}/{job_id // _JOBS_A_FOLDER:04d}/{job_id}.{attempt}.metrics"


def log_found(root: str, job_id: int, attempt: int) -> str:
    """The path of an attempt's log, which is in its directory if it has one there."""
    inside = f"{attempt_dir_text(root, job_id, attempt)}/log"
    return inside if os.path.exists(inside) else log_text(root, job_id, attempt)


def spread_folders(root: str) -> None:
    """Have the file system put the folders in this directory apart from each other.

    Else ext4 makes all files near each other, and looks at every place there that was taken lately
    before it finds one that is free: where many files come and go, that takes it a millisecond.
    """
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        found = fcntl.ioctl(fd, _GET_FLAGS, bytes(8))
        flags: int = struct.unpack("i4x", found)[0]
        if not flags & _TOP_DIRECTORY:
            fcntl.ioctl(fd, _SET_FLAGS, struct.pack("i4x", flags | _TOP_DIRECTORY))
    except OSError:
        pass  # Not every file system knows of this, and none needs it for more than speed.
    finally:
        os.close(fd)


def make_folder(path: str) -> None:
    """Make the folder in which an attempt has its files, if it is not there.

    Where on the disk ext4 puts it follows from its first name: so each has one of its own.
    """
    root = os.path.dirname(path)
    os.makedirs(root, 0o700, exist_ok=True)
    beside = f"{root}/.new-{secrets.token_hex(8)}"
    os.mkdir(beside, 0o700)
    try:
        os.rename(beside, path)
    except OSError:
        os.rmdir(beside)
        if not os.path.isdir(path):
            raise


def delete_files(root: str, job_id: int, attempt: int) -> None:
    """Delete all that an attempt has left; what can't be deleted stays."""
    for path in (log_text(root, job_id, attempt), metrics_text(root, job_id, attempt)):
        with suppress(OSError):
            os.unlink(path)
    directory = attempt_dir_text(root, job_id, attempt)
    shutil.rmtree(os.path.realpath(directory), ignore_errors=True)
    if os.path.islink(directory):  # Its files were where a cluster's nodes see them too.
        os.unlink(directory)


def make_attempt_dir(path: str) -> bool:
    """Make the directory; False if it was there."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return False
    except FileNotFoundError:
        make_folder(os.path.dirname(path))
        os.mkdir(path, 0o700)
    return True


def write_exit(path: str, how: Exit) -> None:
    """Put down how the main process ended, in the attempt's directory."""
    text = f"exited {how.code}\n" if how.signal is None else f"signalled {how.signal}\n"
    make_attempt_dir(path)
    write_whole(f"{path}/exit", text.encode("ascii"))


def read_exit(path: str) -> Exit | None:
    """How the main process ended, if that was put down."""
    words = _read(path, "exit")
    match words:
        case ["exited", code] if code.isdecimal():
            return Exit(code=int(code))
        case ["signalled", number] if number.isdecimal():
            return Exit(signal=int(number))
    return None


def exit_written_at_ms(path: str) -> int | None:
    """When that was put down: the moment of its end."""
    try:
        return int(os.stat(f"{path}/exit").st_mtime * 1000)
    except OSError:
        return None


def _read(path: str, name: str) -> list[str]:
    try:
        with open(f"{path}/{name}", encoding="ascii") as file:
            text = file.read(200)
    except OSError as error:
        if error.errno in CANT_LOOK:
            raise  # It may be there.
        return []
    except UnicodeDecodeError:
        return []
    return text.split() if text.endswith("\n") else []


@lru_cache(maxsize=512)
def exit_of_status(code: int, status: int) -> Exit:
    """The Exit in the terms of waitid: `si_code` and `si_status`."""
    return Exit(code=status) if code == os.CLD_EXITED else Exit(signal=status)
