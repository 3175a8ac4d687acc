"""Parts of a log, however large it is: read where it is looked at, searched for a bounded time.

A line is shown as a terminal would have left it: of what was overwritten with carriage returns,
only the last state. Colours stay in the text as escapes; the page makes nothing but text of them.
So do movements of the cursor to lines above, which the page follows (screen.js).
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stoker.errors import Failed, NotFound
from stoker.holes import behind, hole_in, readable_to
from stoker.quantities import quoted
from stoker.text.loglines import last_state, tamed
from stoker.web.line_counts import LineCounts

BLOCK_BYTES = 65_536
MOST_LINE_CHARS = 8_000
MOST_SOUGHT_BYTES = 64 * 1_048_576  # for the end of a line
SEARCH_S = 1.0
MOST_MATCHES = 200
MOST_PLACES = 20_000
_SEARCH_BLOCK_BYTES = 4 * 1_048_576
# What makes no letter, within a line: newlines are never part of it, so that lines can be counted.
_ESCAPE = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[PX^_][^\x1b\n]*|[ -/]*[0-~]?)"
)

_UP = re.compile(rb"(\x1b\[\d*[AF])")

Line = dict[str, Any]
_counts = LineCounts()


@contextmanager
def opened(path: str) -> Iterator[int]:
    """The file of a log. What is no plain file is never read: it might not end, or might wait."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except FileNotFoundError:
        raise NotFound("there is no log", f"{quoted(path)} is not there (any more)") from None
    except OSError as error:
        raise Failed(f"{quoted(path)} can't be read: {error.strerror}", "") from None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise Failed(f"{quoted(path)} is no plain file", "its output went elsewhere")
        yield fd
    finally:
        os.close(fd)


def after(path: str, start: int, most_bytes: int) -> dict[str, Any]:
    """The lines from a place on; the place should be where a line begins."""
    with opened(path) as fd:
        size = os.fstat(fd).st_size
        if start > size:  # The file was emptied: it begins anew.
            start = 0
        return _lines(fd, start, size, size, most_bytes)


def before(path: str, end: int | None, most_bytes: int) -> dict[str, Any]:
    """The lines before a place where a line begins; before the end if none is named."""
    with opened(path) as fd:
        size = os.fstat(fd).st_size
        end = size if end is None or end > size else end
        hole = hole_in(fd, size)
        if hole is not None and hole[0] < end <= hole[1]:
            end = hole[0]
        start = max(0, end - most_bytes)
        if hole is not None and start <= hole[1] < end:
            start = hole[1]
        elif start > 0:
            start = _line_start(fd, start, end)
        return _lines(fd, start, end, size, most_bytes + BLOCK_BYTES)


