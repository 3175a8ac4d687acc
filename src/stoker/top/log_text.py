"""A log as lines of styled text: colours become styles, and nothing else of a terminal's survives.

Pure but for `LogTail`, which reads the file. The tail of a huge log is all that is ever in memory.
"""

from __future__ import annotations

import re
from collections import deque

from stoker.text.logfile import LogFile
from stoker.text.loglines import Collapser, tamed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from stoker.top.paint import Line

MOST_LINES = 5_000
MOST_LINE_BYTES = 16_384  # of one line as shown; what comes after is told as left out
_FIRST_LINES = 2_000
_MOST_BACKLOG_BYTES = 1_048_576

_SGR = re.compile(r"\x1b\[([0-9;:]*)m")
_SWITCHES = {
    1: ("bold", True), 2: ("dim", True), 3: ("italic", True), 4: ("underline", True),
    7: ("reverse", True), 9: ("strike", True), 22: ("bold", False), 23: ("italic", False),
    24: ("underline", False), 27: ("reverse", False), 29: ("strike", False),
}  # fmt: skip


class Pen:
    """The style that the escapes so far have left, as words."""

    def __init__(self, like: Pen | None = None) -> None:
        self._switches: dict[str, None] = {} if like is None else dict(like._switches)
        self._front: str = "" if like is None else like._front
        self._back: str = "" if like is None else like._back

    @property
    def style(self) -> str:
        """The words."""
        return " ".join([*self._switches, *(c for c in (self._front, self._back) if c)])

    def take(self, codes: str) -> None:
        """Follow one sequence such as "1;31"; what makes no sense changes nothing."""
        numbers = [int(part[:9]) if part else 0 for part in re.split("[;:]", codes)]
        place = 0
        while place < len(numbers):
            code = numbers[place]
            place += 1
            if code == 0:
                self._switches.clear()
                self._front = self._back = ""
            elif code in _SWITCHES:
                self._switch(*_SWITCHES[code])
            elif 30 <= code <= 37 or 90 <= code <= 97:
                self._front = f"fg:{code - 30 if code < 90 else code - 82}"
            elif 40 <= code <= 47 or 100 <= code <= 107:
                self._back = f"bg:{code - 40 if code < 100 else code - 92}"
            elif code == 39:
                self._front = ""
            elif code == 49:
                self._back = ""
            elif code in (38, 48):
                colour, place = _extended(numbers, place)
                if colour and code == 38:
                    self._front = f"fg:{colour}"
                elif colour:
                    self._back = f"bg:{colour}"

    def _switch(self, word: str, on: bool) -> None:
        if on:
            self._switches[word] = None
            return
        self._switches.pop(word, None)
        if word == "bold":
            self._switches.pop("dim", None)


def _extended(numbers: list[int], place: int) -> tuple[str, int]:
    """A colour of 256, or of all, and the place after it."""
    kind = numbers[place] if place < len(numbers) else None
    if kind == 5 and place + 1 < len(numbers) and numbers[place + 1] < 256:
        return str(numbers[place + 1]), place + 2
    if kind == 2 and place + 3 < len(numbers):
        red, green, blue = numbers[place + 1 : place + 4]
        if max(red, green, blue) < 256:
            return f"#{red:02x}{green:02x}{blue:02x}", place + 4
    return "", len(numbers)


def styled(raw: bytes, pen: Pen) -> Line:
    """One line of a log, without its end."""
    left_out = len(raw) - MOST_LINE_BYTES
    kept = raw[:MOST_LINE_BYTES] if left_out > 0 else raw
    text = tamed(kept, colours=True).decode(errors="replace").expandtabs()
    line: Line = []
    at = 0
    for match in _SGR.finditer(text):
        if match.start() > at:
            line.append((_printable(text[at : match.start()]), pen.style))
        pen.take(match[1])
        at = match.end()
    if at < len(text):
        line.append((_printable(text[at:]), pen.style))
    if left_out > 0:
        line.append((f" … {left_out:,} bytes more", "dim"))
    return line


def _printable(text: str) -> str:
    """What `tamed` leaves may still hold invisible letters that turn the direction of text."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


class LogTail:
    """The last lines of a log that grows; the file may not be there yet, or be replaced."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.lines: deque[Line] = deque(maxlen=MOST_LINES)
        self.partial: Line = []  # the line that has not ended yet
        self.skipped_bytes = 0  # how much of the file comes before what was read
        self.dropped = 0  # how many lines were read and let go since
        self.missing = True
        self._file: LogFile | None = None
        self._collapser = Collapser()
        self._pen = Pen()

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def read(self) -> bool:
        """Take in what is new; whether anything was. OSError if the file can't be read."""
        if self._file is not None and self._file.was_replaced():
            self.close()
            self._begin_anew()
        if self._file is None:
            try:
                self._file = LogFile(self.path)
            except FileNotFoundError:
                return False
            self.missing = False
            self.skipped_bytes = self._file.skip_to_last(_FIRST_LINES)
        if self._file.backlog_bytes() > _MOST_BACKLOG_BYTES:
            # That is faster than anyone reads: only the end is shown.
            self._begin_anew()
            self.skipped_bytes = self._file.skip_to_last(_FIRST_LINES)
        changed = False
        for data in self._file.new_pieces():
            changed = True
            done = self._collapser.feed(data)
            lines = done.split(b"\n")
            self._take(lines if lines[-1] else lines[:-1])
        if changed:
            self.partial = styled(self._collapser.partial, Pen(self._pen))
        return changed

    def _begin_anew(self) -> None:
        self.lines.clear()
        self.partial = []
        self.dropped = 0
        self._collapser, self._pen = Collapser(), Pen()

    def _take(self, lines: Iterable[bytes]) -> None:
        for raw in lines:
            if len(self.lines) == MOST_LINES:
                self.dropped += 1
            self.lines.append(styled(raw.removesuffix(b"\r"), self._pen))
