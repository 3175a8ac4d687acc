"""Jobs under the jobs that they wait for, as `stoker ls --tree` draws them.

Each job is drawn once: a skipped one under the job that failed, any other under the last of the
jobs that it requires. The others are named beside it, also those that are not shown.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import lru_cache
from typing import NamedTuple

from stoker.text.ids import ranges
from stoker.text.jobs import FINAL_STATES, note, now_ms, state_colour, time_text
from stoker.text.terminal import Column, clipped, escaped, speaks_unicode, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stoker.text.jobs import Job

# A chain of a thousand jobs must not run out of the terminal: below this, jobs are named.
_DEEPEST = 8
_WIDEST = 200  # columns of a name or command
_BRANCHES = {True: ("├─ ", "└─ ", "│  ", "   "), False: ("|- ", "`- ", "|  ", "   ")}

Span = tuple[int, int]
Required = tuple[int | str, ...]


class _Row(NamedTuple):
    job: Job
    branches: str
    note: str


def job_tree(jobs: list[Job]) -> str:
    """The jobs in columns, with branches from each to those that wait for it."""
    now = now_ms()
    columns = (
        # Names have a column of their own, or a deep job would have no room for its name.
        Column("JOB", lambda row: f"{row.branches}{row.job['id']}"),
        Column("NAME", lambda row: _title(row.job), least=16, middle=True),
        Column("STATE", lambda row: row.job["state"], lambda row: state_colour(row.job)),
        Column("TIME", lambda row: time_text(row.job, now), right=True),
        Column("NOTE", lambda row: row.note,
               lambda row: "red" if row.job["state"] in ("failed", "lost") else "dim", least=24),
    )  # fmt: skip
    return table(columns, _rows(jobs))


def _title(job: Job) -> str:
    """Not the whole of a long script: into a pipe, all rows are as wide as the widest."""
    return clipped(escaped(str(job.get("name") or job["command"])[: _WIDEST + 1]), _WIDEST)


def _rows(jobs: list[Job]) -> list[_Row]:
    by_id = {job["id"]: job for job in sorted(jobs, key=lambda job: int(job["id"]))}
    ids = list(by_id)
    unsuccessful = [i for i in ids if by_id[i]["state"] in FINAL_STATES - {"succeeded"}]
    found: dict[tuple[bool, Required, Required], int | None] = {}
    parents: dict[int, int | None] = {}
    for one, job in by_id.items():  # Thousands may require the same thousands.
        key = (job["state"] == "skipped", *_required(job))
        if key not in found:
            found[key] = _parent(*key, ids, unsuccessful)
        parents[one] = found[key]
    children: dict[int, list[int]] = {}
    for one, parent in parents.items():
        if parent is not None:
            children.setdefault(parent, []).append(one)
    fork, last, pipe, space = _BRANCHES[speaks_unicode()]
    rows = []
    # One after the other, without recursion: chains may be long.
    left = [(one, "", "", 0) for one in reversed(ids) if parents[one] is None]
    while left:
        one, own, below, depth = left.pop()
        under = parents[one] if depth <= _DEEPEST else None
        rows.append(_Row(by_id[one], own, _note(by_id[one], under)))
        followers = children.get(one, [])
        for follower in reversed(followers):
            if depth >= _DEEPEST:
                left.append((follower, own, below, depth + 1))
                continue
            is_last = follower == followers[-1]
            branch = below + (last if is_last else fork)
            left.append((follower, branch, below + (space if is_last else pipe), depth + 1))
    drawn = {row.job["id"] for row in rows}
    return rows + [_Row(by_id[one], "", _note(by_id[one], None)) for one in ids if one not in drawn]


def _required(job: Job) -> tuple[Required, Required]:
    return tuple(job.get("after") or ()), tuple(job.get("after_any") or ())


def _parent(
    skipped: bool, after: Required, after_any: Required, ids: list[int], unsuccessful: list[int]
) -> int | None:
    """Which of the shown jobs to draw a job under; none if none of those it requires is shown."""
    if skipped:
        for first, last in _spans(after):
            at = bisect_left(unsuccessful, first)
            if at < len(unsuccessful) and unsuccessful[at] <= last:
                return unsuccessful[at]
    found = []
    for first, last in (*_spans(after), *_spans(after_any)):
        at = bisect_right(ids, last) - 1
        if at >= 0 and ids[at] >= first:
            found.append(ids[at])
    return max(found, default=None)


@lru_cache(256)
def _spans(required: Required) -> list[Span]:
    """What is required, each as its first and its last id: 7 and "3-5002" alike."""
    spans = []
    for one in required:
        first, _, last = str(one).partition("-")
        spans.append((int(first), int(last or first)))
    return spans


def _note(job: Job, parent: int | None) -> str:
    """The jobs that it requires beside the one that it is drawn under, and what else is of note."""
    beside, words = _beside(*_required(job), parent), note(job)
    # What is drawn is not said again; nor is the one job that it waits for, if that is named.
    is_drawn = parent is not None and job["state"] == "skipped"
    is_drawn |= words.startswith("waits for job") and (
        parent is not None or words == f"waits for job {beside.removeprefix('after ')} to succeed"
    )
    return "; ".join(filter(None, (beside, "" if is_drawn else words)))


@lru_cache(256)
def _beside(after: Required, after_any: Required, parent: int | None) -> str:
    others = [span for span in _spans(after) if span != (parent, parent)]
    also = "also " if parent is not None and len(others) < len(after) else ""
    parts = [f"{also}after {_named(others)}"] if others else []
    if after_any:
        parts.append(f"after any end of {_named(_spans(after_any))}")
    return ", ".join(parts)


def _named(spans: list[Span]) -> str:
    single = [first for first, last in spans if first == last]
    wide = [f"{first}-{last}" for first, last in spans if first != last]
    return ", ".join([*ranges(single), *wide])
