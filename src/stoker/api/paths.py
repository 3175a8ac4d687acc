"""Where Stoker's state lives, and how its directories come to be private.

Everything is in one directory: `STOKER_HOME` if it is set, else `stoker` in the XDG state
directory; if other machines may have that one as well, see `localstate`. The socket is there too,
and not in XDG_RUNTIME_DIR: that one is removed when its user logs out and is unknown to cron, while
the daemon outlives the session in which it was started.
"""

from __future__ import annotations

import os

from stoker.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# The longest path that fits into the kernel's sockaddr_un, its closing zero apart.
MAX_SOCKET_PATH_BYTES = 107

# All that Stoker makes in a state directory, which `uninstall` deletes; anything else there is the
# user's. `*` and `[0-9]` as in a shell. The database is last, so that a deletion that
# was interrupted can be repeated.
NAMES = (
    "attempts", "batch-number", "calls", "consoles", "enter", "feeds.lock", "frozen", "ledgers",
    "mps", "notify", "searches", "links.lock", "reserve", "slurm.lock",
    "metrics.db", "metrics.db-journal", "metrics.db-shm", "metrics.db-wal", "metrics.lock",
    "studies.db", "studies.db-journal", "studies.db-shm", "studies.db-wal",
    "page-access.json", "page-access.json.lock", "page-access.json.new",
    "claim", "claim.*.[0-9]*.new", "claim.*.[0-9]*.now", "claim.*.[0-9]*.old",
    "daemon.log", "daemon.log.1", "stoker.sock",
    "daemon.version", "daemon.version.[0-9]*", "daemon.version.told", "daemon.version.told.[0-9]*",
    "stoker.db.schema[0-9]*", "daemon.lock.start", "daemon.lock",
    "stoker.db-journal", "stoker.db-shm", "stoker.db-wal", "stoker.db",
)  # fmt: skip

# How client and daemon talk; another number where one would misunderstand the other.
PROTOCOL = 1


class Home:
    """The directory of one Stoker instance, and the names in it."""

    __slots__ = (
        "attempts",
        "claim",
        "database",
        "kept_in",
        "lock",
        "log",
        "root",
        "socket",
        "version",
    )

    def __init__(self, root: str, kept_in: str = "") -> None:
        self.root = root
        self.kept_in = kept_in  # a directory that machines share, with the logs of each; see there
        self.claim = os.path.join(root, "claim")
        self.database = os.path.join(root, "stoker.db")
        self.attempts = os.path.join(root, "attempts")
        self.log = os.path.join(root, "daemon.log")
        self.lock = os.path.join(root, "daemon.lock")
        self.socket = os.path.join(root, "stoker.sock")
        self.version = os.path.join(root, "daemon.version")  # of the daemon that runs; see `skew`

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Home:
        """The home that the environment names."""
        env = os.environ if environ is None else environ
        stoker_home = env.get("STOKER_HOME", "")
        if stoker_home:
            # What is no UTF-8 comes from the system as surrogates.
            if any(c == "\0" or "\ud800" <= c <= "\udfff" for c in stoker_home):
                raise UsageError("STOKER_HOME is not valid UTF-8", "set it to a plain path")
            return cls(os.path.abspath(stoker_home))
        # The XDG specification: an empty or relative path counts as none.
        state_home = env.get("XDG_STATE_HOME", "").strip()
        if not os.path.isabs(state_home):
            state_home = os.path.expanduser("~/.local/state")
        root = os.path.join(state_home, "stoker")
        if os.path.exists(os.path.join(root, "stoker.db")):
            return cls(root)  # What is there is gone on with, wherever it is.
        from stoker.api.localstate import home_for

        return home_for(root)


def make_private(directory: str) -> None:
    """Create a directory that only its owner can enter, from its first moment on.

    One that exists is left as it is, but refused if others could put files into it: they would
    choose what the daemon runs.
    """
    from stoker.errors import Failed, Unavailable  # Only what starts a daemon makes directories.

    parent = os.path.dirname(directory)
    try:
        if parent and not os.path.isdir(parent):
            os.makedirs(parent, 0o700, exist_ok=True)
        try:
            os.mkdir(directory, 0o700)
        except FileExistsError:
            pass
        status = os.stat(directory)
    except OSError as error:
        from errno import EIO, EMFILE, ENFILE, ENOMEM, ENOSPC, ESTALE

        # These may pass while a client waits; who may do what does not change by itself.
        may_pass = error.errno in (EIO, EMFILE, ENFILE, ENOMEM, ENOSPC, ESTALE)
        raise (Unavailable if may_pass else Failed)(
            f"can't use the directory {directory}: {error.strerror}",
            "make it usable, or set STOKER_HOME to another one",
        ) from None
    if status.st_mode & 0o170000 != 0o040000:
        raise Failed(f"{directory} is not a directory", "move it away, or set STOKER_HOME")
    if status.st_uid != os.geteuid():
        raise Failed(
            f"{directory} belongs to another user", "set STOKER_HOME to a directory of your own"
        )
    if status.st_mode & 0o022:
        raise Failed(f"{directory} can be written by other users", f"run: chmod go-w {directory}")


def socket_address(path: str) -> tuple[str, int]:
    """An address for the socket at `path`, and a file descriptor to close once it has been used.

    A path too long for the kernel is reached through the open directory that it is in. The
    descriptor is -1 where none was needed.
    """
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES:
        return path, -1
    directory, name = os.path.split(path)
    fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    return f"/proc/self/fd/{fd}/{name}", fd
