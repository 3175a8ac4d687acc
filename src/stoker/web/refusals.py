"""What was refused: counted by kind, and said in the log, but not once for each.

Strangers choose how many requests there are, so they must not choose how long the log gets.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable

log = logging.getLogger("stoker.web")

SAY_AGAIN_AFTER_S = 60.0
_MOST_KINDS = 200


class Refusals:
    """How many requests were refused, by the reason they were given."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def count(self, reason: str) -> None:
        """One more. The reasons are the page's own sentences, so there are only so many."""
        self.counts[reason] = self.counts.get(reason, 0) + 1
        log.warning(f"a request was refused: {reason}")


class OncePerMinute(logging.Filter):
    """Lets one line of each kind through in a minute, and tells how many were left out."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now_s = now_s
        self._kinds: dict[Hashable, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is written."""
        error = record.exc_info[0] if record.exc_info else None
        kind: Hashable = (record.name, record.levelno, str(record.msg), error)
        if kind not in self._kinds and len(self._kinds) >= _MOST_KINDS:
            kind = None  # So many kinds are one.
        until_s, left_out = self._kinds.get(kind, (0.0, 0))
        now_s = self._now_s()
        if now_s < until_s:
            self._kinds[kind] = (until_s, left_out + 1)
            return False
        self._kinds[kind] = (now_s + SAY_AGAIN_AFTER_S, 0)
        if left_out:
            record.msg = f"{record.msg} (and {left_out} more like it)"
        return True
