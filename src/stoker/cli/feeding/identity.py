"""By what a feed, and each of its lines, is known again.

A feed is known by its group. Within it every feed that is begun anew is a run of its own; a
resumed one goes on with the last run. A line is known by its run, its text, and how many lines
with the same text came before it: lines may move in a file, and the same line may be there twice.
"""

from __future__ import annotations

import fcntl
import os

from stoker.errors import Failed
from stoker.quantities import quoted

try:
    from _blake2 import blake2b  # Without what else `hashlib` brings along, which takes a while.
except ImportError:
    from hashlib import blake2b

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stoker.api.client import Client
    from stoker.api.paths import Home

_MOST_NAME_CHARS = 60
# A user may put other jobs into the group too, so the last job need not be a feed's.
_LOOKED_BACK = (1, 1000, 1_000_000)


def group_for(path: str | None) -> str:
    """The group of a feed that was given none: always the same for the same file."""
    if path is None:
        return f"feed-{os.urandom(4).hex()}"
    name = "".join(c if c.isalnum() or c in "._-" else "_" for c in os.path.basename(path))
    digest = blake2b(path.encode(errors="surrogateescape"), digest_size=3).hexdigest()
    return f"feed-{name[:_MOST_NAME_CHARS]}-{digest}"


def last_run(client: Client, group: str) -> str | None:
    """The last run of a group's feeds; None if none of its jobs came from a feed."""
    for most in _LOOKED_BACK:
        answer = client.call("list", select={"group": group}, all=True, limit=most)
        for job in reversed(answer["jobs"]):
            run = job["params"].get("feed")
            if isinstance(run, str):
                return run
        if answer["total"] <= most:
            return None
    return None


def new_run() -> str:
    """A name that no other run has."""
    return os.urandom(8).hex()


class Points:
    """Names each line of a run."""

    def __init__(self, run: str) -> None:
        self.run = run
        self._seen: dict[bytes, int] = {}

    def name(self, text: str) -> str:
        """The point of the next line with this text."""
        digest = blake2b(text.encode(), digest_size=12).digest()
        before = self._seen.get(digest, 0)
        self._seen[digest] = before + 1
        return f"feed:{self.run}:{digest.hex()}:{before}"


class Lock:
    """Keeps two feeds of one group from taking the same lines.

    Feeds that begin anew don't hinder each other; one that resumes must be alone. The lock is one
    byte of a file, at a place that the group's name says: it goes with its process, and leaves
    nothing behind.
    """

    def __init__(self, home: Home, group: str, *, alone: bool) -> None:
        path = os.path.join(home.root, "feeds.lock")
        self._fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        place = int.from_bytes(blake2b(group.encode(), digest_size=7).digest(), "big")
        kind = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
        try:
            fcntl.lockf(self._fd, kind | fcntl.LOCK_NB, 1, place)
        except OSError:
            os.close(self._fd)
            raise Failed(
                f"a feed of the group {quoted(group)} is already running",
                "wait for it, or stop it with Ctrl-C in its terminal",
            ) from None

    def close(self) -> None:
        """Let others in."""
        os.close(self._fd)
