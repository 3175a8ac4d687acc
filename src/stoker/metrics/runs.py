"""What the runs of jobs have found: attempts that were put back, and the one that goes on, are one.

It is kept with the latest attempt of a run as one source more, RUN, which is made of the run before
it and of what that attempt has found itself. Of older attempts it is deleted again, so that it is
bounded. Law: it can be made at any moment of what is kept of the attempts, in whatever order these
were read.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterator, Mapping

from stoker.metrics.lookup import RUN
from stoker.metrics.series import Series

_OF_ATTEMPT = "job = :job AND attempt = :attempt"
ByName = dict[str, Series]


def gone_on(earlier: Mapping[str, Series], later: Mapping[str, Series]) -> ByName:
    """The series of an attempt, and of the run before it with which it goes on."""
    found = {**earlier, **later}
    for name in earlier.keys() & later.keys():
        found[name] = later[name].going_on_from(earlier[name])
    return found


def changed_by(
    cursor: sqlite3.Cursor, job: int, attempt: int, names: Collection[str] | None
) -> Iterator[tuple[int, ByName]]:
    """What is to be kept of runs, by attempt, when some metrics of an attempt have changed.

    These are its own run, and those of the attempts that have gone on with it. `names`: None for
    all, of which nothing is kept any more.
    """
    rows = cursor.execute(
        "SELECT attempt, after FROM attempts WHERE job = ? AND after IS NOT NULL", (job,)
    ).fetchall()
    befores: dict[int, int] = dict(rows)
    later = {before: at for at, before in rows}
    at: int | None = attempt
    while at is not None:
        if at in befores and _has(cursor, job, at, f"source < {RUN}"):
            wanted = names if _has(cursor, job, at, f"source = {RUN}") else None
            before = _so_far(cursor, job, befores[at], befores, wanted)
            own = _found(cursor, job, at, wanted, f"source < {RUN}")
            yield at, gone_on(before, own)
            for table in ("series", "curves"):
                cursor.execute(
                    f"DELETE FROM {table} WHERE job = ? AND attempt < ? AND source = ?",
                    (job, befores[at], RUN),
                )
        at = later.get(at)


def _so_far(
    cursor: sqlite3.Cursor,
    job: int,
    attempt: int,
    befores: Mapping[int, int],
    names: Collection[str] | None,
) -> ByName:
    """What the run up to an attempt has found."""
    chain = [attempt]
    while chain[-1] in befores and not _has(cursor, job, chain[-1], f"source = {RUN}"):
        chain.append(befores[chain[-1]])
    found: ByName = {}
    for at in reversed(chain):
        found = gone_on(found, _found(cursor, job, at, names, "true"))
    return found


def _has(cursor: sqlite3.Cursor, job: int, attempt: int, which: str) -> bool:
    query = f"SELECT 1 FROM series WHERE {_OF_ATTEMPT} AND {which} LIMIT 1"
    return cursor.execute(query, {"job": job, "attempt": attempt}).fetchone() is not None


def _found(
    cursor: sqlite3.Cursor, job: int, attempt: int, names: Collection[str] | None, which: str
) -> ByName:
    """The series of an attempt by name, of the sources that are meant."""
    named = "" if names is None else " AND name IN (SELECT value FROM json_each(:names))"
    rows = cursor.execute(
        f"SELECT name, record, max(source) FROM curves WHERE {_OF_ATTEMPT} AND {which}{named}"
        " GROUP BY name",
        {"job": job, "attempt": attempt, "names": json.dumps(list(names or ()))},
    )
    return {name: Series.from_record(json.loads(record)) for name, record, _ in rows.fetchall()}
