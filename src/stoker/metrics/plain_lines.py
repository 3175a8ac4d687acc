"""The lines of a program's output as plain text, without what only a terminal understands.

Pure, and each line by itself: so it does not matter in which pieces the output came. A line ends at
`\\n` or `\\r`, and where the cursor is moved elsewhere; colours and the like are taken out. A line
that is too long to be one of a training is left out.
"""

from __future__ import annotations

import re

LONGEST_LINE = 16 * 1024

_SAMPLE = 4096
_COLOUR = re.compile(rb"\x1b\[[\d;]*m")
# What a terminal takes as a move elsewhere begins a new line; colours and the like are nothing.
_SEQUENCE = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*(?P<final>[@-~])|\][^\x07\x1b\r\n]*(?:\x07|\x1b\\)?|[ -/]*[0-Z\\^-~])"
)
_MOVES = frozenset(b"ABCDEFGHSTf")
# A bar goes back over itself at once. To make few of many is faster than to search for all.
_BACK = tuple(b"\x08" * count for count in (64, 8, 3))
_UP_AND_DOWN = b"\x1b[A\n"
_NO_TEXT = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def plain_text(block: bytes) -> bytes:
    """The lines of a part of the output that are not empty, with `\\n` between them."""
    if b"\r" in block:
        block = block.replace(b"\r", b"\n")
    if _has_long_line(block):
        # What a move divides is one line still, by which its length is judged.
        block = b"\n".join(line for line in block.split(b"\n") if len(line) <= LONGEST_LINE)
    if b"\x08" in block:
        for many in _BACK:
            block = _replaced(block, many, b"\x08")
        block = block.replace(b"\x08", b"\n")
    if _UP_AND_DOWN in block[:_SAMPLE]:  # Nested bars go up where their line ends anyway.
        block = _replaced(block, _UP_AND_DOWN, b"\n")
    if b"\x1b" in block:
        block = block.replace(b"\x1b[A", b"\n").replace(b"\x1b[K", b"").replace(b"\x1b[2K", b"")
        # Few colours are used again and again, and to replace these is faster than to search. What
        # is left over when all are gone does not depend on the order in which they went.
        for colour in {*_COLOUR.findall(block, 0, _SAMPLE)}:
            block = _replaced(block, colour, b"")
        while b"\x1b" in block and _COLOUR.search(block):
            block = _COLOUR.sub(b"", block)
        if b"\x1b" in block:
            block = _SEQUENCE.sub(_cleaned, block)
    if b"\0" in block:
        block = b"\n".join([line for line in block.split(b"\n") if is_text(line)])
    if b"\n\n" in block:  # Bars leave as many empty lines as others.
        block = b"\n".join(filter(None, block.split(b"\n")))
    return block.strip(b"\n")


def _replaced(block: bytes, old: bytes, new: bytes) -> bytes:
    """As `bytes.replace`, which counts first, and so searches twice."""
    return new.join(block.split(old))


def is_text(line: bytes) -> bool:
    """Whether a line has only bytes that a text may have."""
    return _NO_TEXT.search(line) is None


def _has_long_line(block: bytes) -> bool:
    """A long line has at least one of these places in it."""
    for place in range(LONGEST_LINE, len(block), LONGEST_LINE):
        end = block.find(b"\n", place)
        if (len(block) if end < 0 else end) - block.rfind(b"\n", 0, place) - 1 > LONGEST_LINE:
            return True
    return False


def _cleaned(found: re.Match[bytes]) -> bytes:
    final = found["final"]
    return b"\n" if final and final[0] in _MOVES else b""
