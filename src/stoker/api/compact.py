"""Many jobs in few words: what they share is said once, and what each has for itself beside it.

See `Submit.each` in `messages`. Where jobs differ in more than that, they are said one by one.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

OWN = frozenset(("argv", "shell", "name", "priority", "out", "err", "params", "point"))
_FEW = 10


def in_few_words(jobs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The fields of a submission that queues these jobs."""
    if len(jobs) <= _FEW:
        return {"jobs": jobs}
    shared = {name: value for name, value in jobs[0].items() if name not in OWN}
    each = []
    for job in jobs:
        own = {}
        as_all = 0
        for name, value in job.items():
            if name in OWN:
                own[name] = value
            elif name in shared and shared[name] == value:
                as_all += 1
            else:
                return {"jobs": jobs}
        if as_all != len(shared):
            return {"jobs": jobs}
        each.append(own)
    return {"jobs": [shared], "each": each}
