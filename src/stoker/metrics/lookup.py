"""What the daemon finds among the series that are kept; see `kept` for how they are."""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any

from stoker.errors import Failed
from stoker.metrics.series import Point, Series, said_if
from stoker.metrics.spec import Key

FORM = 2  # of the database
# Beside the sources of an attempt, with the highest number: what its run has found, of which others
# were put back.
RUN = 9
_COLUMNS = "job, attempt, name, count, last, last_step, min, min_step, max, max_step"
OF_JOBS = "job IN (SELECT value FROM json_each(:jobs))"
_LATEST = "attempt = (SELECT max(attempt) FROM series WHERE job = s.job)"


class Lookup:
    """What the daemon asks of it; nothing is found while there is no such file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def whole(self, jobs: Iterable[int]) -> set[Key]:
        """The attempts of these jobs that have ended and of which all was read."""
        query = f"SELECT job, attempt FROM attempts WHERE whole AND {OF_JOBS}"
        return {(job, attempt) for job, attempt in self._rows(query, jobs=ids(jobs))}

    def summaries(self, jobs: Iterable[int], names: Sequence[str] = ()) -> list[dict[str, Any]]:
        """The metrics of each job's latest run that has any, as the wire has them."""
        named = "AND name IN (SELECT value FROM json_each(:names))" if names else ""
        query = (
            f"SELECT {_COLUMNS}, max(source) FROM series AS s"
            f" WHERE {OF_JOBS} AND {_LATEST} {named} GROUP BY job, attempt, name"
        )
        rows = self._rows(query, jobs=ids(jobs), names=json.dumps(list(names)))
        return [_summary(row) for row in rows]

    def curves(self, job: int, attempt: int | None) -> list[dict[str, Any]]:
        """All metrics of an attempt, or of the latest run that has any, with their curves."""
        which = _LATEST if attempt is None else f"attempt = :attempt AND source < {RUN}"
        query = (
            f"SELECT {_COLUMNS}, max(source), record FROM series AS s"
            " JOIN curves USING (job, attempt, name, source)"
            f" WHERE job = :job AND {which} GROUP BY job, attempt, name"
        )
        return [_curve(row) for row in self._rows(query, job=job, attempt=attempt)]

    def names(self, jobs: Iterable[int], most: int) -> dict[str, int]:
        """The metrics of these jobs, each with how many of them have it, most jobs first."""
        query = (
            f"SELECT name, count(DISTINCT job) AS jobs FROM series AS s WHERE {OF_JOBS}"
            f" AND {_LATEST} GROUP BY name ORDER BY jobs DESC, name LIMIT :most"
        )
        return dict(self._rows(query, jobs=ids(jobs), most=most))

    def ranked(self, jobs: Iterable[int], name: str, goal: str) -> list[tuple[int, float | None]]:
        """Jobs that have a metric, with their best values: the best first, only nan last."""
        best, way = ("max", "DESC") if goal == "max" else ("min", "ASC")
        query = (
            f"SELECT job, {best}, max(source) FROM series AS s WHERE {OF_JOBS} AND name = :name"
            f" AND {_LATEST} GROUP BY job ORDER BY {best} {way} NULLS LAST, job"
        )
        return [(row[0], row[1]) for row in self._rows(query, jobs=ids(jobs), name=name)]

    def curves_of(self, jobs: Sequence[int], name: str, points: int) -> list[dict[str, Any]]:
        """A metric of these jobs in their order, thinned to about so many points each."""
        query = (
            f"SELECT {_COLUMNS}, max(source), record FROM series AS s"
            " JOIN curves USING (job, attempt, name, source)"
            f" WHERE {OF_JOBS} AND name = :name AND {_LATEST} GROUP BY job"
        )
        rows = {row[0]: row for row in self._rows(query, jobs=ids(jobs), name=name)}
        return [_curve(rows[job], points) for job in jobs if job in rows]

    def settled(
        self, jobs: Iterable[int], name: str, seen: Mapping[int, tuple[int, int]]
    ) -> list[tuple[int, int, int, list[Point]]]:
        """Of each job: attempt, count and curve of a metric, without what may still be replaced.

        Left out are those of which the attempt and the count are those that were seen.
        """
        query = (
            "SELECT job, attempt, count, max(source), record FROM series AS s"
            " JOIN curves USING (job, attempt, name, source)"
            f" WHERE {OF_JOBS} AND {_LATEST} AND name = :name GROUP BY job, attempt"
        )
        return [
            (job, attempt, count, Series.from_record(json.loads(record)).curve())
            for job, attempt, count, _, record in self._rows(query, jobs=ids(jobs), name=name)
            if seen.get(job) != (attempt, count)
        ]

    def version(self) -> tuple[int, ...]:
        """Another one after each change, found without opening anything."""
        found: list[int] = []
        for path in (self.path, f"{self.path}-wal"):
            with suppress(OSError):
                of_file = os.stat(path)
                found += (of_file.st_ino, of_file.st_size, of_file.st_mtime_ns)
        return tuple(found)

    def troubles(self, jobs: Iterable[int], most: int) -> list[str]:
        """Why something of these jobs is not read, in words, each with a job of which it is so."""
        query = (
            f"SELECT min(job), trouble FROM attempts WHERE trouble != '' AND {OF_JOBS}"
            " GROUP BY trouble LIMIT :most"
        )
        rows = self._rows(query, jobs=ids(jobs), most=most)
        return [f"job {job}: {trouble}" for job, trouble in rows]

    def _rows(self, query: str, **values: Any) -> list[tuple[Any, ...]]:
        if not os.path.exists(self.path):
            return []
        try:
            with closing(opened(self.path)) as connection:
                if connection.execute("PRAGMA user_version").fetchone()[0] != FORM:
                    return []  # The reader has only just begun to make it.
                connection.execute("PRAGMA query_only = ON")
                return connection.execute(query, values).fetchall()
        except sqlite3.OperationalError as error:
            raise Failed(f"{self.path} can't be read: {error}", "try again in a moment") from None
        except sqlite3.DatabaseError:
            return []  # It is damaged: the reader will move it away, and read the logs anew.


def opened(path: str) -> sqlite3.Connection:
    """A connection to a database that is there."""
    uri = f"file:{path.replace('%', '%25').replace('?', '%3f').replace('#', '%23')}?mode=rw"
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=5.0)


def ids(jobs: Iterable[int]) -> str:
    """Jobs as a parameter."""
    return json.dumps(list(jobs))


def _curve(row: Sequence[Any], points: int | None = None) -> dict[str, Any]:
    series = Series.from_record(json.loads(row[-1])).shown()
    if points is not None:
        series = series.thinned(points)
    about = {"first": said_if(series.first), "not_finite": series.not_finite}
    return {**_summary(row), **about, "points": series.said_curve()}


def _summary(row: Sequence[Any]) -> dict[str, Any]:
    job, attempt, name, count, *numbers = row[:10]
    last, last_step, low, low_step, high, high_step = map(_said, numbers)
    return {
        "job": job, "attempt": attempt, "name": name, "count": count,
        "last": "nan" if last is None else last,
        "last_step": "nan" if last_step is None else last_step,
        "min": low, "min_step": low_step if low_step is not None or low is None else "nan",
        "max": high, "max_step": high_step if high_step is not None or high is None else "nan",
    }  # fmt: skip


def _said(number: float | None) -> float | str | None:
    return number if number is None or math.isfinite(number) else repr(number)
