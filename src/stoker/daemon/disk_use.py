"""What takes how much of the disk: the database, logs by group and state, calls, and the rest.

What counts is what a file really takes, and not its length: a log from whose middle something was
left out takes less.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from heapq import nlargest
from typing import Any

from stoker.api.paths import Home
from stoker.daemon.disk_room import LeastRoom, room_at

_MOST_LARGEST = 10
# By how their names begin.
_OF_FILES = {
    "stoker.db": "database",
    "daemon.log": "daemon.log",
    "reserve": "reserve",
    "metrics.": "metrics",
}
_REMOVED = "removed"  # as the state of a log whose job is not on record any more

_NO_BOUNDS = (LeastRoom(), LeastRoom())

Standings = Mapping[int, tuple[str, str | None]]


def disk_use(
    home: Home, standings: Standings, least: tuple[LeastRoom, LeastRoom] = _NO_BOUNDS
) -> dict[str, Any]:
    """All that is in the home, each list with the largest first.

    `parts`: each `part`, `bytes`, `files`. `logs`: each `group`, `state`, `jobs`, `bytes`.
    `largest`: the jobs with the largest logs: each `id`, `bytes`. `disks`: each `path`,
    `total_bytes`, `free_bytes`, `low` ("warn" or "stop" if less is free than `least`, else null).
    """
    parts: dict[str, list[int]] = {}
    of_jobs: dict[int, int] = {}
    attempts = os.path.realpath(home.attempts)
    for name, taken in _logs_in(attempts):
        _add(parts, "logs", taken)
        number = name.partition(".")[0]
        if number.isdecimal():
            of_jobs[int(number)] = of_jobs.get(int(number), 0) + taken
    for entry in _entries(home.root):
        if os.path.realpath(entry.path) == attempts:
            continue
        if entry.is_dir():
            for taken in _files_below(entry.path):
                _add(parts, entry.name, taken)
        else:
            starts = [part for start, part in _OF_FILES.items() if entry.name.startswith(start)]
            _add(parts, starts[0] if starts else "other files", _taken(entry))
    shown = [{"part": part, "bytes": sum(all_), "files": len(all_)} for part, all_ in parts.items()]
    return {
        "parts": sorted(shown, key=lambda part: -int(str(part["bytes"]))),
        "logs": _by_group(of_jobs, standings),
        "largest": [
            {"id": job_id, "bytes": taken}
            for job_id, taken in nlargest(_MOST_LARGEST, of_jobs.items(), key=lambda one: one[1])
        ],
        "disks": [_disk(path, *least) for path in _one_on_each_disk(home.root, home.attempts)],
        "total_bytes": sum(map(sum, parts.values())),
    }


def _by_group(of_jobs: Mapping[int, int], standings: Standings) -> list[dict[str, Any]]:
    found: dict[tuple[str, str | None], list[int]] = {}
    for job_id, taken in of_jobs.items():
        found.setdefault(standings.get(job_id, (_REMOVED, None)), []).append(taken)
    rows = [
        {"group": group, "state": state, "jobs": len(taken), "bytes": sum(taken)}
        for (state, group), taken in found.items()
    ]
    return sorted(rows, key=lambda row: -int(str(row["bytes"])))


def _one_on_each_disk(*paths: str) -> list[str]:
    return list({os.stat(path).st_dev: path for path in reversed(paths)}.values())


def _disk(path: str, warn: LeastRoom, stop: LeastRoom) -> dict[str, Any]:
    room = room_at(path)
    total, free = room.total_bytes, room.free_bytes
    low = "stop" if free < stop.bytes_of(total) else "warn" if free < warn.bytes_of(total) else None
    return {"path": path, "total_bytes": total, "free_bytes": free, "low": low}


def _add(parts: dict[str, list[int]], part: str, taken: int) -> None:
    parts.setdefault(part, []).append(taken)


def _logs_in(attempts: str) -> Iterator[tuple[str, int]]:
    """The name (which begins with the job's id) and size of all that attempts have left."""
    for folder in _entries(attempts):
        if not folder.is_dir(follow_symlinks=False):
            yield folder.name, _taken(folder)
            continue
        for entry in _entries(folder.path):
            if entry.is_dir():
                yield from ((entry.name, taken) for taken in _files_below(entry.path))
            else:
                yield entry.name, _taken(entry)


def _files_below(directory: str) -> Iterator[int]:
    for entry in _entries(directory):
        if entry.is_dir(follow_symlinks=False):
            yield from _files_below(entry.path)
        else:
            yield _taken(entry)


def _entries(directory: str) -> Iterator[os.DirEntry[str]]:
    """What is in a directory; it may go while it is looked at."""
    with suppress(OSError), os.scandir(directory) as entries:
        yield from entries


def _taken(entry: os.DirEntry[str]) -> int:
    with suppress(OSError):
        return entry.stat(follow_symlinks=False).st_blocks * 512
    return 0
