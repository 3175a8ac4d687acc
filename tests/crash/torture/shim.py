"""Which calls of the C library fail now, in which of Stoker's processes. See c/shim.c."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

KINDS = ("write", "sync", "rename", "open", "fork")
WHO = {"daemon": 1, "keeper": 2, "page": 4, "client": 8}

_HEAD = struct.Struct("<2I")
_FAULT = struct.Struct("<4I")
_SIZE = _HEAD.size + _FAULT.size * len(KINDS)


class Shim:
    """The page of memory that all processes share."""

    def __init__(self, path: Path, seed: int) -> None:
        path.write_bytes(_HEAD.pack(seed & 0xFFFFFFFF, 0) + bytes(_SIZE - _HEAD.size))
        with path.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), _SIZE)

    def let_fail(self, kind: str, who: int, error: int, per_thousand: int) -> None:
        """From now on, so many of a thousand calls of that kind fail."""
        at = self._at(kind)
        # `who` is written last: with it the fault is on.
        struct.pack_into("<2I", self._page, at + 4, error, per_thousand)
        struct.pack_into("<I", self._page, at, who)

    def mend(self, kind: str) -> None:
        """Let calls of that kind be."""
        struct.pack_into("<I", self._page, self._at(kind), 0)

    def mend_all(self) -> None:
        """Let all calls be."""
        for kind in KINDS:
            self.mend(kind)

    def failed(self) -> dict[str, int]:
        """How many calls of each kind have failed."""
        return {kind: _FAULT.unpack_from(self._page, self._at(kind))[3] for kind in KINDS}

    def _at(self, kind: str) -> int:
        return _HEAD.size + _FAULT.size * KINDS.index(kind)
