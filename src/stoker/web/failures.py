"""What failed of late, by what its logs say: a thousand jobs often have the same three troubles."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any

from stoker.text.failing import complaint_of
from stoker.web.link import Link

MOST_LOOKED_AT = 500
_MOST_IDS = 100  # of one message
# Reasons that say less than the log; others, such as a time limit, are the message themselves.
_NEEDS_LOG = re.compile(r"exit|signal|out of memory")
# What differs between two jobs with the same trouble: numbers, addresses, quoted words, paths.
_DIFFERS = re.compile(r"0x[0-9a-f]+|(?<![A-Za-z_])[0-9]+(?:[.:][0-9]+)*|/[\w./-]+", re.IGNORECASE)

Answer = dict[str, Any]


async def by_message(link: Link) -> Answer:
    """The latest failures, the most frequent message first."""
    listed = await link.call(
        "browse", states=["failed", "lost"], sort="ended", descending=True, limit=MOST_LOOKED_AT
    )
    ids = [job["id"] for job in listed["jobs"]]
    shown = await link.call("show", select={"ids": [str(one) for one in ids]}) if ids else None
    jobs = sorted(shown["jobs"], key=lambda job: -job["ended_at_ms"]) if shown else []
    lines = await asyncio.to_thread(lambda: [complaint_of(job) for job in jobs])
    return {"failures": grouped(jobs, lines), "looked_at": len(jobs), "total": listed["total"]}


def grouped(jobs: Sequence[Mapping[str, Any]], lines: Sequence[str]) -> list[Answer]:
    """Jobs whose messages differ in numbers and paths only, together; the latest job first."""
    found: dict[str, Answer] = {}
    for job, line in zip(jobs, lines, strict=True):
        reason = job["reason"] or ""
        said = line if not reason or _NEEDS_LOG.match(reason) else ""
        one = found.setdefault(
            _DIFFERS.sub("#", said) or reason,
            {"message": said or reason, "count": 0, "ids": [], "groups": [], "reasons": [],
             "last_at_ms": job["ended_at_ms"], "first_at_ms": job["ended_at_ms"]},
        )  # fmt: skip
        one["count"] += 1
        one["first_at_ms"] = min(one["first_at_ms"], job["ended_at_ms"])
        if len(one["ids"]) < _MOST_IDS:
            one["ids"].append(job["id"])
        for name, value in (("groups", job["group"]), ("reasons", job["reason"])):
            if value and value not in one[name] and len(one[name]) < 10:
                one[name].append(value)
    return sorted(found.values(), key=lambda one: (-one["count"], -one["last_at_ms"]))
