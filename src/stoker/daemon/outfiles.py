"""The files that jobs write to: what is in them is not lost, and jobs that share one are named."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Sequence

from stoker.daemon.drafts import Drafts
from stoker.output_files import filled
from stoker.store.views import Views
from stoker.submission import rules

_MOST_LOOKED_UP = 100
_MOST_WARNINGS = 3


def check_outputs(
    drafts: Sequence[Drafts], first_id: int, tried: Container[str | None], views: Views
) -> list[str]:
    """Refuse files that have content, unless their jobs say what to do with it; what to warn of.

    The next job of a point that was tried before goes on with the file of the one before it, as
    another attempt of one job does.
    """
    first_writers: dict[str, int] = {}  # by where links lead
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
            other = first_writers.setdefault(os.path.realpath(path), job_id)
            if other != job_id:
                warnings.append(f"jobs {other} and {job_id} both write to {path}")
            named[path] = None
    if len(named) <= _MOST_LOOKED_UP:
        for path in named:
            warnings += _other_writer(path, (), views)
    more = len(warnings) - _MOST_WARNINGS
    return [*warnings[:_MOST_WARNINGS], *([f"and {more} more such files"] if more > 0 else [])]


def shared_by_edited(paths: Sequence[str | None], ids: Sequence[int], views: Views) -> list[str]:
    """What to warn of once these jobs write to these files."""
    warnings: list[str] = []
    for path in dict.fromkeys(paths):
        if path is not None and ids and _keeps_content(path):
            if len(ids) > 1:
                warnings.append(f"jobs {ids[0]} and {ids[-1]} both write to {path}")
            warnings += _other_writer(path, ids, views)
    return warnings


def _other_writer(path: str, ids: Container[int], views: Views) -> Iterator[str]:
    """That a job which is none of these writes to the file, by this path or where it leads."""
    for name in dict.fromkeys((path, os.path.realpath(path))):
        writer = views.unfinished_writer(name)
        if writer is not None and writer not in ids:
            yield f"job {writer} has not ended, and writes to {path} as well"
            return


def _with_files(drafts: Sequence[Drafts], first_id: int) -> Iterator[tuple[int, Drafts, int]]:
    for some in drafts:
        if some.has_files:
            for place in range(len(some.each)):
                yield first_id + place, some, place
        first_id += len(some.each)


def _keeps_content(path: str) -> bool:
    """Not so a terminal, a pipe or /dev/null."""
    return os.path.isfile(path) or not os.path.exists(path)
