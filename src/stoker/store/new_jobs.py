"""Rows of new jobs, of which a hundred thousand may come at once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import msgspec

from stoker.core.events import JobsSubmitted, JobSubmitted
from stoker.core.model import Launch
from stoker.core.order import with_run_kinds
from stoker.store.database import point_hash, point_hashes
from stoker.store.launches import json_of_each, launch_bodies, launch_body
from stoker.store.named_sql import queries
from stoker.store.numbered import Numbered
from stoker.store.rows import requirements_body

_NO_LAUNCH = Launch()
# That every new job has, one by one.
_USUAL_COLUMNS = ("id", "state", "priority", "need", "terms", "user", "submitted_at_ms", "launch",
                  "environment", "kind")  # fmt: skip
# In one statement: to open the table and its indexes takes longer than to write a row. More of them
# gain no more.
_ROWS_AT_ONCE = 250
_json = msgspec.json.encode


class NewJobs:
    """Writes them, in as few statements as is good."""

    def __init__(self, numbered: Numbered) -> None:
        self._numbered = numbered
        # By the columns that rows share, those of their own, and how many rows there are.
        self._statements: dict[tuple[tuple[str, ...], tuple[str, ...], int], str] = {}

    def add(self, cursor: sqlite3.Cursor, submitted: Sequence[JobSubmitted]) -> None:
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
                number_of_need = numbers[id(need)] = self._numbered.need(need)
            number_of_terms = numbers.get(id(terms))
            if number_of_terms is None:
                number_of_terms = numbers[id(terms)] = self._numbered.terms(terms)
            (_, _, _, env, _, name, user, _, _, _, requires, kind, params, point, _, _, _,
             code) = launch  # fmt: skip
            environment = numbers.get(id(env))
            if environment is None:
                environment = numbers[id(env)] = self._numbered.environment(launch)
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
            if code is not None:
                if id(code) not in numbers:
                    numbers[id(code)] = self._numbered.code(code)
                columns.append("code")
                row.append(code.number)
            if point is not None:
                columns += ["point", "point_hash"]
                row += [point, point_hash(point)]
            if columns != shape:
                self._write(cursor, {}, shape, rows)
                shape, rows = columns, []
            rows.append(row)
        self._write(cursor, {}, shape, rows)

    def add_together(self, cursor: sqlite3.Cursor, many: JobsSubmitted) -> None:
        """Write new jobs that share all but a few columns, column by column."""
        launch, each = many.launch, many.each
        terms_of = with_run_kinds(many.need, many.terms, many.kinds)
        numbers = {kind: self._numbered.terms(terms) for kind, terms in terms_of.items()}
        shared: dict[str, Any] = {
            "state": "waiting",
            "need": self._numbered.need(many.need),
            "user": launch.user,
            "submitted_at_ms": many.at_ms,
            "environment": self._numbered.environment(launch),
        }
        if many.group is not None:
            shared['"group"'] = many.group
        if launch.code is not None:
            shared["code"] = self._numbered.code(launch.code)
        columns: dict[str, Iterable[Any]] = {
            "id": many.ids,
            "priority": many.priorities,
            "terms": list(map(numbers.__getitem__, many.kinds)),
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
        self._write(cursor, shared, list(columns), zip(*columns.values(), strict=True))

    def _write(
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
                insert = self._statement(tuple(shared), tuple(columns), _ROWS_AT_ONCE)
                cursor.execute(insert, [*of_all, *chain.from_iterable(some)])
            else:
                insert = self._statement(tuple(shared), tuple(columns), 1)
                cursor.executemany(insert, [(*of_all, *row) for row in some])

    def _statement(self, shared: tuple[str, ...], columns: tuple[str, ...], count: int) -> str:
        """The statement for so many rows; what they share is handed over once."""
        known = self._statements.get((shared, columns, count))
        if known is None:
            of_all = [f"?{number}" for number in range(1, len(shared) + 1)]
            own = [f"?{n}" for n in range(len(shared) + 1, len(shared) + len(columns) * count + 1)]
            starts = range(0, len(own), len(columns))
            rows = [", ".join([*of_all, *own[at : at + len(columns)]]) for at in starts]
            known = self._statements[shared, columns, count] = queries()["add_jobs"].format(
                columns=", ".join([*shared, *columns]), rows=f"({'), ('.join(rows)})"
            )
        return known
