"""What users are to be told, and hooks to run: written in the commit of what it is about.

A notice is there until the process that sends it has put on record that it did (see `notify`).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from stoker.core.change import Change, Ended
from stoker.core.model import CANCELLED, FAILED, LOST
from stoker.core.reasons import outcome_words
from stoker.store.database import transaction
from stoker.store.named_sql import queries

LOST_GPUS = "lost_gpus"  # the setting that has the GPUs of which it was told that they are lost


class Notice(NamedTuple):
    """One thing to be told: `what` is job, hook, failure (the first of a group), group or gpu."""

    id: int
    what: str
    subject: str
    at_ms: int
    body: dict[str, Any]
    tries: int = 0


class Outbox:
    """The notices that are not done yet, and the groups whose end is waited for."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._sql = queries()
        self.has_news = True  # Something was written that was not looked at; a crash may have been.

    def note(self, cursor: sqlite3.Cursor, change: Change) -> None:
        """Write what follows from the ends of jobs, in the transaction that has them."""
        for ended in change.ended:
            terms = ended.job.terms
            if (terms.notify or terms.hook is not None) and ended.job_is_final:
                self._note_end(cursor, ended)

    def _note_end(self, cursor: sqlite3.Cursor, ended: Ended) -> None:
        self.has_news = True
        job, outcome, at_ms = ended.job, ended.outcome, ended.at_ms
        how = outcome.exit
        body = {
            "state": outcome.state.value,
            "reason": outcome_words(outcome),
            "attempt": job.attempt,
            "exit_code": None if how is None else how.code,
            "signal": None if how is None else how.signal,
        }
        if job.terms.hook is not None:
            self._add(cursor, "hook", str(job.id), at_ms, body | {"hook": job.terms.hook})
        if not job.terms.notify:
            return
        if job.group is None:
            if outcome.state is not CANCELLED:  # Those who cancel a job know of it.
                self._add(cursor, "job", str(job.id), at_ms, body)
            return
        cursor.execute(self._sql["open_group"], {"name": job.group})
        if outcome.state in (FAILED, LOST):
            values = {"name": job.group, "job_id": job.id}
            if cursor.execute(self._sql["first_failure"], values).rowcount:
                self._add(cursor, "failure", str(job.id), at_ms, body | {"group": job.group})

    def due(self, now_ms: int, quiet: bool, most: int) -> list[Notice]:
        """The oldest that may be sent now."""
        values = {"now_ms": now_ms, "quiet": quiet, "most": most}
        rows = self._connection.execute(self._sql["due_notices"], values).fetchall()
        return [Notice(i, w, s, at, json.loads(body), tries) for i, w, s, at, body, tries in rows]

    def next_ms(self, quiet: bool) -> tuple[int | None, int | None]:
        """When there is one that may be sent, and the id of the oldest."""
        row = self._connection.execute(self._sql["next_notice_ms"], {"quiet": quiet}).fetchone()
        return row[0], row[1]

    def settle(self, done: Iterable[int], again: Iterable[tuple[int, int]]) -> None:
        """These are over; those are tried again, each at its time."""
        with transaction(self._connection) as cursor:
            cursor.executemany(self._sql["notice_done"], [{"id": i} for i in done])
            later = [{"id": i, "again_at_ms": at_ms} for i, at_ms in again]
            cursor.executemany(self._sql["notice_failed"], later)

    def drop_messages(self) -> None:
        """There is nowhere to send them to any more."""
        with transaction(self._connection) as cursor:
            cursor.execute(self._sql["drop_messages"])

    def open_groups(self) -> list[str]:
        """The groups whose end is waited for."""
        return [row[0] for row in self._connection.execute(self._sql["open_groups"])]

    def close_group(self, name: str, at_ms: int) -> bool:
        """Note that all jobs of a group have ended; False, and nothing is noted, if not all have.

        Looked at in the same transaction, so a job that comes now belongs to the next message.
        """
        values = {"name": name}
        with transaction(self._connection) as cursor:
            if cursor.execute(self._sql["group_is_unfinished"], values).fetchone()[0]:
                return False
            found = cursor.execute(self._sql["open_groups"]).fetchall()
            rows = cursor.execute(self._sql["ended_group"], values).fetchall()
            cursor.execute(self._sql["close_group"], values)
            body = {
                "counts": {state: count for state, count, _ in rows},
                "sweep": any(points for _, _, points in rows),
                "first_failed": dict(found).get(name),
            }
            if rows:  # Its jobs may have been removed meanwhile.
                self._add(cursor, "group", name, at_ms, body)
        self.has_news = True
        return True

    def note_gpus(self, lost: Sequence[str], told: Sequence[tuple[str, str]], at_ms: int) -> None:
        """Keep which GPUs are lost, and tell of these: their id, and what to say of them."""
        with transaction(self._connection) as cursor:
            values = {"name": LOST_GPUS, "value": json.dumps(lost)}
            cursor.execute(self._sql["set_setting"], values)
            for gpu, reason in told:
                self._add(cursor, "gpu", gpu, at_ms, {"reason": reason})
        self.has_news = True

    def _add(
        self, cursor: sqlite3.Cursor, what: str, subject: str, at_ms: int, body: dict[str, Any]
    ) -> None:
        values = {"what": what, "subject": subject, "at_ms": at_ms, "body": json.dumps(body)}
        cursor.execute(self._sql["add_notice"], values)
