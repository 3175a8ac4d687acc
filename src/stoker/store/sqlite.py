"""The store on disk: SQLite with a write-ahead log, each commit durable before it returns.

Decisions are made in memory; this is their record. One writer, the daemon. A commit is one
transaction, however much has changed.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, astuple
from itertools import chain, islice
from pathlib import Path
from typing import Any

import msgspec

from stoker.core.change import Change
from stoker.core.events import JobsSubmitted, JobSubmitted
from stoker.core.model import (
    Group,
    Job,
    Launch,
    Need,
    Profile,
    Terms,
)
from stoker.core.order import Crowd
from stoker.core.state import State
from stoker.ports import StoreFailed
from stoker.store.database import open_database, open_to_read, point_hash, point_hashes
from stoker.store.launches import json_of_each, launch_bodies, launch_body
from stoker.store.loading import unfinished
from stoker.store.named_sql import queries
from stoker.store.reserve import PART_BYTES, Reserve, lengthen, room_is_short
from stoker.store.rows import (
    Batches,
    ended_rows,
    gpu_from,
    requirements_body,
    requirements_from,
    standing_rows,
)
from stoker.store.views import need_from

_NO_LAUNCH = Launch()
_NO_ENVIRONMENT: tuple[int, tuple[dict[str, str], int | None]] = (0, ({}, None))
_LAUNCHES_KEPT = 64  # Jobs that start one after the other are often alike.
_LAUNCHES_AHEAD = 50
# That every new job has, one by one.
_USUAL_COLUMNS = ("id", "state", "priority", "need", "terms", "user", "submitted_at_ms", "launch",
                  "environment", "kind")  # fmt: skip
# In one statement: to open the table and its indexes takes longer than to write a row. More of them
# gain no more.
_ROWS_AT_ONCE = 250
_json = msgspec.json.encode
# Rows are made with `_value_`, which is `value` without the call that this is in an Enum.


class SqliteStore:
    """See ports.Store; the questions of front ends are in `views`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.reserve = Reserve(path.with_name("reserve"))
        if room_is_short(path.parent):
            self.reserve.give_up_part()  # To open the database takes some, too.
        self.connection = open_database(path)
        self._sql = queries()
        self._needs: dict[Need, int] = {}
        self._terms: dict[Terms, int] = {}
        self._environments: dict[bytes, int] = {}  # by digest
        self._last_environment: tuple[int, tuple[dict[str, str], int | None]] = _NO_ENVIRONMENT
        self._launches: dict[tuple[Any, ...], tuple[Launch, dict[str, Any]]] = {}  # and its fields
        self._read_ahead: dict[int, tuple[Any, ...]] = {}  # rows of launches, by job
        self._last_launch = 0
        # By the columns that rows share, those of their own, and how many rows there are.
        self._inserts: dict[tuple[tuple[str, ...], tuple[str, ...], int], str] = {}
        self.finished: dict[str, int] = {}  # how many final jobs, by state

    def close(self) -> None:
        """Let the file go."""
        self.connection.close()

    # ------------------------------------------------------------------ load

    def load(self, now_ms: int) -> State:
        """See ports.Store."""
        sql, run = self._sql, self.connection.execute
        self._environments.clear()
        needs = {i: need_from(body) for i, body in run(sql["needs"])}
        terms = {i: Terms(**json.loads(body)) for i, body in run(sql["terms"])}
        self._needs = {need: i for i, need in needs.items()}
        self._terms = {term: i for i, term in terms.items()}
        self.finished = dict(run(sql["count_ended"]).fetchall())
        settings = dict(run(sql["settings"]))
        next_job_id = max(
            int(settings.get("next_job_id", "1")), run(sql["next_job_id"]).fetchone()[0]
        )
        jobs, crowds = self._unfinished(needs, terms, next_job_id)
        return State.restored(
            jobs,
            [gpu_from(row) for row in run(sql["gpus"])],
            [Group(name, bool(paused), most) for name, paused, most in run(sql["groups"])],
            [Profile(*row) for row in run(sql["profiles"])],
            crowds,
            now_ms=now_ms,
            next_job_id=next_job_id,
            paused=settings.get("paused") == "1",
            cpus=int(settings.get("counted_cpus", "1")),
            at_cluster_most=int(settings.get("at_cluster_most", "1000")),
            standbys=json.loads(settings.get("standbys", "[]")),
        )

    def _unfinished(
        self, needs: Mapping[int, Need], terms: Mapping[int, Terms], next_job_id: int
    ) -> tuple[list[Job], list[Crowd]]:
        """The jobs that are not final, read by two connections at a time: there may be many."""
        ended = sum(self.finished.values())
        with ExitStack() as opened:
            connections = [self.connection]
            try:
                other = opened.enter_context(closing(open_to_read(self._path)))
                other.execute("PRAGMA user_version")  # Only now are all its files open.
                connections.append(other)
            except sqlite3.Error:
                pass  # No descriptor is left, say. One takes longer, and does as well.
            return unfinished(connections, needs, terms, next_job_id, ended)

    def make_room(self) -> bool:
        """See ports.Store.

        A commit is written to the write-ahead log, whose place is taken before somebody else can
        have it. What SQLite finds there is no commit of its own, and overwritten. The other half
        is for the database, to which the log is copied, and for ledgers and exit codes.
        """
        if not self.reserve.give_up_part():
            return False
        lengthen(self._path.with_name(f"{self._path.name}-wal"), PART_BYTES // 2)
        return True

    def launch(self, job_id: int) -> Launch:
        """See ports.Store."""
        row = self._read_ahead.pop(job_id, None)
        if row is None:
            # Jobs mostly start in the order of their numbers.
            last = job_id + (_LAUNCHES_AHEAD if job_id == self._last_launch + 1 else 0)
            rows = self.connection.execute(self._sql["launches"], (job_id, last))
            self._read_ahead = {row[0]: row[1:] for row in rows}
            row = self._read_ahead.pop(job_id, None)
        assert row is not None, f"job {job_id} is not in the store"
        self._last_launch = job_id
        *alike, params, point = row
        key = tuple(alike)
        known = self._launches.get(key)
        if known is None:
            if len(self._launches) >= _LAUNCHES_KEPT:
                self._launches.clear()
            fields = self._launch_fields(*key)
            known = self._launches[key] = (Launch(**fields), fields)
        launch, fields = known
        if params or point is not None:
            return Launch(**fields, params=_params(params), point=point)
        return launch

    def _launch_fields(
        self, body: str, name: str | None, user: str, kind: str, requires: str, environment: int
    ) -> dict[str, Any]:
        fields: dict[str, Any] = msgspec.json.decode(body)
        fields["argv"] = tuple(fields.get("argv", ()))
        fields["cluster_options"] = tuple(fields.get("cluster_options", ()))
        fields["env"], fields["umask"] = self._environment(environment)
        fields |= {"name": name, "user": user, "kind": kind}
        return fields | {"requires": requirements_from(requires)}

    def _environment(self, number: int) -> tuple[dict[str, str], int | None]:
        """The environment that was kept, and its umask; a submission's jobs start with the same."""
        if self._last_environment[0] != number:
            row = self.connection.execute(self._sql["environment"], (number,)).fetchone()
            env: dict[str, str] = msgspec.json.decode(zlib.decompress(row[0]))
            self._last_environment = (number, (env, row[1]))
        return self._last_environment[1]

    def settings(self) -> dict[str, str]:
        """What its user has set, and a few notes of the daemon's own."""
        return dict(self.connection.execute(self._sql["settings"]).fetchall())

    def set_setting(self, name: str, value: str | None) -> None:
        """Keep a setting, or (None) forget it."""
        try:
            if value is None:
                self.connection.execute(self._sql["unset_setting"], (name,))
            else:
                self.connection.execute(self._sql["set_setting"], (name, value))
        except sqlite3.Error as error:
            raise StoreFailed(str(error)) from error

    def removals(self, most: int) -> list[tuple[int, int]]:
        """Removed jobs whose directories are still there, with the number of their attempts."""
        return self.connection.execute(self._sql["removals"], (most,)).fetchall()

    def removals_done(self, job_ids: Sequence[int]) -> None:
        """Their directories are gone."""
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            rows = [(job_id,) for job_id in job_ids]
            self.connection.executemany(self._sql["removal_done"], rows)
            self.connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            raise StoreFailed(str(error)) from error

    def gpu_histories(self) -> list[tuple[str, bytes]]:
        """The course of each GPU, as it was kept."""
        return self.connection.execute(self._sql["gpu_histories"]).fetchall()

    def attempt_history(self, job_id: int, number: int) -> bytes | None:
        """The course of an attempt, as it was kept."""
        row = self.connection.execute(self._sql["attempt_history"], (job_id, number)).fetchone()
        return None if row is None else bytes(row[0])

    def keep_histories(
        self, gpus: Sequence[tuple[str, bytes]], attempts: Sequence[tuple[int, int, bytes]]
    ) -> None:
        """Write down the courses of GPUs (id, body) and of attempts (job, number, body)."""
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            self.connection.executemany(self._sql["put_gpu_history"], gpus)
            rows = [(number, body, job_id) for job_id, number, body in attempts]
            self.connection.executemany(self._sql["put_attempt_history"], rows)
            self.connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            raise StoreFailed(str(error)) from error

    def drop_old_submissions(self, before_ms: int) -> None:
        """Forget tokens that nobody will repeat any more."""
        try:
            self.connection.execute(self._sql["drop_old_submissions"], (before_ms,))
        except sqlite3.Error as error:
            raise StoreFailed(str(error)) from error

    # ------------------------------------------------------------------ commit

    def commit(
        self, state: State, change: Change, meanwhile: Callable[[], object] | None = None
    ) -> None:
        """See ports.Store."""
        cursor = self.connection.cursor()
        try:
            cursor.execute("BEGIN IMMEDIATE")
            self._write(cursor, state, change)
            if meanwhile is not None:
                meanwhile()
            cursor.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            raise StoreFailed(str(error)) from error
        except BaseException:
            # A bug of ours: without this, half of the change would be there for the next reader.
            self._roll_back()
            raise
        self._count(change)

    def _roll_back(self) -> None:
        # What was interned within the transaction is gone with it; `load` reads it again.
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def _write(self, cursor: sqlite3.Cursor, state: State, change: Change) -> None:
        sql = self._sql
        if change.submitted:
            self._add_jobs(cursor, change.submitted)
        for many in change.submitted_alike:
            self._add_alike_jobs(cursor, many)
        for taken in change.submissions:
            ids = _json(taken.job_ids).decode()
            cursor.execute(sql["add_submission"], (taken.token, taken.at_ms, ids))
        for edit in change.edited:
            if edit.launch is not None:
                body = launch_body(edit.launch)
                row = (edit.launch.name, body, edit.launch.kind, edit.job_id)
                cursor.execute(sql["edit_job"], row)
        self._write_jobs(cursor, state, change)
        if change.edited or change.removed:
            self._read_ahead.clear()
        if change.removed:
            # The highest id may be among them, and ids are never given twice.
            cursor.execute(sql["set_setting"], ("next_job_id", str(state.next_job_id)))
            cursor.executemany(sql["note_removal"], [(job_id,) for job_id in change.removed])
            cursor.executemany(sql["remove_job"], [(job_id,) for job_id in change.removed])
            cursor.execute(sql["drop_unused_environments"])
            self._environments.clear()
            self._last_environment = _NO_ENVIRONMENT
            self._launches.clear()
        if change.gpus:
            cursor.execute(sql["clear_gpus"])
            cursor.executemany(
                sql["add_gpu"],
                [
                    (g.id, g.memory_mib, g.declared, g.drained, g.removing, g.label, g.maker)
                    for g in state.gpus.values()
                ],
            )
        for name in sorted(change.groups):
            group = state.groups[name]
            cursor.execute(sql["set_group"], (name, group.paused, group.max_running))
        for kind in sorted(change.profiles):
            profile = state.profiles.get(kind)
            if profile is None:
                cursor.execute(sql["drop_profile"], (kind,))
            else:
                cursor.execute(sql["put_profile"], astuple(profile))
        if change.settings:
            cursor.execute(sql["set_setting"], ("paused", "1" if state.paused else "0"))
            cursor.execute(sql["set_setting"], ("counted_cpus", str(state.cpus)))
            most = str(state.at_cluster_most)
            cursor.execute(sql["set_setting"], ("at_cluster_most", most))
        if change.standbys:
            body = json.dumps(state.relief.standbys)
            cursor.execute(sql["set_setting"], ("standbys", body))

    def _write_jobs(self, cursor: sqlite3.Cursor, state: State, change: Change) -> None:
        """Bring the jobs that have changed, and their attempts, up to date."""
        # These first: the same numbers may have been given again since.
        batches: Batches = [("put_back_attempt", change.put_back)]
        batches += ended_rows(change)
        if change.edited or change.retried:
            # What a user once said of a job changes only when he says it anew.
            anew = dict.fromkeys([*(edit.job_id for edit in change.edited), *change.retried])
            said = [self._said_row(cursor, state.jobs[i]) for i in anew if i in state.jobs]
            batches.append(("say_job_anew", said))
        batches += standing_rows(state, change)
        for query, rows in batches:
            if rows:
                cursor.executemany(self._sql[query], rows)

    def _count(self, change: Change) -> None:
        if change.removed or change.retried:
            # These were final before, in states that only the file knows.
            self.finished = dict(self.connection.execute(self._sql["count_ended"]).fetchall())
            return
        for ended in change.ended:
            if ended.job_is_final:
                name = ended.outcome.state._value_
                self.finished[name] = self.finished.get(name, 0) + 1

    # ------------------------------------------------------------------ rows

    def _add_jobs(self, cursor: sqlite3.Cursor, submitted: Sequence[JobSubmitted]) -> None:
        """Write new jobs; what they share is looked for once, by the object that it is.

        Of the columns in which most jobs have nothing, only those are named that have something:
        to bind a NULL costs more than to bind a number. Jobs that come together are alike in that,
        so there are few statements for many rows.
        """
        numbers: dict[int, int] = {}
        rows: list[list[Any]] = []
        shape: list[str] = [*_USUAL_COLUMNS]
        for e in submitted:
            at_ms, job_id, need, terms, priority, group, not_before_ms, unmet, held, launch = e
            if launch is None:
                launch = _NO_LAUNCH
            number_of_need = numbers.get(id(need))
            if number_of_need is None:
                number_of_need = numbers[id(need)] = self._need_id(cursor, need)
            number_of_terms = numbers.get(id(terms))
            if number_of_terms is None:
                number_of_terms = numbers[id(terms)] = self._terms_id(cursor, terms)
            (_, _, _, env, _, name, user, _, _, _, requires, kind, params, point, _, _, _) = launch
            environment = numbers.get(id(env))
            if environment is None:
                environment = numbers[id(env)] = self._environment_id(cursor, launch)
            row: list[Any] = [
                job_id,
                "held" if held else "waiting",
                priority,
                number_of_need,
                number_of_terms,
                user,
                at_ms,
                launch_body(launch),
                environment,
                kind,
            ]
            columns = [*_USUAL_COLUMNS]
            if group is not None:
                columns.append('"group"')
                row.append(group)
            if name is not None:
                columns.append("name")
                row.append(name)
            if not_before_ms is not None:
                columns.append("not_before_ms")
                row.append(not_before_ms)
            if unmet:
                columns.append("unmet")
                row.append(requirements_body(unmet))
            if requires:
                columns.append("requires")
                row.append(requirements_body(requires))
            if params:
                columns.append("params")
                row.append(_json(params).decode())
            if point is not None:
                columns += ["point", "point_hash"]
                row += [point, point_hash(point)]
            if columns != shape:
                self._insert_jobs(cursor, {}, shape, rows)
                shape, rows = columns, []
            rows.append(row)
        self._insert_jobs(cursor, {}, shape, rows)

    def _add_alike_jobs(self, cursor: sqlite3.Cursor, many: JobsSubmitted) -> None:
        """Write new jobs that share all but a few columns, column by column."""
        launch, each = many.launch, many.each
        shared: dict[str, Any] = {
            "state": "waiting",
            "need": self._need_id(cursor, many.need),
            "terms": self._terms_id(cursor, many.terms),
            "user": launch.user,
            "submitted_at_ms": many.at_ms,
            "environment": self._environment_id(cursor, launch),
        }
        if many.group is not None:
            shared['"group"'] = many.group
        columns: dict[str, Iterable[Any]] = {
            "id": many.ids,
            "priority": many.priorities,
            "launch": launch_bodies(launch, each),
            "kind": many.kinds,
        }
        names = [launch.name if own.name is None else own.name for own in each]
        if any(name is not None for name in names):
            columns["name"] = names
        params = [launch.params if own.params is None else own.params for own in each]
        if any(params):
            bodies = json_of_each(params)
            columns["params"] = [None if body == "{}" else body for body in bodies]
        points = [launch.point if own.point is None else own.point for own in each]
        named = [point for point in points if point is not None]
        if named:
            columns["point"] = points
            hashes = point_hashes(named)
            if len(named) < len(points):
                known = dict(zip(named, hashes, strict=True))
                columns["point_hash"] = [None if p is None else known[p] for p in points]
            else:
                columns["point_hash"] = hashes
        self._insert_jobs(cursor, shared, list(columns), zip(*columns.values(), strict=True))

    def _insert_jobs(
        self,
        cursor: sqlite3.Cursor,
        shared: Mapping[str, Any],
        columns: Sequence[str],
        rows: Iterable[Sequence[Any]],
    ) -> None:
        """Write rows that have some columns in common, in as few statements as is good."""
        of_all = list(shared.values())
        rows = iter(rows)
        while some := list(islice(rows, _ROWS_AT_ONCE)):
            if len(some) == _ROWS_AT_ONCE:
                insert = self._insert(tuple(shared), tuple(columns), _ROWS_AT_ONCE)
                cursor.execute(insert, [*of_all, *chain.from_iterable(some)])
            else:
                insert = self._insert(tuple(shared), tuple(columns), 1)
                cursor.executemany(insert, [(*of_all, *row) for row in some])

    def _insert(self, shared: tuple[str, ...], columns: tuple[str, ...], count: int) -> str:
        """The statement for so many rows; what they share is handed over once."""
        known = self._inserts.get((shared, columns, count))
        if known is None:
            of_all = [f"?{number}" for number in range(1, len(shared) + 1)]
            own = [f"?{n}" for n in range(len(shared) + 1, len(shared) + len(columns) * count + 1)]
            starts = range(0, len(own), len(columns))
            rows = [", ".join([*of_all, *own[at : at + len(columns)]]) for at in starts]
            known = self._inserts[shared, columns, count] = self._sql["add_jobs"].format(
                columns=", ".join([*shared, *columns]), rows=f"({'), ('.join(rows)})"
            )
        return known

    def _said_row(self, cursor: sqlite3.Cursor, job: Job) -> tuple[Any, ...]:
        return (
            job.state._value_,
            job.priority,
            self._need_id(cursor, job.need),
            self._terms_id(cursor, job.terms),
            job.group,
            job.not_before_ms,
            job.id,
        )

    def _need_id(self, cursor: sqlite3.Cursor, need: Need) -> int:
        known = self._needs.get(need)
        if known is None:
            known = self._needs[need] = self._add(cursor, "add_need", need)
        return known

    def _terms_id(self, cursor: sqlite3.Cursor, terms: Terms) -> int:
        known = self._terms.get(terms)
        if known is None:
            known = self._terms[terms] = self._add(cursor, "add_terms", terms)
        return known

    def _add(self, cursor: sqlite3.Cursor, query: str, value: Need | Terms) -> int:
        cursor.execute(self._sql[query], (_sorted_json(asdict(value)),))
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def _environment_id(self, cursor: sqlite3.Cursor, launch: Launch) -> int:
        """The number of the environment, which with another umask is another one."""
        body = _sorted_json(dict(launch.env)).encode()
        hashed = hashlib.sha256(body)
        if launch.umask is not None:
            hashed.update(b"umask %o" % launch.umask)
        digest = hashed.digest()
        known = self._environments.get(digest)
        if known is None:
            row = cursor.execute(self._sql["environment_by_digest"], (digest,)).fetchone()
            if row is None:
                environment = (digest, zlib.compress(body), launch.umask)
                cursor.execute(self._sql["add_environment"], environment)
                assert cursor.lastrowid is not None
                known = cursor.lastrowid
            else:
                known = int(row[0])
            self._environments[digest] = known
        return known


def _params(body: str | None) -> dict[str, Any]:
    params: dict[str, Any] = msgspec.json.decode(body) if body else {}
    return params


def _sorted_json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
