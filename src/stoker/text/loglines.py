"""The text of a log as a terminal would have left it: progress bars collapsed, escapes tamed.

Pure and streaming: bytes go in as they are read, whole lines come out, and never more than a
bounded piece of a line is kept, however long the log or its lines are.
"""

from __future__ import annotations

import os
import re

from stoker.holes import hole_in

BLOCK_BYTES = 65_536
# A line longer than this is passed on in pieces instead of being kept.
MAX_LINE_BYTES = 1_048_576
# How far back the beginning of the last lines is sought: a progress bar that never ends its line
# must not make the whole of a huge log be read.
MAX_SOUGHT_BYTES = 64 * 1_048_576

_ESCAPES = re.compile(
    rb"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movements, erasing
    rb"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC: titles, links, the clipboard
    rb"|\x1b[PX^_][^\x1b]*(?:\x1b\\)?"  # DCS and other strings
    rb"|\x1b[ -/]*[0-~]?"  # two-letter escapes, and an escape alone
    rb"|\xc2[\x80-\x9f]"  # the C1 controls, in UTF-8
    rb"|[\x00-\x08\x0b-\x1f\x7f]"  # other controls; newline and tab stay
)
_COLOUR = re.compile(rb"\x1b\[[0-9;:]*m\Z")


def tamed(text: bytes, *, colours: bool) -> bytes:
    """Text that can't move the cursor or worse; colours are kept if they are wanted."""

    def kept(match: re.Match[bytes]) -> bytes:
        return match[0] if colours and _COLOUR.match(match[0]) else b""

    return _ESCAPES.sub(kept, text)


def last_state(line: bytes) -> bytes:
    """What a line that was overwritten with carriage returns showed at last.

    A carriage return at its very end stays: it belongs to the end of the line.
    """
    body = line.rstrip(b"\r")
    ending = line[len(body) : len(body) + 1]
    return body[body.rfind(b"\r") + 1 :] + ending


class Collapser:
    """Takes a log in pieces and gives it back in whole lines, each in its last state."""

    def __init__(self) -> None:
        self.partial = b""  # the line that has not ended yet, in its state of now

    def feed(self, piece: bytes) -> bytes:
        """The lines that are complete with this piece."""
        data = self.partial + piece
        end = data.rfind(b"\n") + 1
        done, self.partial = data[:end], data[end:]
        if b"\r" in done:
            done = b"\n".join(map(last_state, done.split(b"\n")))
        if b"\r" in self.partial:
            self.partial = last_state(self.partial)
        if len(self.partial) > MAX_LINE_BYTES:
            done, self.partial = done + self.partial, b""
        return done


def start_of_last_lines(fd: int, size: int, lines: int) -> int:
    """Where the last `lines` lines of a file begin; read from its end, block by block."""
    if lines <= 0 or size == 0:
        return size
    position = size
    wanted = lines
    if os.pread(fd, 1, size - 1) == b"\n":
        wanted += 1  # The newline at the very end begins no further line.
    oldest_newline = size
    hole = hole_in(fd, size)
    while position > 0:
        start = max(position - BLOCK_BYTES, 0)
        if hole is not None and hole[0] < position <= hole[1]:
            position = oldest_newline = hole[0]
            continue
        if hole is not None and start < hole[1] < position:
            start = hole[1]
        block = os.pread(fd, position - start, start)
        found = block.count(b"\n")
        if found >= wanted:
            at = len(block)
            for _ in range(wanted):
                at = block.rfind(b"\n", 0, at)
            return start + at + 1
        if found:
            wanted -= found
            oldest_newline = start
        elif oldest_newline - start > MAX_SOUGHT_BYTES:
            return start
        position = start
    return 0