def around(path: str, at: int, most_bytes: int) -> dict[str, Any]:
    """Lines on both sides of a place, wherever in a line it is."""
    with opened(path) as fd:
        size = os.fstat(fd).st_size
        hole = hole_in(fd, size)
        at = behind(min(at, size), hole)
        start = max(0, at - most_bytes // 2)
        if hole is not None and hole[0] <= start <= hole[1]:
            start = hole[1]
        elif start > 0:
            start = _line_start(fd, start, at)
        return _lines(fd, start, size, size, most_bytes)


def search(path: str, text: str, start: int, *, places: bool = False) -> dict[str, Any]:
    """Lines that show a text, from a place on; `next` where it was not finished.

    With `places` only where the lines are, and more of them at a time; else also their numbers.
    """
    sought = _Sought(text)
    most = MOST_PLACES if places else MOST_MATCHES
    until = time.monotonic() + SEARCH_S
    matches: list[Line] = []
    with opened(path) as fd:
        size = os.fstat(fd).st_size
        position, hole = start, hole_in(fd, size)
        number = None if places else _counts.number_at(fd, start, hole)
        while position < size:
            position = behind(position, hole)
            length = readable_to(position, size, hole) - position
            block = os.pread(fd, min(_SEARCH_BLOCK_BYTES, length), position)
            if not block:
                break
            cut = block.rfind(b"\n") + 1
            if cut and position + len(block) < size:
                block = block[:cut]  # The line that was cut belongs to the next block.
            counted = 0  # up to where in the block
            for at, line in sought.lines(block):
                place: Line = {"at": position + at}
                if not places:
                    if number is not None:
                        number += block.count(b"\n", counted, at)
                        counted = at
                    place |= {"line": number, "text": _shown(line)}
                matches.append(place)
                if len(matches) >= most:
                    after_it = position + at + len(line) + 1
                    return _found(matches, after_it if after_it < size else None, size)
            if number is not None:
                number += block.count(b"\n", counted)
            position += len(block)
            if time.monotonic() > until and position < size:
                return _found(matches, position, size)
        return _found(matches, None, size)


def _found(matches: list[Line], following: int | None, size: int) -> dict[str, Any]:
    return {"matches": matches, "next": following, "size": size}


class _Sought:
    """A text that is looked for in what lines show: without colours, and in their last state."""

    def __init__(self, text: str) -> None:
        self._text = text.casefold()
        letters = (c if c.isascii() else f"(?:{c}|{c.lower()}|{c.upper()})" for c in text)
        letters = (re.escape(c) if c.isascii() else c for c in letters)
        self._pattern = re.compile("".join(letters).encode(), re.IGNORECASE)

    def lines(self, block: bytes) -> Iterator[tuple[int, bytes]]:
        """Each line of a block that shows the text, with its place, once."""
        plain = _ESCAPE.sub(b"", block) if b"\x1b" in block else block
        begin = at = end = 0  # in the block, and in what of it is plain
        for match in self._pattern.finditer(plain):
            if match.start() < end:
                continue
            for _ in range(plain.count(b"\n", at, match.start())):
                begin = block.find(b"\n", begin) + 1
            at = match.start()
            newline = plain.find(b"\n", match.end())
            end = len(plain) if newline < 0 else newline
            newline = block.find(b"\n", begin)
            line = block[begin : len(block) if newline < 0 else newline]
            shown = tamed(last_state(line), colours=False).decode(errors="replace")
            if self._text in shown.casefold():
                yield begin, line


# ---------------------------------------------------------------------- lines


def _lines(fd: int, start: int, end: int, size: int, most_bytes: int) -> dict[str, Any]:
    """Whole lines from `start`, up to `end` or until there are enough."""
    lines: list[Line] = []
    position = start
    partial = False
    hole = hole_in(fd, size)
    first = _counts.number_at(fd, start, hole)
    shown = 0  # A line that is long, and shown short, does not count for more than a block.
    while position < end and shown < most_bytes:
        position = behind(position, hole)
        length = readable_to(position, end, hole) - position
        block = os.pread(fd, min(BLOCK_BYTES, length), position)
        if not block:
            break
        *whole, rest = block.split(b"\n")
        for line in whole:
            lines.append({"at": position, "text": _shown(line)})
            position += len(line) + 1
            shown += len(line) + 1
        if whole:
            continue
        # A line longer than a block, or the last one, which has no end yet.
        if len(rest) < BLOCK_BYTES and position + len(rest) >= size:
            lines.append({"at": position, "text": _shown(rest)})
            partial = True
            position += len(rest)
            break
        line_end, is_whole = _line_end(fd, position, size)
        lines.append({"at": position, "text": _long_line(fd, position, line_end)})
        partial = not is_whole and line_end >= size
        position = line_end + is_whole
        shown += BLOCK_BYTES
    return {
        "start": start, "end": position, "size": size, "first": first, "lines": lines,
        "partial": partial,
    }  # fmt: skip


def _line_start(fd: int, start: int, end: int) -> int:
    """Where a line begins: the first after `start`, else that in which `start` is."""
    position = start
    while position < end:
        block = os.pread(fd, min(BLOCK_BYTES, end - position), position)
        newline = block.find(b"\n")
        # A newline at the very end begins nothing that is before the end.
        if newline >= 0 and position + newline + 1 < end:
            return position + newline + 1
        if not block:
            break
        position += len(block)
    position = start
    while position > 0 and start - position < MOST_SOUGHT_BYTES:
        begin = max(0, position - BLOCK_BYTES)
        newline = os.pread(fd, position - begin, begin).rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        position = begin
    return position


def _line_end(fd: int, start: int, size: int) -> tuple[int, bool]:
    """Where the line ends that begins at `start`, and whether it does at all."""
    position = start
    while position < size and position - start < MOST_SOUGHT_BYTES:
        block = os.pread(fd, 1_048_576, position)
        if not block:
            break
        newline = block.find(b"\n")
        if newline >= 0:
            return position + newline, True
        position += len(block)
    return min(position, size), False


def _long_line(fd: int, start: int, end: int) -> str:
    """What a very long line shows: its last state, or its beginning."""
    tail = os.pread(fd, min(BLOCK_BYTES, end - start), max(start, end - BLOCK_BYTES))
    if b"\r" in tail.rstrip(b"\r"):
        return _shown(tail)
    return _shown(os.pread(fd, min(BLOCK_BYTES, end - start), start), end - start)


def _shown(line: bytes, whole_bytes: int | None = None) -> str:
    """A line as it is shown: its last state, and not without end."""
    line = line.rstrip(b"\r")
    if b"\x1b[" in line and (parts := _UP.split(line))[1:]:
        line = b"".join(part[part.rfind(b"\r") + 1 :] for part in parts)
    text = line[line.rfind(b"\r") + 1 :].decode(errors="replace")
    if len(text) > MOST_LINE_CHARS:
        more = len(text) - MOST_LINE_CHARS if whole_bytes is None else whole_bytes - MOST_LINE_CHARS
        text = f"{text[:MOST_LINE_CHARS]} … {more} more"
    return text
