"""What a turn has changed, written row by row; the caller's transaction makes it one commit."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict
from typing import Any

import msgspec

from stoker.core.change import Change
from stoker.core.model import Job
from stoker.core.state import State
from stoker.store.launches import Launches, launch_body
from stoker.store.named_sql import queries
from stoker.store.new_jobs import NewJobs
from stoker.store.numbered import Numbered
from stoker.store.outbox import Outbox
from stoker.store.rows import Batches, ended_rows, gpu_row, standing_rows

# Rows are made with `_value_`, which is `value` without the call that this is in an Enum.


class Writer:
    """Writes changes, and lets go of what is remembered of rows that they replace."""

    def __init__(self, numbered: Numbered, launches: Launches, outbox: Outbox) -> None:
        self._numbered = numbered
        self._outbox = outbox
        self._launches = launches
        self._new_jobs = NewJobs(numbered)
        self._sql = queries()

    def write(self, cursor: sqlite3.Cursor, state: State, change: Change) -> None:
        """Bring the file up to date, but for the count of what has ended."""
        sql = self._sql
        if change.submitted:
            self._new_jobs.add(cursor, change.submitted)
        for many in change.submitted_together:
            self._new_jobs.add_together(cursor, many)
        for taken in change.submissions:
            ids = msgspec.json.encode(taken.job_ids).decode()
            values = {"token": taken.token, "at_ms": taken.at_ms, "job_ids": ids}
            cursor.execute(sql["add_submission"], values)
        for edit in change.edited:
            if edit.launch is not None:
                said: dict[str, Any] = {"name": edit.launch.name, "kind": edit.launch.kind}
                code = edit.launch.code
                said["code"] = None if code is None else self._numbered.code(code)
                body = launch_body(edit.launch)
                cursor.execute(sql["edit_job"], {**said, "launch": body, "job_id": edit.job_id})
        self._write_jobs(cursor, state, change)
        if change.ended:
            self._outbox.note(cursor, change)
        if change.edited or change.removed:
            self._launches.forget_ahead()
        if change.removed:
            # The highest id may be among them, and ids are never given twice.
            self._set(cursor, "next_job_id", str(state.next_job_id))
            removed = [{"job_id": job_id} for job_id in change.removed]
            cursor.executemany(sql["note_removal"], removed)
            cursor.executemany(sql["remove_job"], removed)
            cursor.execute(sql["drop_unused_environments"])
            cursor.execute(sql["drop_unused_code"])
            self._numbered.forget_environments()
            self._launches.forget_numbers()
        if change.gpus:
            cursor.execute(sql["clear_gpus"])
            cursor.executemany(sql["add_gpu"], map(gpu_row, state.gpus.values()))
        for name in sorted(change.groups):
            cursor.execute(sql["set_group"], asdict(state.groups[name]))
        for kind in sorted(change.profiles):
            profile = state.profiles.get(kind)
            if profile is None:
                cursor.execute(sql["drop_profile"], {"kind": kind})
            else:
                cursor.execute(sql["put_profile"], asdict(profile))
        self._write_order(cursor, state, change)
        if change.settings:
            self._set(cursor, "paused", "1" if state.paused else "0")
            self._set(cursor, "counted_cpus", str(state.cpus))
            self._set(cursor, "at_cluster_most", str(state.at_cluster_most))
        if change.standbys:
            self._set(cursor, "standbys", json.dumps(state.takeovers.standbys))

    def _write_order(self, cursor: sqlite3.Cursor, state: State, change: Change) -> None:
        """Keep what the order of waiting jobs is decided by."""
        sql, order = self._sql, state.order
        for kind, gpus in change.run_times:
            runs = json.dumps(order.run_times.of(kind, gpus))
            cursor.execute(sql["put_run_times"], {"kind": kind, "gpus": gpus, "runs": runs})
        for name in change.usage:
            cursor.execute(sql["put_usage"], {"name": name, **asdict(order.usage[name])})
        for first_id, minute in change.arrivals:
            cursor.execute(sql["add_arrival"], {"first_id": first_id, "minute": minute})
        if change.policy:
            self._set(cursor, "policy", order.policy.value)

    def _set(self, cursor: sqlite3.Cursor, name: str, value: str) -> None:
        cursor.execute(self._sql["set_setting"], {"name": name, "value": value})

    def _write_jobs(self, cursor: sqlite3.Cursor, state: State, change: Change) -> None:
        """Bring the jobs that have changed, and their attempts, up to date."""
        # These first: the same numbers may have been given again since.
        put_back = [{"job_id": job_id, "number": number} for job_id, number in change.put_back]
        batches: Batches = [("put_back_attempt", put_back)]
        batches += ended_rows(change)
        if change.edited or change.retried:
            # What a user once said of a job changes only when he says it anew.
            anew = dict.fromkeys([*(edit.job_id for edit in change.edited), *change.retried])
            said = [self._said_row(state.jobs[i]) for i in anew if i in state.jobs]
            batches.append(("say_job_anew", said))
            again = [{"job_id": job_id, "at_ms": state.now_ms} for job_id in change.retried]
            batches.append(("queue_again", again))
        batches += standing_rows(state, change)
        for query, rows in batches:
            if rows:
                cursor.executemany(self._sql[query], rows)

    def _said_row(self, job: Job) -> dict[str, Any]:
        return {
            "state": job.state._value_,
            "priority": job.priority,
            "need": self._numbered.need(job.need),
            "terms": self._numbered.terms(job.terms),
            "group": job.group,
            "not_before_ms": job.not_before_ms,
            "job_id": job.id,
        }
