"""Opening the database file: private from the first moment, upgraded if old, refused if newer."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from zlib import crc32

from stoker.errors import Failed, Unavailable
from stoker.ports import StoreFailed
from stoker.store.named_sql import schema_steps

APPLICATION_ID = 0x53544F4B  # "STOK"
_HEADER_BYTES = 100
_MAY_PASS = frozenset((
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_READONLY,
))  # fmt: skip


def _as_it_is(value: None) -> None:
    """What the driver makes of None by itself too, after two exceptions that it swallows."""
    return value


sqlite3.register_adapter(type(None), _as_it_is)


def point_hash(point: str) -> int:
    """The number by which a point is looked for; it is in the database, so it stays as it is."""
    return crc32(point.encode())


def point_hashes(points: Iterable[str]) -> list[int]:
    """The numbers of many points, made at once."""
    return list(map(crc32, map(str.encode, points)))


def open_database(path: Path) -> sqlite3.Connection:
    """A connection on the present schema; a file that is not ours or newer is left untouched."""
    _refuse_newer(path, _version_in_header(path))
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA busy_timeout = 5000")
        # In KiB, and taken only when needed: a long submission writes its pages once, not again
        # and again.
        connection.execute("PRAGMA cache_size = -65536")
        # The header may be older than the write-ahead log, which only SQLite can read.
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        _refuse_newer(path, version)
        if 0 < version < len(schema_steps()):
            _keep_copy(connection, path.with_name(f"{path.name}.schema{version}"))
        _upgrade(connection, version)
    except sqlite3.Error as error:
        connection.close()
        # What may pass is tried again by those who wait; a file that is damaged stays so.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        kind = Unavailable if code in _MAY_PASS else Failed
        raise kind(f"{path} can't be opened: {error}", "is the disk full or damaged?") from None
    return connection


def open_to_read(path: Path) -> sqlite3.Connection:
    """One more connection on a database that is open, which changes nothing."""
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
    )


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Cursor]:
    """What is written within is durable when it ends, or (raising StoreFailed) nothing of it is."""
    cursor = connection.cursor()
    try:
        cursor.execute("BEGIN IMMEDIATE")
        yield cursor
        cursor.execute("COMMIT")
    except sqlite3.Error as error:
        raise StoreFailed(str(error)) from error
    finally:
        # Also after a bug of ours: half of the change would be there for the next reader.
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _refuse_newer(path: Path, version: int) -> None:
    newest = len(schema_steps())
    if version > newest:
        raise Failed(
            f"{path} was written by a newer Stoker (schema {version}, this one knows {newest})",
            "upgrade Stoker, or set STOKER_HOME to use another state directory",
        )


def _version_in_header(path: Path) -> int:
    """The schema version, read without SQLite so that nothing is written."""
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
    except FileNotFoundError:
        return 0
    if not header:
        return 0
    if len(header) < _HEADER_BYTES or not header.startswith(b"SQLite format 3\0"):
        raise Failed(f"{path} is not a Stoker database", "move it away, or set STOKER_HOME")
    application_id = int.from_bytes(header[68:72], "big")
    # Without a mark it is ours only as long as it never had a table: the first step sets both.
    tables_changed = int.from_bytes(header[40:44], "big")
    if application_id != APPLICATION_ID and (application_id or tables_changed):
        raise Failed(f"{path} belongs to another program", "move it away, or set STOKER_HOME")
    return int.from_bytes(header[60:64], "big")


def _keep_copy(connection: sqlite3.Connection, path: Path) -> None:
    """An upgrade is one way, so the old file is kept beside the new one."""
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    with sqlite3.connect(path) as copy:
        connection.backup(copy)
    copy.close()


def _upgrade(connection: sqlite3.Connection, version: int) -> None:
    steps = schema_steps()
    if version == len(steps):
        return
    connection.create_function("point_hash", 1, point_hash, deterministic=True)
    for number, script in enumerate(steps[version:], start=version + 1):
        # The step and its number come true together, so a crash in between repeats it whole.
        connection.executescript(
            f"BEGIN IMMEDIATE;\n{script}\n"
            f"PRAGMA application_id = {APPLICATION_ID};\n"
            f"PRAGMA user_version = {number};\nCOMMIT;"
        )
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
