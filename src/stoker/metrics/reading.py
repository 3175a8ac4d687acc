"""Series by name, and the points in files of the kinds that trainings write."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

from stoker.metrics.event_files import points_of_events
from stoker.metrics.extractor import MOST_NAMES, Held, Points
from stoker.metrics.files import points_of_rows, rows_of_csv, rows_of_json_lines
from stoker.metrics.series import Series

_LONGEST_LINE = 1 << 20
_MOST_FILES = 1000
_MOST_DEPTH = 4
_EVENTS = "tfevents"


class Metrics:
    """Series by the names of their metrics: a bounded number of them."""

    def __init__(self) -> None:
        self.by_name: dict[str, Series] = {}
        self.changed: set[str] = set()  # those with points that are not stored yet

    def add(self, found: Iterable[Points]) -> None:
        """Add points that come after those that are there."""
        for name, points in found:
            if name in self.by_name or len(self.by_name) < MOST_NAMES:
                self.by_name.setdefault(name, Series()).extend(points)
                self.changed.add(name)

    def hold(self, held: Mapping[str, Held]) -> None:
        """Let these be the points that may still be replaced."""
        for name, series in self.by_name.items():
            if series.held is not None and name not in held:
                series.held = None
                self.changed.add(name)
        for name, point in held.items():
            series = self.by_name.setdefault(name, Series())
            if series.held != point:
                series.held = point
                self.changed.add(name)

    def replace(self, said: Metrics) -> None:
        """Let what was said expressly stand for what was only found under the same name."""
        for name, series in said.by_name.items():
            if name in self.by_name or len(self.by_name) < MOST_NAMES:
                self.by_name[name] = series


def of_file(path: str) -> Iterator[Points]:
    """The points of one file; none if it is of no known kind."""
    name = os.path.basename(path)
    if _EVENTS in name:
        return points_of_events(path)
    if name.endswith(".csv"):
        return points_of_rows(rows_of_csv(_lines(path)))
    if name.endswith((".jsonl", ".json", ".ndjson")):
        return points_of_rows(rows_of_json_lines(_lines(path)))
    return iter(())


def files_of(path: str) -> Iterator[str]:
    """The file, or all files in a directory and below, but not endlessly many."""
    if os.path.isfile(path):
        yield path
        return
    count, depth = 0, path.rstrip("/").count("/")
    for folder, folders, names in os.walk(path):
        if folder.count("/") - depth >= _MOST_DEPTH:
            folders.clear()
        for name in names:
            full = os.path.join(folder, name)
            if os.path.isfile(full):
                yield full
                count += 1
        if count >= _MOST_FILES:
            return


def _lines(path: str) -> Iterator[bytes]:
    """The lines of a file, none longer than a bound; none if it can't be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return
    with os.fdopen(fd, "rb") as file:
        try:
            while line := file.readline(_LONGEST_LINE):
                yield line
        except OSError:
            return
