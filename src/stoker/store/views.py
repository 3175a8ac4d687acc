"""The questions of front ends, answered from the record: which jobs, and what is known of each.

Values always travel as SQL parameters; the only text put into a query is written in this file.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from stoker.core.model import QUEUED, Cause, Exit, JobState, Outcome
from stoker.store import matching
from stoker.store.database import point_hashes
from stoker.store.matching import Term
from stoker.store.named_sql import queries
from stoker.store.rows import need_from, terms_from

_OF_ATTEMPT = (
    "gpus", "placed_at_ms", "started_at_ms", "pid", "place", "mem_mib", "peak_mib",
    "suspended_at_ms", "suspended_ms",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Filter:
    """Which jobs; what is None or empty does not restrict."""

    states: Sequence[str] = ()
    group: str | None = None
    names: Sequence[str] = ()  # shell patterns, any of which may match
    user: str | None = None
    terms: Sequence[Term] = ()

    def where(self) -> tuple[str, dict[str, Any]]:
        """The condition and its parameters."""
        conditions = ["1"]
        names, states = numbered("name", self.names), numbered("state", self.states)
        if states:
            conditions.append(f"j.state IN (:{', :'.join(states)})")
        if self.group is not None:
            conditions.append('j."group" = :group')
        if names:
            # A name may have the letters of a pattern in it, and then still means itself.
            either = " OR ".join(f"j.name = :{key} OR j.name GLOB :{key}" for key in names)
            conditions.append(f"({either})")
        if self.user is not None:
            conditions.append("j.user = :user")
        values = {"group": self.group, "user": self.user, **names, **states}
        of_terms, more = matching.conditions(self.terms)
        return " AND ".join([*conditions, *of_terms]), values | more


def numbered(name: str, values: Iterable[str]) -> dict[str, str]:
    """A parameter for each value: name0, name1, and so on."""
    return {f"{name}{number}": value for number, value in enumerate(values)}


class Views:
    """Read-only questions to the database."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._sql = queries()

    def rows(self, job_ids: Iterable[int]) -> list[dict[str, Any]]:
        """What is known of these jobs, in the order of their ids; unknown ids are left out."""
        ids = json.dumps(list(job_ids))
        return [_decoded(row) for row in dicts(self._run("job_rows", job_ids=ids))]

    def endings(self, job_ids: Iterable[int]) -> Iterator[dict[str, Any]]:
        """How these jobs have ended, and no more than that."""
        return dicts(self._run("ending_rows", job_ids=json.dumps(list(job_ids))))

    def attempts(self, job_id: int) -> list[dict[str, Any]]:
        """All attempts of a job."""
        rows = list(dicts(self._run("attempts_of", job_id=job_id)))
        for row in rows:
            row["gpus"] = json.loads(row["gpus"])
        return rows

    def matching(self, wanted: Filter) -> list[int]:
        """The ids of the jobs that a filter lets through."""
        where, values = wanted.where()
        query = self._sql["matching_ids"].format(where=where)
        return [row[0] for row in self._connection.execute(query, values)]

    def last_ended(self, count: int) -> list[int]:
        """The ids of the jobs that ended last."""
        return self._ids("ids_of_last_ended", most=count)

    def ended_before(self, before_ms: int, most: int = -1) -> list[int]:
        """The ids of the jobs that ended before a moment, the first to end first."""
        return self._ids("ids_ended_before", before_ms=before_ms, most=most)

    def ended_between(
        self, after: tuple[int, int], before_ms: int, most: int
    ) -> list[tuple[int, int, int]]:
        """The next that ended after another and before a moment: when, their ids and attempts."""
        after_ms, after_id = after
        asked = {"after_ms": after_ms, "after_id": after_id, "before_ms": before_ms, "most": most}
        return self._run("ended_between", **asked).fetchall()

    def first_unfinished(self, count: int) -> list[int]:
        """The ids of the oldest jobs that are not final."""
        return self._ids("ids_of_first_unfinished", most=count)

    def between(self, first: int, last: int) -> list[int]:
        """The ids from first to last that exist."""
        return self._ids("ids_between", first=first, last=last)

    def unfinished_writers(self, path: str) -> list[int]:
        """Those of the newest unfinished jobs that name this file as theirs, the latest first."""
        return self._ids("unfinished_writers", path=path, most=10_000)

    def output_files(self) -> list[tuple[int, str | None, str | None, str | None]]:
        """Id, name and named files of the newest unfinished jobs that have any, the latest first.

        There are fewer of them: the disk is to be asked for each.
        """
        return self._run("output_files", most=1_000).fetchall()

    def states_between(self, first: int, last: int) -> dict[int, str]:
        """The states of the jobs from first to last that exist."""
        return dict(self._run("states_between", first=first, last=last).fetchall())

    def last_id(self) -> int | None:
        """The id of the job that was submitted last."""
        found: int | None = self._run("last_id").fetchone()[0]
        return found

    def submission(self, token: str) -> list[int] | None:
        """The jobs of a submission that was taken before."""
        row = self._run("submission", token=token).fetchone()
        return None if row is None else list(json.loads(row[0]))

    def run_times(self, kind: str, most: int) -> list[tuple[int, int, str | None]]:
        """How long the latest jobs of a kind ran that ended well, on how many GPUs, parameters."""
        return self._run("run_times", kind=kind, most=most).fetchall()

    def at_points(self, points: Sequence[str]) -> dict[str, tuple[int, str]]:
        """The id and state of the latest job at each of these points."""
        asked = msgspec.json.encode(sorted(set(point_hashes(points)))).decode()
        rows = self._run("jobs_at_points", hashes=asked).fetchall()
        if not rows:
            return {}  # As for most sweeps: none of them was tried.
        wanted = set(points)
        return {point: (job_id, state) for point, job_id, state in rows if point in wanted}

    def points_of(self, job_ids: Iterable[int]) -> dict[int, str | None]:
        """The point that each of these jobs is, if it is one."""
        return dict(self._run("points_of", job_ids=json.dumps(list(job_ids))).fetchall())

    def groups_of(self, job_ids: Iterable[int]) -> dict[str, int]:
        """How many of these jobs are in each group."""
        return dict(self._run("groups_of", job_ids=json.dumps(list(job_ids))).fetchall())

    def calls_of(self, job_ids: Iterable[int]) -> dict[int, str]:
        """The file of the call of each of these jobs that is one."""
        return dict(self._run("calls_of", job_ids=json.dumps(list(job_ids))).fetchall())

    def kinds_of_unfinished(self) -> dict[int, tuple[str, str | None]]:
        """The kind and the parameters of every job that is not final."""
        rows = self._run("kinds_of_unfinished")
        return {job_id: (kind, params) for job_id, kind, params in rows}

    def _run(self, query: str, **values: Any) -> sqlite3.Cursor:
        return self._connection.execute(self._sql[query], values)

    def _ids(self, query: str, **values: Any) -> list[int]:
        return [row[0] for row in self._run(query, **values)]


