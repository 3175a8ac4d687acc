"""Which jobs a job waits for, which wait for it, and so on, a few steps in both directions."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from typing import Any

# Jobs of one step; of a wide one the first are shown, and it is said that there are more.
MOST_OF_STEP = 40

Run = Callable[..., sqlite3.Cursor]


def related(run: Run, job_id: int, steps: int) -> dict[str, Any]:
    """The jobs around one, as `jobs` and `links` [required, requiring, must it succeed]."""
    links: dict[tuple[int, int], bool] = {}
    found, is_cut = {job_id}, False
    for query, end in (("required_by", 0), ("requiring", 1)):
        step = [job_id]
        for _ in range(steps):
            rows = run(query, job_ids=json.dumps(step), most=MOST_OF_STEP + 1).fetchall()
            is_cut |= len(rows) > MOST_OF_STEP
            rows = rows[:MOST_OF_STEP]
            links |= {(required, requiring): bool(must) for required, requiring, must in rows}
            step = sorted({row[end] for row in rows} - found)
            found |= set(step)
            if not step:
                break
    shown = run("outlines", job_ids=json.dumps(sorted(found))).fetchall()
    jobs = [{"id": i, "name": name, "state": state} for i, name, state in shown]
    known = {job["id"] for job in jobs}
    return {
        "jobs": jobs,
        "links": [[*ends, must] for ends, must in sorted(links.items()) if known.issuperset(ends)],
        "more": is_cut,
    }
