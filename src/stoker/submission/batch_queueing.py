"""All jobs of a file queued, or none of them.

Law: nothing runs before everything is in. Jobs that wait for others of the same file are queued
held, in several messages since the ids of one are needed by the next, and released together.
"""

from __future__ import annotations

import fcntl
import os
from typing import Any

from stoker.api.client import Client, ConnectionLost
from stoker.api.compact import in_few_words
from stoker.api.paths import Home, make_private
from stoker.batch.entries import located
from stoker.errors import Failed, NotFound, StokerError, UsageError
from stoker.submission.batches import PlannedJob
from stoker.submission.surroundings import new_token, resolve_requirements, take_code
from stoker.text.ids import ranges
from stoker.text.terminal import say

# A submission with a job that waits for a job which can't exist is refused, but only after all
# that stand before it were found good. So the daemon can be asked without queueing anything.
_NEVER = "999999999999999999"
_TOUCHSTONE = {"argv": ["true"], "gpus": 0, "cpus": 0, "after": [_NEVER]}


def queue(client: Client, jobs: list[PlannedJob], source: str, common: dict[str, Any]) -> list[int]:
    """Queue the jobs; their ids, in the same order."""
    for job in jobs:
        resolve_requirements(client, job.fields)
    take_code(client, [job.fields for job in jobs], common)
    if any(job.after or job.after_any or job.behind for job in jobs):
        _check(client, jobs, source, common)
        return _queue_in_parts(client, jobs, common)
    try:
        return _submit(client, [job.fields for job in jobs], common)
    except (UsageError, NotFound):
        _check(client, jobs, source, common)
        raise


def _submit(client: Client, jobs: list[dict[str, Any]], common: dict[str, Any]) -> list[int]:
    request = {**in_few_words(jobs), **common, "token": new_token()}
    ids: list[int] = client.call("submit", **request)["ids"]
    return ids


# ---------------------------------------------------------------------- which one is bad


def _check(client: Client, jobs: list[PlannedJob], source: str, common: dict[str, Any]) -> None:
    """Raise what the daemon has against the first bad job, with its line; nothing is queued."""
    error = _refusal(client, jobs, common)
    if error is None:
        return
    good, bad = 0, len(jobs)  # So many are good; among so many there is a bad one.
    while bad - good > 1:
        middle = (good + bad) // 2
        found = _refusal(client, jobs[:middle], common)
        if found is None:
            good = middle
        else:
            bad, error = middle, found
    raise located(source, jobs[bad - 1].entry.line, UsageError(error.message, error.hint))


def _refusal(
    client: Client, jobs: list[PlannedJob], common: dict[str, Any]
) -> UsageError | NotFound | None:
    try:
        client.call("submit", jobs=[*(job.fields for job in jobs), _TOUCHSTONE], **common)
    except NotFound as error:
        return None if _NEVER in error.message else error
    except UsageError as error:
        return error
    raise AssertionError("a job that waits for no job was queued")


# ---------------------------------------------------------------------- in parts


def _queue_in_parts(client: Client, jobs: list[PlannedJob], common: dict[str, Any]) -> list[int]:
    ids: list[int] = []
    try:
        while len(ids) < len(jobs):
            ids += _submit(client, _next_part(jobs, ids), common)
        released = [i for i, job in zip(ids, jobs, strict=True) if not job.fields.get("hold")]
        _release(client, released)
    except BaseException:
        _take_back(client, ids)
        raise
    return ids


def _next_part(jobs: list[PlannedJob], ids: list[int]) -> list[dict[str, Any]]:
    """As many jobs as wait only for jobs that have their ids already."""
    part: list[dict[str, Any]] = []
    stretches: dict[range, list[str]] = {}
    for job in jobs[len(ids) :]:
        if any(place >= len(ids) for place in (*job.after, *job.after_any)):
            break
        if job.behind is not None and job.behind.stop > len(ids):
            break
        fields = job.fields | {"hold": True}
        for key, places in (("after", job.after), ("after_any", job.after_any)):
            if places:
                fields[key] = [*fields.get(key, ()), *(str(ids[place]) for place in places)]
        if job.behind is not None:
            if job.behind not in stretches:
                stretches[job.behind] = ranges(ids[job.behind.start : job.behind.stop])
            fields["after_any"] = [*fields.get("after_any", ()), *stretches[job.behind]]
        part.append(fields)
    assert part, "a job stands behind all that it waits for"
    return part


def _release(client: Client, ids: list[int]) -> None:
    if not ids:
        return
    select = {"ids": ranges(ids)}
    try:
        client.call("release", select=select)
    except ConnectionLost:
        try:
            client.call("release", select=select)
        except Failed:
            pass  # The daemon had done it before it went away.


def _take_back(client: Client, ids: list[int]) -> None:
    """None of them has run: they are held."""
    if not ids:
        return
    select = {"ids": ranges(ids)}
    try:
        # On a connection of its own: an answer may still be under way on the other.
        with Client(client.home, autostart=False) as fresh:
            fresh.call("cancel", select=select)
            fresh.call("remove", select=select)
    except StokerError:
        pass


# ---------------------------------------------------------------------- numbers for --id


# Where the priority scheduler keeps the number of the next run, beside its default CSV.
_COUNTER = os.path.join("scheduler_files", "counter.txt")
_MOST_DIGITS = 15


def take_numbers(home: Home, count: int, here: str) -> int:
    """The first of so many numbers that no run was ever given; they begin with 1.

    An installation of the older tool in this directory is continued: its runs have used what is
    below its counter, and left checkpoints under these numbers. The counter is kept up to date.

    The count is on disk before a number is used, so a run that is cut off leaves a gap, and never
    a number that is used twice.
    """
    make_private(home.root)
    fd = os.open(
        os.path.join(home.root, "batch-number"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
    )
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        text = os.read(fd, 100).decode("ascii", "replace").strip()
        counter = os.path.join(here, _COUNTER)
        counted = _counted(counter)
        first = max(int(text) if text.isdigit() else 1, counted or 0)
        # One line of fixed width, so that a number is overwritten whole.
        os.pwrite(fd, f"{first + count:020}\n".encode(), 0)
        os.fsync(fd)
        if counted is not None:
            if counted < first:
                say(
                    f"stoker: {_COUNTER} says {counted}, but ids below {first} were already used: "
                    f"continuing with {first}"
                )
            _set_counter(counter, first + count)
    finally:
        os.close(fd)
    return first


def _counted(path: str) -> int | None:
    """What the older tool has counted; None if it was never here."""
    try:
        with open(path, "rb") as file:
            text = file.read(100).decode("ascii", "replace").strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}", "ids go on from there") from None
    if not text.isdigit() or len(text) > _MOST_DIGITS:
        raise UsageError(f"{path} is not a number", "write the id of the next run into it")
    return int(text)


def _set_counter(path: str, value: int) -> None:
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write(str(value))
    except OSError:
        pass  # The count in our own state is the one that is relied on.


def number(client: Client, jobs: list[PlannedJob], short: int, here: str) -> None:
    """Give `--id=N` to the commands that take it; the first `short` have that of their rows."""
    rows = [job.entry for job in jobs[short:] if job.entry.numbered]
    if not rows:
        return
    first = take_numbers(client.home, len(rows), here)
    number_of = {id(entry): number for number, entry in enumerate(rows, first)}
    for job in jobs:
        number = number_of.get(id(job.entry))
        if number is not None:
            job.fields["argv"].append(f"--id={number}")
            job.fields["params"]["id"] = str(number)
