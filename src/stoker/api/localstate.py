"""Where state goes if the usual directory is one that other machines have too, on NFS say.

A database, locks and a socket are of one machine. They go to a directory of this user on a disk of
this machine, one that is there after a restart. Logs and the files of Python calls stay in the
usual directory, under the name of the machine; links lead there. `STOKER_HOME` is taken at its
word, and `claim` sees to the rest.
"""

from __future__ import annotations

import fcntl
import os

from stoker.api import filesystems
from stoker.api.paths import Home, make_private
from stoker.errors import Failed

# The first is there only if an administrator has made it, for all users to write to. The second is
# kept when a machine restarts, by the rules of the file system hierarchy.
PLACES = ("/var/lib/stoker", "/var/tmp")
_LINKS = ("attempts", "calls", "daemon.log")


def home_for(usual: str) -> Home:
    """The home of a user whose usual directory is this."""
    if not filesystems.is_shared(filesystems.kind_of(usual)):
        return Home(usual)
    local = _local_directory()
    if not local:
        return Home(usual)  # There is no better one, and the claim keeps other machines out.
    _refuse_if_not_ours(local)
    return Home(local, kept_in=usual)


def _local_directory() -> str:
    """That of this user, preferably one with a state in it; "" if there can be none."""
    possible = [f"{place}/stoker-{os.geteuid()}" for place in PLACES if _is_fit(place)]
    used = [path for path in possible if _is_used(path)]
    return (used or possible or [""])[0]


def _is_fit(place: str) -> bool:
    may_write = os.access(place, os.W_OK | os.X_OK, effective_ids=True)
    return may_write and filesystems.lasts(filesystems.kind_of(place))


def _is_used(directory: str) -> bool:
    try:
        return os.lstat(os.path.join(directory, "stoker.db")).st_uid == os.geteuid()
    except OSError:
        return False


def keep_from_tidying(home: Home) -> None:
    """Mark a database in /var/tmp: systemd deletes old files there, but none with a sticky bit."""
    if os.path.dirname(home.root) in PLACES:
        try:
            os.chmod(home.database, 0o1600)
        except OSError:
            pass  # It is deleted only if no daemon runs for a month.


def _refuse_if_not_ours(directory: str) -> None:
    """All users may put things beside it, and may have put it there: asked before it is used."""
    try:
        found = os.lstat(directory)
    except OSError:
        return
    if found.st_mode & 0o170000 != 0o040000 or found.st_uid != os.geteuid():
        raise Failed(
            f"{directory} is not a directory of yours", "set STOKER_HOME to one on a local disk"
        )
    if found.st_mode & 0o077:
        raise Failed(f"{directory} is open to other users", f"run: chmod 700 {directory}")


def prepare(home: Home) -> None:
    """Make the directories of a home, before its daemon is started."""
    make_private(home.root)
    if not home.kept_in:
        return
    _refuse_if_not_ours(home.root)
    if _missing(home):
        _make_links(home)
    make_private(os.path.realpath(home.attempts))


def _missing(home: Home) -> list[str]:
    return [name for name in _LINKS if not os.path.lexists(os.path.join(home.root, name))]


def _make_links(home: Home) -> None:
    """Let names in the local directory lead to the home, and say so; one command alone does it."""
    lock = os.open(
        os.path.join(home.root, "links.lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600
    )
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        missing = _missing(home)
        if not missing:
            return
        logs = _place_of_logs(home)
        for name in missing:
            os.symlink(os.path.join(logs, name), os.path.join(home.root, name))
    finally:
        os.close(lock)
    kind = filesystems.kind_of(home.kept_in)
    text = (
        f"{home.kept_in} is on {kind}, which other machines may use: "
        f"the queue of this machine is in {home.root}, its logs are in {logs}"
    )
    os.write(2, f"stoker: {text}\n".encode(errors="replace"))


def _place_of_logs(home: Home) -> str:
    """A directory that no other machine has, not even one with our name."""
    for name in _LINKS:
        try:
            return os.path.dirname(os.readlink(os.path.join(home.root, name)))
        except OSError:
            pass
    hosts = os.path.join(home.kept_in, "hosts")
    make_private(home.kept_in)
    make_private(hosts)
    name = os.uname().nodename.replace("/", "_") or "unnamed"
    for number in range(1, 1000):
        path = os.path.join(hosts, name if number == 1 else f"{name}-{number}")
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            continue
        except OSError as error:
            raise Failed(f"can't make {path}: {error.strerror}", "or set STOKER_HOME") from None
        return path
    raise Failed(f"{hosts} is full of directories", "remove those of machines that are gone")
