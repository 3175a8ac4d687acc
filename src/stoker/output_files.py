"""What the names of output files may have in braces: {id}, {name} and {attempt} of the job.

They are filled in when an attempt starts, since only then its number is known.
"""

from __future__ import annotations

import os

from stoker.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

FIELDS = ("id", "name", "attempt")


def filled(path: str, job_id: int, name: str | None, attempt: int) -> str:
    """The file that an attempt writes to; a job without a name is called job-12."""
    if not has_fields(path):
        return path
    path = path.replace("{id}", str(job_id)).replace("{attempt}", str(attempt))
    # Last, since a name may have braces in it. It is one part of a path, whatever is in it.
    name = f"job-{job_id}" if name is None else name.replace("/", "_")
    return path.replace("{name}", "_" if name in (".", "..") else name)


def with_params(path: str, params: Mapping[str, Any]) -> str:
    """A path with the values of a point's parameters; each is one part of it."""
    for parameter, value in params.items():
        path = path.replace(f"{{{parameter}}}", str(value).replace("/", "_"))
    return path


def has_fields(path: str) -> bool:
    """Whether there is anything to be filled in."""
    return "{" in path and any(f"{{{field}}}" in path for field in FIELDS)


def known_directory(path: str) -> str:
    """The directory that is known before the job is: those below it are made for the attempt."""
    places = [path.find(f"{{{field}}}") for field in FIELDS] if "{" in path else []
    return os.path.dirname(path[: min((place for place in places if place >= 0), default=None)])


def existing_directory(path: str) -> str:
    """The directory that has to be there when the job is submitted.

    Of a file with braces all that are missing are made for the attempt.
    """
    directory = known_directory(path)
    while has_fields(path) and directory != "/" and not os.path.lexists(directory):
        directory = os.path.dirname(directory)
    return directory


def check_braces(path: str, option: str, params: Iterable[str] = ()) -> None:
    """Refuse a name in braces that nothing is filled in for: the file would be called just that.

    What a name may look like is said in sweep/template.py; {{lr}} and ${lr} are no such places.
    """
    import re  # Few files have braces.

    known = (*FIELDS, *params)
    for name in re.findall(r"(?<![${])\{([^\W\d][\w.\-/@]*(?::[^{}]*)?)\}", path):
        if name not in known:
            there_are = ", ".join(f"{{{field}}}" for field in known)
            raise UsageError(
                f"{option}: {{{name}}} is not known in the name of a file",
                f"there are {there_are}" + ("" if params else "; in a sweep also its parameters"),
            )
