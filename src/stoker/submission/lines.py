"""Commands out of a stream of bytes: one a line, or several lines that belong together.

Pure and streaming. Empty lines and lines that begin with `#` are passed over. A line that ends in
a backslash goes on in the next one; lines between `<<<` and `>>>` are one command, word for word.
Never more than one command's text is kept, however long a line is.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# The kernel takes no longer word, and a command for the shell is one word.
MOST_COMMAND_BYTES = 128 * 1024 - 1

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Command:
    """A command, and the number of the line on which it begins."""

    __slots__ = ("number", "text")

    def __init__(self, number: int, text: str) -> None:
        self.number = number
        self.text = text


class Refusal:
    """A line that no command can be made of: what is wrong, and what to do."""

    __slots__ = ("hint", "number", "what")

    def __init__(self, number: int, what: str, hint: str) -> None:
        self.number = number
        self.what = what
        self.hint = hint


class LineReader:
    """Takes a stream in pieces of any size and gives its commands."""

    def __init__(self) -> None:
        self._rest = b""  # the line that has not ended yet
        self._number = 0  # of the last whole line
        self._parts: list[bytes] = []  # of the command that has not ended yet
        self._size = 0
        self._begins_at = 0
        self._in_block = False

    def feed(self, piece: bytes) -> Iterator[Command | Refusal]:
        """The commands that are complete with this piece."""
        *lines, rest = piece.split(b"\n")
        if lines and (self._rest or self._parts or self._in_block):
            yield from self._line(self._rest + lines.pop(0))
            self._rest = b""
        all_plain = not (self._parts or self._in_block) and _are_plain(lines)
        for line in lines:
            if all_plain or not (self._parts or self._in_block or not _is_plain(line)):
                self._number += 1
                yield Command(self._number, line.decode())
            else:
                yield from self._line(line)
        # Of a line that is too long already only so much is kept that this stays known.
        self._rest = (self._rest + rest)[: MOST_COMMAND_BYTES + 2]

    def finish(self) -> Iterator[Command | Refusal]:
        """What the end of the stream completes, or leaves incomplete."""
        if self._rest:
            rest, self._rest = self._rest, b""
            yield from self._line(rest)
        if self._in_block:
            yield Refusal(
                self._begins_at, "the block that <<< begins here never ends", "add a line >>>"
            )
        elif self._parts:
            yield Refusal(
                self._number, "it ends in a backslash, but no line follows", "complete the command"
            )
        self._parts, self._in_block = [], False

    def _line(self, raw: bytes) -> Iterator[Command | Refusal]:
        self._number += 1
        if self._number == 1:
            raw = raw.removeprefix(_BYTE_ORDER_MARK)
        raw = raw.removesuffix(b"\r")
        word = raw.strip()
        if self._in_block:
            if word == b">>>":
                self._in_block = False
                yield from self._done()
            else:
                self._keep(raw)
            return
        if not self._parts:
            if not word or word.startswith(b"#"):
                return
            self._begins_at, self._size = self._number, 0
            if word == b"<<<":
                self._in_block = True
                return
            if word == b">>>":
                yield Refusal(self._number, ">>> ends a block that never began", "add a line <<<")
                return
        self._keep(raw)
        if not _goes_on(raw):
            yield from self._done()

    def _keep(self, raw: bytes) -> None:
        self._size += len(raw) + 1
        # One part too many is enough to tell that the command is too long.
        if self._size <= MOST_COMMAND_BYTES + 1:
            self._parts.append(raw)
        elif not self._parts:
            self._parts.append(b"")

    def _done(self) -> Iterator[Command | Refusal]:
        parts, self._parts = self._parts, []
        if self._size > MOST_COMMAND_BYTES + 1:
            yield self._refusal(
                "the command is too long for the system to run", "put it into a script"
            )
            return
        whole = b"\n".join(parts)
        stripped = whole.rstrip()
        if not stripped:
            return
        # A space after a backslash is a space, and no end of the line.
        raw = whole if _goes_on(stripped) else stripped
        if b"\0" in raw:
            yield self._refusal("there is a NUL character in it", "leave it out")
            return
        try:
            yield Command(self._begins_at, raw.decode())
        except UnicodeDecodeError:
            yield self._refusal("it is not valid UTF-8", "write it in UTF-8")

    def _refusal(self, what: str, hint: str) -> Refusal:
        return Refusal(self._begins_at, what, hint)


def _is_plain(raw: bytes) -> bool:
    """True for a line that is a command as it stands, as most are."""
    return (
        raw.isascii()
        and raw[:1].isalnum()
        and raw[-1:].isalnum()
        and len(raw) <= MOST_COMMAND_BYTES
        and b"\0" not in raw
    )


def _sort(code: int) -> int:
    if code == 0 or code >= 128:
        return 0
    return code if code == ord("\n") else ord("a" if chr(code).isalnum() else "-")


# What may stand at the ends of a plain line, what only in its middle, and (0) what nowhere.
_SORTS = bytes(map(_sort, range(256)))


def _are_plain(lines: list[bytes]) -> bool:
    """True if each of these is plain, which is told of all at once."""
    sorts = b"\n".join((b"", *lines, b"")).translate(_SORTS)
    return (
        b"\0" not in sorts
        and b"\n-" not in sorts
        and b"-\n" not in sorts
        and b"\n\n" not in sorts
        and max(map(len, lines), default=0) <= MOST_COMMAND_BYTES
    )


def _goes_on(raw: bytes) -> bool:
    """An odd number of backslashes ends the line: of each pair, one escapes the other."""
    return (len(raw) - len(raw.rstrip(b"\\"))) % 2 == 1


def shown(text: str) -> str:
    """A command in one line."""
    return " ".join(text.replace("\\\n", " ").split()) if "\n" in text else text
