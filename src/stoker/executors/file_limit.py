"""How many files may be open: as many as possible in the daemon, as before in what it starts.

A program that calls select() on descriptors above 1,023 breaks, so a job gets the limit that it
would have had without Stoker, while the daemon has pidfds and clients to hold.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

_kind = resource.RLIMIT_NOFILE
_FEWEST = 16
_before: tuple[int, int] | None = None  # the limit that jobs are to have, if ours is another


def raise_limit() -> int:
    """Let this process open as many files as it may; how many that is."""
    global _before
    soft, hard = resource.getrlimit(_kind)
    if soft != hard:
        try:
            resource.setrlimit(_kind, (hard, hard))
            # With fewer not even a shell can be started: that was a moment's shortage.
            _before = (max(soft, min(_FEWEST, hard)), hard)
        except (OSError, ValueError):
            hard = soft  # Some systems allow less than they say.
    return 1 << 30 if hard == resource.RLIM_INFINITY else hard


def for_jobs() -> tuple[int, int] | None:
    """The limit that a job is to be given; None: that of this process."""
    return _before


def spawned(make: Callable[[], int], fds: Iterable[int]) -> int:
    """A process that `make` starts with these descriptors, and which has the limit of jobs.

    The C library refuses to hand on a descriptor that is over the limit: then the process gets its
    limit a moment later.
    """
    if _before is None:
        return make()
    if max(fds) < _before[0]:
        with as_before():
            return make()
    pid = make()
    with suppress(OSError):  # It has ended already.
        resource.prlimit(pid, _kind, _before)
    return pid


@contextmanager
def as_before() -> Iterator[None]:
    """Have the limit of jobs for a moment: what is started meanwhile inherits it."""
    if _before is None:
        yield
        return
    now = resource.getrlimit(_kind)
    resource.setrlimit(_kind, _before)
    try:
        yield
    finally:
        resource.setrlimit(_kind, now)
