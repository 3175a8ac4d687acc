"""Jobs that are calls of the Python library: each needs files that its submitter made for it.

The submitter deletes them once it has the result (see library/calls.py), so that such a job can't
be run again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from stoker.command_lines import call_of
from stoker.errors import Failed


def done_with(argv: Sequence[str]) -> bool:
    """True for a call whose files are gone."""
    call = call_of(argv)
    return call is not None and not os.path.exists(call[2])


def still_there(rows: list[dict[str, Any]], *, or_refuse: bool) -> list[dict[str, Any]]:
    """The jobs that can be run again as far as their files go; or the first other is an error."""
    found = []
    for row in rows:
        if not done_with(row["launch"]["argv"]):
            found.append(row)
        elif or_refuse:
            raise Failed(
                f"job {row['id']} is a call from Python, whose files were deleted after its end",
                "make the call again in Python",
            )
    return found
