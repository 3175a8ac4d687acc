"""The files that jobs write to: what is in them is not lost, and jobs that share one are named."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Sequence
from functools import cached_property

from stoker.daemon.drafts import Drafts
from stoker.output_files import filled
from stoker.store.views import Views
from stoker.submission import rules

_MOST_LOOKED_UP = 100
_MOST_WARNINGS = 3

File = str | tuple[int, int]
"""A file by its device and number; one that is not there yet, by where its path leads."""


def check_outputs(
    drafts: Sequence[Drafts], first_id: int, tried: Container[str | None], views: Views
) -> list[str]:
    """Refuse files that have content, unless their jobs say what to do with it; what to warn of.

    The next job of a point that was tried before goes on with the file of the one before it, as
    another attempt of one job does.
    """
    first_writers: dict[File, int] = {}
    named: dict[str, None] = {}
    warnings: list[str] = []
    for job_id, some, place in _with_files(drafts, first_id):
        own, launch = some.each[place], some.launch
        point = launch.point if own.point is None else own.point
        is_told = rules.says_what_of_files(launch.options) or (point is not None and point in tried)
        out = launch.out if own.out is None else own.out
        err = launch.err if own.err is None else own.err
        for option, path in (("--out", out), ("--err", err)):
            if path is None:
                continue
            path = filled(path, job_id, launch.name if own.name is None else own.name, 1)
            if not _keeps_content(path):
                continue
            if not is_told:
                rules.refuse_existing(path, option)
            other = first_writers.setdefault(file_at(path), job_id)
            if other != job_id:
                warnings.append(f"jobs {other} and {job_id} both write to {path}")
            named[path] = None
    if named and len(named) <= _MOST_LOOKED_UP:
        others = _OtherWriters((), views)
        for path in named:
            warnings += others.told(path)
    more = len(warnings) - _MOST_WARNINGS
    return [*warnings[:_MOST_WARNINGS], *([f"and {more} more such files"] if more > 0 else [])]


def shared_by_edited(paths: Sequence[str | None], ids: Sequence[int], views: Views) -> list[str]:
    """What to warn of once these jobs write to these files."""
    warnings: list[str] = []
    others = _OtherWriters(ids, views)
    for path in dict.fromkeys(paths):
        if path is not None and ids and _keeps_content(path):
            if len(ids) > 1:
                warnings.append(f"jobs {ids[0]} and {ids[-1]} both write to {path}")
            warnings += others.told(path)
    return warnings


class _OtherWriters:
    """The unfinished jobs that are none of these, and the files that they write to."""

    def __init__(self, ids: Container[int], views: Views) -> None:
        self._ids = ids
        self._views = views

    def told(self, path: str) -> Iterator[str]:
        """That one of them writes to this file, by this path or any other that leads there."""
        named = (self._views.unfinished_writers(name) for name in {path, os.path.realpath(path)})
        found = [job_id for some in named for job_id in some if job_id not in self._ids]
        if writer := max(found, default=0) or self._by_file.get(file_at(path)):
            yield f"job {writer} has not ended, and writes to {path} as well"

    @cached_property
    def _by_file(self) -> dict[File, int]:
        found: dict[File, int] = {}
        directories: dict[str, str] = {}
        for job_id, name, *paths in self._views.output_files():
            for path in paths:
                if path is not None and job_id not in self._ids:
                    file = file_at(filled(path, job_id, name, 1), directories)
                    found.setdefault(file, job_id)
        return found


def file_at(path: str, directories: dict[str, str] | None = None) -> File:
    """What tells files apart, whatever links lead to them; `directories` saves asking again."""
    try:
        found = os.stat(path)
    except OSError:
        directory, name = os.path.split(path)
        if directories is None or os.path.islink(path):
            return os.path.realpath(path)
        if directory not in directories:
            directories[directory] = os.path.realpath(directory)
        return os.path.join(directories[directory], name)
    return found.st_dev, found.st_ino


def _with_files(drafts: Sequence[Drafts], first_id: int) -> Iterator[tuple[int, Drafts, int]]:
    for some in drafts:
        if some.has_files:
            for place in range(len(some.each)):
                yield first_id + place, some, place
        first_id += len(some.each)


def _keeps_content(path: str) -> bool:
    """Not so a terminal, a pipe or /dev/null."""
    return os.path.isfile(path) or not os.path.exists(path)
