"""The series that are kept: `metrics.db` in the home, a database beside that of the jobs.

Law: only the reader writes it (see `reader`), and a series is written in one transaction with the
place up to which its source was read. So whatever is killed at whatever moment, the series are
those of the log up to that place, and the next reader goes on there. The daemon only looks things
up in it (`lookup`).

Curves have a table of their own, so that the last and best values of ten thousand jobs are found
without them. Of a series the source with the highest number counts: see `attempt` and,
of attempts that were put back, `runs`.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress

from stoker.errors import Failed
from stoker.metrics import runs
from stoker.metrics.attempt import Reading
from stoker.metrics.lookup import FORM, OF_JOBS, RUN, ids, opened
from stoker.metrics.series import Series

_SCHEMA = """
BEGIN IMMEDIATE;
CREATE TABLE attempts (
    job      INTEGER NOT NULL,
    attempt  INTEGER NOT NULL,
    whole    INTEGER NOT NULL,  -- it has ended, and all of it was read
    said     TEXT NOT NULL,     -- what decides what is found; see Spec.said
    trouble  TEXT NOT NULL,     -- why something is not read, in words
    state    TEXT NOT NULL,     -- how far it was read
    after    INTEGER,           -- the attempt that was put back, with which it goes on
    PRIMARY KEY (job, attempt)
) WITHOUT ROWID;
CREATE TABLE series (
    job       INTEGER NOT NULL,
    attempt   INTEGER NOT NULL,
    name      TEXT NOT NULL,
    source    INTEGER NOT NULL,
    count     INTEGER NOT NULL,
    last      REAL,             -- NULL is nan, which SQLite does not have
    last_step REAL,
    min       REAL,             -- NULL: all values are nan
    min_step  REAL,
    max       REAL,
    max_step  REAL,
    PRIMARY KEY (job, attempt, name, source)
) WITHOUT ROWID;
CREATE TABLE curves (
    job      INTEGER NOT NULL,
    attempt  INTEGER NOT NULL,
    name     TEXT NOT NULL,
    source   INTEGER NOT NULL,
    record   TEXT NOT NULL,     -- see Series.to_record
    PRIMARY KEY (job, attempt, name, source)
);
PRAGMA user_version = 2;
COMMIT;
"""
# What has gone on with another is looked at again, as soon as somebody asks for it.
_FROM_1 = """
BEGIN IMMEDIATE;
ALTER TABLE attempts ADD COLUMN after INTEGER;
UPDATE attempts SET whole = 0 WHERE attempt > 1;
PRAGMA user_version = 2;
COMMIT;
"""
_TABLES = ("attempts", "series", "curves")


def is_damage(error: sqlite3.Error) -> bool:
    """Whether that is wrong with the file itself; all else (a full disk) may pass."""
    return not isinstance(error, sqlite3.OperationalError)


def move_away(path: str) -> None:
    """Let a damaged database be: most of it can be read again from the logs."""
    for end in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.replace(f"{path}{end}", f"{path}.damaged{end}")


class Kept:
    """What the reader writes."""

    def __init__(self, path: str) -> None:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        self._connection = opened(path)
        self._connection.execute("PRAGMA journal_mode = WAL")
        # After a power cut the last seconds may be missing, and are read again.
        self._connection.execute("PRAGMA synchronous = NORMAL")
        form = self._connection.execute("PRAGMA user_version").fetchone()[0]
        if form == 0:
            self._connection.executescript(_SCHEMA)
        elif form == 1:
            self._connection.executescript(_FROM_1)
        elif form != FORM:
            self.close()
            raise Failed(f"{path} was written by another Stoker", "use the newest one")

    def close(self) -> None:
        """Let the file go."""
        self._connection.close()

    def go_on(self, reading: Reading) -> None:
        """Let a reading go on where it was stored; if nothing of it is, it begins at the start."""
        job, attempt = reading.spec.key
        row = self._connection.execute(
            "SELECT said, state, after FROM attempts WHERE job = ? AND attempt = ?", (job, attempt)
        ).fetchone()
        if row is None or row[0] != reading.spec.said():
            return
        series: dict[int, dict[str, Series]] = {}
        for source, name, record in self._connection.execute(
            "SELECT source, name, record FROM curves WHERE job = ? AND attempt = ?", (job, attempt)
        ):
            series.setdefault(source, {})[name] = Series.from_record(json.loads(record))
        reading.go_on(json.loads(row[1]), series)
        reading.stored, reading.stored_after = row[1], row[2]

    def store(self, readings: Iterable[Reading]) -> None:
        """Store what was found and how far it was read, of all of them or of none."""
        states = [(reading, json.dumps(reading.state())) for reading in readings]
        changed = [(one, state) for one, state in states if one.whole or state != one.stored]
        if not changed:
            return
        with _transaction(self._connection) as cursor:
            for reading, state in changed:
                self._store(cursor, reading, state)
        for reading, state in changed:
            reading.stored, reading.stored_after = state, reading.spec.after
            for source in reading.sources.values():
                source.metrics.changed.clear()
                source.was_reset = False

    def _store(self, cursor: sqlite3.Cursor, reading: Reading, state: str) -> None:
        key = reading.spec.key
        if not reading.stored:  # What may be there was found in other places.
            for table in _TABLES:
                cursor.execute(f"DELETE FROM {table} WHERE job = ? AND attempt = ?", key)
        for number, source in reading.sources.items():
            if source.was_reset:
                for table in _TABLES[1:]:
                    cursor.execute(
                        f"DELETE FROM {table} WHERE job = ? AND attempt = ? AND source = ?",
                        (*key, number),
                    )
            for name in source.metrics.changed:
                _put(cursor, key, name, number, source.metrics.by_name[name])
        cursor.execute(
            "INSERT OR REPLACE INTO attempts VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*key, reading.whole, reading.spec.said(), _words(reading), state, reading.spec.after),
        )
        self._store_runs(cursor, reading)

    def _store_runs(self, cursor: sqlite3.Cursor, reading: Reading) -> None:
        job, attempt = reading.spec.key
        sources = reading.sources.values()
        names = {name for source in sources for name in source.metrics.changed}
        is_new = not reading.stored or reading.stored_after != reading.spec.after
        is_new = is_new or any(source.was_reset for source in sources)
        if is_new:
            for table in _TABLES[1:]:
                cursor.execute(
                    f"DELETE FROM {table} WHERE job = ? AND attempt >= ? AND source = ?",
                    (job, attempt, RUN),
                )
        if is_new or names:
            for at, found in runs.changed_by(cursor, job, attempt, None if is_new else names):
                for name, series in found.items():
                    _put(cursor, (job, at), name, RUN, series)

    def forget_removed(self, jobs_database: str) -> None:
        """Delete what was kept of jobs that are not on record any more."""
        with closing(opened(jobs_database)) as jobs:
            kept = [job for (job,) in self._connection.execute("SELECT DISTINCT job FROM attempts")]
            there = jobs.execute(
                "SELECT id FROM jobs WHERE id IN (SELECT value FROM json_each(?))",
                (json.dumps(kept),),
            )
            gone = set(kept) - {job for (job,) in there}
        with _transaction(self._connection) as cursor:
            for table in _TABLES if gone else ():
                cursor.execute(f"DELETE FROM {table} WHERE {OF_JOBS}", {"jobs": ids(gone)})


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Cursor]:
    cursor = connection.cursor()
    cursor.execute("BEGIN IMMEDIATE")
    try:
        yield cursor
        cursor.execute("COMMIT")
    finally:
        if connection.in_transaction:
            cursor.execute("ROLLBACK")


def _put(
    cursor: sqlite3.Cursor, key: tuple[int, int], name: str, source: int, series: Series
) -> None:
    shown = series.shown()
    cursor.execute(
        "INSERT OR REPLACE INTO series VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*key, name, source, shown.count, *_numbers(shown)),
    )
    cursor.execute(
        "INSERT OR REPLACE INTO curves VALUES (?, ?, ?, ?, ?)",
        (*key, name, source, json.dumps(series.to_record())),
    )


def _words(reading: Reading) -> str:
    # A path may be in it, of any bytes.
    return str(reading.trouble or "").encode(errors="replace").decode()


def _numbers(series: Series) -> Iterator[float | None]:
    for point in (series.last, series.lowest, series.highest):
        yield None if point is None else point[1]
        yield None if point is None else point[0]
