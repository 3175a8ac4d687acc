"""The line of a log that says why a job has failed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from stoker.wholefile import end_of

MOST_CHARS = 300
_LOOKED_AT_BYTES = 16 * 1024
_NO_TEXT = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")
_COMPLAINS = re.compile(r"error|exception|fatal|killed|abort|fault", re.IGNORECASE)


def complaint_of(job: Mapping[str, Any]) -> str:
    """The failing line of a job, as it is shown: from its errors or else from its output."""
    for path in (job.get("err_log"), job.get("log")):
        line = failing_line(path) if path else ""
        if line:
            return line
    return ""


def failing_line(path: str) -> str:
    """The last line of a log that complains or, if none does, the last that says anything."""
    text = end_of(path, _LOOKED_AT_BYTES)
    lines = [_NO_TEXT.sub("", line).strip() for line in re.split(r"[\r\n]+", text)]
    lines = [line for line in lines if line]
    complaints = [line for line in lines if _COMPLAINS.search(line)]
    found = (complaints or lines or [""])[-1]
    return found if len(found) <= MOST_CHARS else f"{found[:MOST_CHARS]}…"