def dicts(cursor: sqlite3.Cursor) -> Iterator[dict[str, Any]]:
    """Rows by the names of their columns."""
    names = [column[0] for column in cursor.description]
    return (dict(zip(names, row, strict=True)) for row in cursor)


def outcome_of(row: dict[str, Any]) -> Outcome | None:
    """How the job (or attempt) of a row ended, if it has."""
    if row["ended_at_ms"] is None:
        return None
    code, number = row["exit_code"], row["signal"]
    how = None if code is None and number is None else Exit(code, number)
    return Outcome(JobState(row["state"]), Cause(row["cause"]), how, row["detail"] or "")


def without_past(row: dict[str, Any]) -> None:
    """Leave out the attempt of a job that was queued again since, and tell since when it waits."""
    state, ended_at_ms = row["state"], row["ended_at_ms"]
    over_at_ms = row.pop("attempt_ended_at_ms")
    moments_ms = [row["submitted_at_ms"], row.pop("queued_again_at_ms"), over_at_ms]
    if row["attempt"] > 1:  # At the cluster it waits with an attempt that is active.
        moments_ms.append(row["placed_at_ms"])
    waits = state in QUEUED or state == JobState.SUBMITTED
    row["queued_at_ms"] = max(at_ms or 0 for at_ms in moments_ms) if waits else None
    # It may also have been called off while it waited to be tried again.
    if state in QUEUED or (over_at_ms and ended_at_ms and over_at_ms < ended_at_ms):
        row.update((name, None) for name in _OF_ATTEMPT if name in row)


def _decoded(row: dict[str, Any]) -> dict[str, Any]:
    without_past(row)
    row["need"] = need_from(row["need"])
    row["terms"] = terms_from(row["terms"])
    for name in ("launch", "requires", "gpus", "params"):
        row[name] = json.loads(row[name]) if row[name] else None
    row["launch"] = {"argv": [], "shell": None, **row["launch"]}
    return row
