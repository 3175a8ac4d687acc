"""Jobs, commands and selections as Python says them, in the form of the messages."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stoker.errors import UsageError
from stoker.submission.keywords import Fields, job_fields

if TYPE_CHECKING:
    from stoker.api.tokens import Grant

_NEAR = 16  # between ids that are asked for in one range


def request_of(job: Mapping[str, Any], has_project: bool) -> Fields:
    """A job of `submit`, of a dictionary with `command` and options."""
    command = job.get("command")
    if command is None:
        raise UsageError("no command was given", 'write e.g. {"command": "python train.py"}')
    fields = command_of(command)
    options = {name: value for name, value in job.items() if name != "command"}
    if options or has_project:
        words = (command,) if isinstance(command, str) else tuple(command)
        fields |= job_fields(options, front_end="library" if has_project else "", words=words)
    return fields


def command_of(command: str | Sequence[str]) -> Fields:
    """A line for the login shell, or words."""
    if isinstance(command, str):
        return {"shell": command}
    if isinstance(command, bytes) or not isinstance(command, Iterable):
        what = "a command is text, or a list of words"
        raise UsageError(
            f"{what}, not {type(command).__name__}", 'write e.g. add("python train.py")'
        )
    return {"argv": [word if type(word) is str else _word(word) for word in command]}


def _word(word: object) -> str:
    return str(os.fspath(word) if isinstance(word, os.PathLike) else word)


def selection(jobs: tuple[Any, ...], name: str | None, group: str | None) -> Fields:
    """Which jobs are meant."""
    names = [] if name is None else [name]
    return {"ids": list(id_texts(jobs)), "names": names, "group": group}


def id_texts(jobs: Iterable[Any]) -> Iterator[str]:
    """Their ids as they are typed; jobs are numbers, text, futures, or several of them."""
    for job in jobs:
        if isinstance(job, str | int):
            yield str(job)
        elif isinstance(job, Mapping) and "id" in job:
            yield str(job["id"])
        elif hasattr(job, "job_id"):
            yield str(job.job_id)
        elif isinstance(job, Iterable) and not isinstance(job, Mapping | bytes):
            yield from id_texts(job)
        else:
            what = f"a job is its id, a future or what show() gives, not {type(job).__name__}"
            raise UsageError(what, 'write e.g. 12, or "3-9"')


def runs_of(job_ids: list[int]) -> Iterator[str]:
    """Ids as ranges, as few as can be without too many others among them."""
    first = last = None
    for job_id in sorted(job_ids):
        if first is not None and last is not None and job_id - last > _NEAR:
            yield f"{first}-{last}"
            first = None
        first, last = job_id if first is None else first, job_id
    if first is not None:
        yield f"{first}-{last}"


def described(grant: Grant) -> dict[str, Any]:
    """A token, without its secret."""
    fields = ("id", "kind", "name", "read_only", "created_at_ms", "expires_at_ms")
    return {field: getattr(grant, field) for field in fields}


def texts(items: Iterable[object]) -> list[str]:
    """Each as text."""
    return [str(item) for item in items]
