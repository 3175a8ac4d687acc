"""A process that runs already, as the message that makes a job of it."""

from __future__ import annotations

from stoker.api.job_options import BY_KEY, fields_of, processes
from stoker.errors import UsageError
from stoker.submission.surroundings import user_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# What can still be said of a process that has started.
ADOPTED_OPTIONS = tuple(BY_KEY[key] for key in ("on", "mem", "name", "group"))


def adoption(pid: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `adopt` for a process as it is now, and the values of its job's options."""
    for key in values:
        if BY_KEY[key] not in ADOPTED_OPTIONS:
            raise UsageError(
                f"--{BY_KEY[key].name} comes too late for a process that runs already",
                f"the options are {', '.join(option.key for option in ADOPTED_OPTIONS)}",
            )
    found = processes(pid)
    if len(found) > 1:
        raise UsageError("only one process can be adopted at a time", "e.g. stoker adopt 4711")
    return {"process": found[0], "user": user_name(), **fields_of(values)}
