"""Where the metrics of an attempt come from, each read bit by bit: a log, reports, files.

A source knows how far it has been read and what it found up to there. Both can be stored, and
another source that is given them goes on as if it had read all of it itself.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from stoker.holes import behind, hole_in, readable_to
from stoker.metrics.extractor import Extractor, Held, Points
from stoker.metrics.files import points_of_rows, rows_of_json_lines
from stoker.metrics.patterns import MetricPattern, patience
from stoker.metrics.reading import Metrics, files_of, of_file
from stoker.metrics.series import Series

_PIECE = 1 << 20
_PIECE_WITH_PATTERNS = 64 << 10  # so that one is matched well within the time that is allowed
_LONGEST_S = 0.5  # at a time, so that slow expressions do not hold up other jobs
_LONGEST_LINE = 1 << 20
_REST_FACTOR = 20  # for files that are read anew as a whole when they have changed


class Lines(Protocol):
    """Makes points of the bytes of a file, in whatever pieces they come."""

    def feed(self, data: bytes) -> Iterable[Points]:
        """The points of the lines that have ended with this piece."""

    def end(self) -> Iterable[Points]:
        """The points of the last line, which has no end."""

    @property
    def held(self) -> Mapping[str, Held]:
        """Points that the next line may replace, by metric."""

    def state(self) -> dict[str, Any]:
        """What one has to know that goes on here, as JSON."""

    def go_on(self, state: Mapping[str, Any], names: Iterable[str]) -> None:
        """Be as the one was whose state this is."""


class PatternLines(Extractor):
    """The lines of a log with expressions of the user, which may take too long: see patterns."""

    def feed(self, data: bytes) -> list[Points]:
        """See Extractor, and TooSlow."""
        with patience():
            return super().feed(data)

    def end(self) -> list[Points]:
        """See Extractor, and TooSlow."""
        with patience():
            return super().end()


class ReportLines:
    """The lines of what a job reports of itself."""

    held: Mapping[str, Held] = {}  # Reports are never replaced.

    def __init__(self) -> None:
        self._pending = b""
        self._skips = False  # within a line that is too long to be one

    def feed(self, data: bytes) -> list[Points]:
        """See Lines."""
        if self._skips:
            _, newline, data = data.partition(b"\n")
            if not newline:
                return []
        whole, newline, rest = (self._pending + data).rpartition(b"\n")
        self._skips = len(rest) > _LONGEST_LINE
        self._pending = b"" if self._skips else rest
        return list(points_of_rows(rows_of_json_lines(whole.split(b"\n")))) if newline else []

    def end(self) -> list[Points]:
        """See Lines."""
        return self.feed(b"\n")

    def state(self) -> dict[str, Any]:
        """See Lines."""
        return {"pending": self._pending.decode("latin-1"), "skips": self._skips}

    def go_on(self, state: Mapping[str, Any], names: Iterable[str]) -> None:
        """See Lines."""
        self._pending, self._skips = state["pending"].encode("latin-1"), state["skips"]


class Tail:
    """A file that grows at its end."""

    def __init__(self, path: str, patterns: Iterable[MetricPattern] = (), *, reports: bool) -> None:
        self.path = path
        self._patterns = list(patterns)
        self._reports = reports
        self.was_reset = False  # since it was stored: what is stored does not count any more
        self._begin()

    def _begin(self) -> None:
        self._offset = 0
        self._lines: Lines
        if self._reports:
            self._lines = ReportLines()
        elif self._patterns:
            self._lines = PatternLines(self._patterns)
        else:
            self._lines = Extractor()
        self.metrics = Metrics()

    def read(self, most: int, *, ended: bool) -> bool:
        """Read on, but not much more than so many bytes; whether there is more.

        `ended`: nothing will be added to the file.
        """
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError:
            return False  # There is none yet, or not any more.
        try:
            status = os.fstat(fd)
            more = stat.S_ISREG(status.st_mode) and self._read(fd, status.st_size, most)
        except OSError:
            return False  # A disk or a server is gone: what was read stays.
        finally:
            os.close(fd)
            self.metrics.hold(self._lines.held)
        if ended and not more:
            self.metrics.add(self._lines.end())
            self.metrics.hold({})
        return more

    def _read(self, fd: int, size: int, most: int) -> bool:
        if size < self._offset:  # The file was emptied.
            self._begin()
            self.was_reset = True
        hole = hole_in(fd, size)
        longest = _PIECE_WITH_PATTERNS if self._patterns else _PIECE
        until_s = time.monotonic() + _LONGEST_S
        while self._offset < size and most > 0 and time.monotonic() < until_s:
            start = behind(self._offset, hole)
            if hole is not None and start > self._offset > hole[0]:
                self.metrics.add(self._lines.feed(b"\n"))  # The rest of that line is gone.
            length = readable_to(start, size, hole) - start
            piece = os.pread(fd, min(longest, length), start)
            if not piece:
                return False
            self.metrics.add(self._lines.feed(piece))
            self._offset = start + len(piece)
            most -= len(piece)
        return self._offset < size

    def state(self) -> dict[str, Any]:
        """How far it was read, as JSON."""
        return {"offset": self._offset, "lines": self._lines.state()}

    def go_on(self, state: Mapping[str, Any], series: dict[str, Series]) -> None:
        """Go on where another was, which had found these series."""
        self._offset = state["offset"]
        self._lines.go_on(state["lines"], series)
        self.metrics.by_name = series
        self.was_reset = False


class Folder:
    """Files that a job writes in whatever way, read as a whole when something has changed."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.metrics = Metrics()
        self.was_reset = False
        self._seen: list[tuple[str, int, int]] = []
        self._rests_until_s = 0.0

    def read(self, most: int, *, ended: bool) -> bool:
        """Read what has changed, if that is not too often; see Tail."""
        began_s = time.monotonic()
        if began_s < self._rests_until_s and not ended:
            return False
        files = sorted(files_of(self.path))
        seen = [(path, *_changed(path)) for path in files]
        if seen != self._seen:
            self._seen = seen
            self.metrics, self.was_reset = Metrics(), True
            for path in files:
                self.metrics.add(of_file(path))
        took_s = time.monotonic() - began_s
        self._rests_until_s = began_s + took_s * _REST_FACTOR
        return False

    def state(self) -> dict[str, Any]:
        """See Tail."""
        return {"seen": self._seen}

    def go_on(self, state: Mapping[str, Any], series: dict[str, Series]) -> None:
        """What was found counts until something has changed."""
        self._seen = [(path, size, changed_ns) for path, size, changed_ns in state["seen"]]
        self.metrics.by_name = series


Source = Tail | Folder


def _changed(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0
    return status.st_size, status.st_mtime_ns
