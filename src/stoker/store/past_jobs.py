"""The jobs of a database that are over, read beside a daemon or without one: nothing is changed."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.core.model import Need, Terms
from stoker.errors import Failed, NotFound
from stoker.store.database import open_to_read
from stoker.store.named_sql import queries, schema_steps
from stoker.store.rows import need_from, terms_from


@dataclass(frozen=True, slots=True)
class PastJob:
    """One of them."""

    id: int
    submitted_at_ms: int
    priority: int
    group: str | None
    name: str | None
    kind: str
    need: Need
    terms: Terms
    ran_ms: int | None  # None: it never did
    peak_mib: int | None
    use_percent: int | None  # of its kind


def past_jobs(database: Path, since_ms: int) -> tuple[list[PastJob], list[int | None]]:
    """Those that were queued since then, and the memory of each GPU that there is."""
    if not database.exists():
        raise NotFound(f"there are no jobs yet: {database} is not there")
    connection = open_to_read(database)
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version != len(schema_steps()):
            raise Failed(
                f"{database} was written by another version of Stoker",
                "run `stoker daemon start`, which brings it up to date",
            )
        rows = connection.execute(queries()["past_jobs"], {"since_ms": since_ms}).fetchall()
        gpus = [memory for (memory,) in connection.execute(queries()["usable_gpus"])]
    except sqlite3.Error as error:
        raise Failed(f"{database} can't be read: {error}") from None
    finally:
        connection.close()
    return [_past_job(row) for row in rows], gpus


def _past_job(row: tuple[Any, ...]) -> PastJob:
    job_id, at_ms, priority, group, name, kind, need, terms, ran_ms, peak_mib, use_percent = row
    return PastJob(
        job_id, at_ms, priority, group, name, kind, need_from(need), terms_from(terms),
        ran_ms, peak_mib, use_percent,
    )  # fmt: skip
