"""The futures of calls that were queued before, by any program, on any day."""

from __future__ import annotations

import os
from typing import Any

from stoker.api.paths import Home
from stoker.command_lines import call_of
from stoker.errors import NotFound, UsageError
from stoker.library.channel import channel
from stoker.library.forms import selection
from stoker.library.futures import JobFuture


def future(job: Any, home: str | os.PathLike[str] | None = None) -> JobFuture[Any]:
    """The future of the call that this job makes or has made.

    `home` is the state directory of another Stoker. The result of a job that has ended is there
    until `stoker rm`, or as long as the setting keep-results says.
    """
    found = futures(job, home=home)
    if len(found) != 1:
        raise UsageError(f"{job!r} is {len(found)} jobs", "`futures` gives several")
    return found[0]


def futures(
    *jobs: Any,
    group: str | None = None,
    name: str | None = None,
    home: str | os.PathLike[str] | None = None,
) -> list[JobFuture[Any]]:
    """The futures of several calls: by ids, ranges ("3-9"), all of a group, or all of a name.

    They come in the order of their ids. What of a group or a name is no call is left out.
    """
    select = selection(jobs, name, group)
    if not (jobs or group or name):
        raise UsageError("nothing was named", 'write e.g. futures(7, 8) or futures(group="night")')
    found = channel(None if home is None else Home(os.path.abspath(home)))
    # `list` would narrow ids down by name and group.
    how = {"op": "show"} if jobs and (group or name) else {"op": "list", "all": True}
    listed = found.request(**how, select=select)["jobs"]
    if not listed:
        raise NotFound("there are no such jobs", "see `stoker ls --all`")
    calls = [job for job in listed if call_of(job["argv"]) is not None]
    if jobs and len(calls) < len(listed):
        other = next(job for job in listed if job not in calls)
        raise UsageError(
            f"job {other['id']} is a command, and no call that has a future",
            f"`Client().wait({other['id']})` waits for it",
        )
    return found.attach(calls)
