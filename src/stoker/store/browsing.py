"""Windows of long lists, read on a connection of their own.

The reader may be used by another thread than the writer's: what it reads is the last commit, and
neither waits for the other. A question that takes too long is given up. Values always travel as
SQL parameters; the only text put into a query is written in this file.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from stoker.core.model import ACTIVE, FINAL, PLACE_BITS, QUEUED
from stoker.errors import Unavailable
from stoker.store import matching, sweep_table
from stoker.store.database import open_to_read
from stoker.store.matching import Term
from stoker.store.named_sql import queries
from stoker.store.natural import natural_key
from stoker.store.related import related
from stoker.store.usage import Ran, usage
from stoker.store.views import dicts, numbered, without_past

LONGEST_S = 5.0
_STEPS_BETWEEN_LOOKS = 100_000  # at the clock: often enough, and not felt

_ACTIVE = tuple(sorted(ACTIVE))
_ENDED = tuple(sorted(FINAL))

_BEGAN = "coalesce(a.started_at_ms, a.placed_at_ms)"
_STATE = (
    "CASE j.state WHEN 'running' THEN 0 WHEN 'stopping' THEN 1 WHEN 'submitted' THEN 2"
    " WHEN 'waiting' THEN 2"
    " WHEN 'held' THEN 3 WHEN 'failed' THEN 4 WHEN 'lost' THEN 5 WHEN 'skipped' THEN 6"
    " WHEN 'cancelled' THEN 7 WHEN 'stopped' THEN 8 ELSE 9 END"
)
# What a list can be sorted by. Jobs without such a value come last either way.
_SORTS = {
    "id": "j.id",
    "name": "natural_key(j.name)",
    "state": _STATE,
    "group": 'natural_key(j."group")',
    "priority": "j.priority",
    "user": "j.user",
    "started": f"CASE WHEN j.state NOT IN ('waiting', 'submitted', 'held') THEN {_BEGAN} END",
    "ended": "j.ended_at_ms",
    "time": f"CASE WHEN j.state NOT IN ('waiting', 'submitted', 'held') THEN"
    f" coalesce(j.ended_at_ms, :now_ms) - {_BEGAN} END",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which jobs, in which order, and which part of the list; see api.messages.Browse."""

    ids: Sequence[int] = ()
    states: Sequence[str] = ()
    group: str | None = None
    user: str | None = None
    terms: Sequence[Term] = ()
    sort: str = "standing"
    descending: bool = False
    offset: int = 0
    limit: int = 100

    @property
    def is_narrow(self) -> bool:
        """Whether more than states decides which jobs are wanted."""
        narrow = self.group is not None or self.user is not None or bool(self.terms)
        return narrow or bool(self.ids)


@dataclass(frozen=True, slots=True)
class Known:
    """What the daemon has in memory, so that it need not be read: it saves going through all."""

    counts: Mapping[str, int]  # of jobs by state
    active: Sequence[int]  # the ids of those that run, the first to start first


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a list, and how long the whole is."""

    rows: list[dict[str, Any]]
    total: int


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Jobs that stand together in a list: which states, in which order, found by which index."""

    states: tuple[str, ...] = ()  # all, if none are named
    order: str = ""
    index: str = ""
    scope: str = "1"


class Browser:
    """Questions about many jobs at once, each answered from one moment's record."""

    def __init__(self, path: Path) -> None:
        self._connection = open_to_read(path)
        self._connection.create_function("natural_key", 1, natural_key, deterministic=True)
        self._sql = queries()
        self._until = 0.0
        self._connection.set_progress_handler(self._is_late, _STEPS_BETWEEN_LOOKS)

    def close(self) -> None:
        """Let the file go."""
        self._connection.close()

    # ------------------------------------------------------------------ questions

    def standings(self) -> dict[int, tuple[str, str | None]]:
        """The state and group of every job."""
        with self._one_moment():
            rows = self._connection.execute(self._sql["standings"])
            return {job_id: (state, group) for job_id, state, group in rows}

    def window(self, wanted: Wanted, now_ms: int, known: Known | None = None) -> Window:
        """A part of the list, with the place of each that waits.

        What is known already is used where nothing but states narrows the list; it may be a
        moment older than what is read, and then the next look mends the difference.
        """
        if wanted.is_narrow:
            known = None
        with self._one_moment():
            found = self._ids(wanted, now_ms, known)
            rows = {row["id"]: row for row in self._rows(found.ids)}
            waiting = [i for i in found.ids if i in rows and rows[i]["state"] == "waiting"]
            places = found.places
            if any(job_id not in places for job_id in waiting):
                places = dict(self._run("positions", job_ids=json.dumps(waiting)).fetchall())
        for job_id in waiting:
            rows[job_id]["position"] = places.get(job_id)
        return Window([rows[job_id] for job_id in found.ids if job_id in rows], found.total)

    def attempts_since(self, since_ms: int, limit: int) -> list[dict[str, Any]]:
        """Attempts that ended after a moment or have not ended, the latest first."""
        with self._one_moment():
            rows = list(dicts(self._run("attempts_since", since_ms=since_ms, limit=limit)))
        for row in rows:
            row["gpus"] = _list(row["gpus"])
        return rows

    def usage(self, edges_ms: Sequence[int], now_ms: int) -> dict[str, Any]:
        """What the GPUs were used for between some moments."""
        with self._one_moment():
            rows = map(Ran._make, self._run("used_since", since_ms=edges_ms[0]))
            return usage(rows, edges_ms, now_ms)

    def snapshots(self) -> set[str]:
        """The names of the frozen trees that jobs run in."""
        with self._one_moment():
            return {name for (name,) in self._run("snapshots")}

    def names(self, job_ids: Sequence[int]) -> dict[int, str | None]:
        """The names of some jobs."""
        with self._one_moment():
            return {row["id"]: row["name"] for row in self._rows(job_ids)}

    def states(self, job_ids: Sequence[int]) -> dict[int, str]:
        """The states of some jobs, of those that there are."""
        with self._one_moment():
            return dict(self._run("states_of", job_ids=json.dumps(list(job_ids))).fetchall())

    def related(self, job_id: int, steps: int) -> dict[str, Any]:
        """The jobs that one waits for and that wait for it, so many steps in each direction."""
        with self._one_moment():
            return related(self._run, job_id, steps)

    def job_with_call(self, path: str) -> int | None:
        """The latest job that makes the call in a file; all jobs are looked through."""
        with self._one_moment():
            found: int | None = self._run("names_call", path=path).fetchone()[0]
        return found

    def latest_attempts(self, job_ids: Sequence[int]) -> list[tuple[int, int]]:
        """The jobs that have an attempt, each with the number of the latest."""
        with self._one_moment():
            return self._run("latest_attempts", job_ids=json.dumps(list(job_ids))).fetchall()

    def put_back(self, job_ids: Sequence[int]) -> dict[int, set[int]]:
        """The attempts after which these jobs went on later, of those that have some."""
        found: dict[int, set[int]] = {}
        with self._one_moment():
            for job_id, number in self._run("put_back", job_ids=json.dumps(list(job_ids))):
                found.setdefault(job_id, set()).add(number)
        return found

    def outputs(self, job_ids: Sequence[int]) -> list[dict[str, Any]]:
        """What tells where some jobs put their output: `launch`, `name`, `params`, ..."""
        with self._one_moment():
            rows = list(dicts(self._run("outputs", job_ids=json.dumps(list(job_ids)))))
        for row in rows:
            row["launch"] = json.loads(row["launch"])
            row["params"] = json.loads(row["params"]) if row["params"] else {}
        return rows

    def groups(self) -> dict[str, dict[str, int]]:
        """How many jobs of each group are in each state; the group with the newest job last."""
        latest: dict[str, int] = {}
        counts: dict[str, dict[str, int]] = {}
        with self._one_moment():
            for name, state, count, last_id in self._run("group_counts"):
                counts.setdefault(name, {})[state] = count
                latest[name] = max(last_id, latest.get(name, 0))
        return {name: counts[name] for name in sorted(counts, key=latest.__getitem__)}

    def sweeps(self, limit: int) -> list[dict[str, Any]]:
        """The sweeps, the newest first, with the states of their points."""
        found = []
        with self._one_moment():
            for name, last_id in self._run("sweep_names", limit=limit).fetchall():
                [last] = self._rows([last_id])
                found.append(
                    {
                        "sweep": name,
                        **sweep_table.outline(self._run("sweep_states", sweep=name)),
                        "last_id": last_id,
                        "submitted_at_ms": last["submitted_at_ms"],
                    }
                )
        return found

    def sweep(self, name: str, offset: int, limit: int) -> dict[str, Any]:
        """A part of a sweep's points, and what is to be known of all of them."""
        with self._one_moment():
            counts = dict(self._run("sweep_counts", sweep=name).fetchall())
            total = sum(counts.values())
            parameters = self._run("sweep_varied", sweep=name).fetchall()
            found = self._run("sweep_rows", sweep=name, limit=limit, offset=offset)
            points = list(dicts(found))
        for point in points:
            point["params"] = json.loads(point["params"]) if point["params"] else {}
            point["gpus"] = _list(point["gpus"])
            if point["state"] in ("waiting", "held", "submitted"):
                point["started_at_ms"] = None
            if point["state"] in QUEUED:
                point["gpus"] = []
        varied = [
            key for key, many, values in parameters if values > 1 or many < total or total == 1
        ]
        return {"points": points, "total": total, "counts": counts, "varied": varied}

    def sweep_ids(self, name: str) -> list[int]:
        """The latest job of each point of a sweep."""
        with self._one_moment():
            return [job_id for (job_id,) in self._run("sweep_ids", sweep=name)]

    def sweep_table(self, name: str, *, in_full: bool) -> dict[str, Any]:
        """All points of a sweep, column by column; see api.messages.SweepTable."""
        more = (
            ", j.attempt, j.submitted_at_ms, j.name, j.launch, j.cause, j.detail" if in_full else ""
        )
        with self._one_moment():
            query = self._sql["sweep_jobs"].format(more=more)
            rows = self._connection.execute(query, {"sweep": name})
            found = sweep_table.table(rows, in_full=in_full)
            repeat = self._connection.execute(self._sql["sweep_repeat"], {"sweep": name}).fetchone()
            return found | {"repeat": repeat and repeat[0]}

    def search_jobs(
        self, name: str, newest: int, unsure: Sequence[int]
    ) -> list[tuple[str, int, str, str | None, str | None, int]]:
        """The points of a sweep as a searcher has to know them.

        Of each job point, id, state, cause, params and attempt. Only jobs with a higher id than
        `newest`, and those of `unsure`.
        """
        ids = json.dumps(unsure)
        with self._one_moment():
            return self._run("search_jobs", sweep=name, newest=newest, unsure=ids).fetchall()

    # ------------------------------------------------------------------ their parts

    def _ids(self, wanted: Wanted, now_ms: int, known: Known | None) -> _Found:
        """The ids of the window, and how many there are in all."""
        found = _Found()
        offset, room = wanted.offset, wanted.limit
        for stretch in _stretches(wanted):
            count = self._count(stretch, wanted, known)
            found.total += count
            if room and offset < count:
                ids = self._of_stretch(stretch, wanted, now_ms, known, room, offset)
                if known and stretch.states == ("waiting",) and not wanted.descending:
                    found.places |= {i: place for place, i in enumerate(ids, offset + 1)}
                found.ids += ids
                room -= len(ids)
            offset = max(0, offset - count)
        return found

    def _count(self, stretch: _Stretch, wanted: Wanted, known: Known | None) -> int:
        if known is not None:
            states = stretch.states or wanted.states or list(known.counts)
            return sum(known.counts.get(state, 0) for state in states)
        where, values = _condition(wanted, stretch)
        query = self._sql["browse_count"].format(index=stretch.index, where=where)
        count: int = self._connection.execute(query, values).fetchone()[0]
        return count

    def _of_stretch(
        self,
        stretch: _Stretch,
        wanted: Wanted,
        now_ms: int,
        known: Known | None,
        room: int,
        offset: int,
    ) -> list[int]:
        if known is not None and stretch.states == _ACTIVE:
            active = list(known.active)[:: -1 if wanted.descending else 1]
            return active[offset : offset + room]
        where, values = _condition(wanted, stretch)
        query = self._sql["browse_ids"].format(
            index=stretch.index, where=where, order=stretch.order
        )
        values |= {"now_ms": now_ms, "limit": room, "offset": offset}
        return [row[0] for row in self._connection.execute(query, values)]

    def _rows(self, job_ids: Sequence[int]) -> Iterator[dict[str, Any]]:
        for row in dicts(self._run("browse_rows", job_ids=json.dumps(list(job_ids)))):
            without_past(row)
            row["gpus"] = _list(row["gpus"])
            row["need"] = _need(row["need"])
            row["launch"] = json.loads(row["launch"])
            row["params"] = json.loads(row["params"]) if row["params"] else {}
            placed = row.pop("placed_at_ms")
            row["started_at_ms"] = row["started_at_ms"] or placed
            if row["state"] not in ACTIVE | FINAL or row["attempt"] == 0:
                row["started_at_ms"] = None
            row["position"] = None
            yield row

    def _run(self, query: str, **values: Any) -> sqlite3.Cursor:
        return self._connection.execute(self._sql[query], values)

    @contextmanager
    def _one_moment(self) -> Iterator[None]:
        """All that is read within is of one commit, and does not take for ever."""
        self._until = time.monotonic() + LONGEST_S
        try:
            self._connection.execute("BEGIN")
            try:
                yield
            finally:
                self._until = time.monotonic() + LONGEST_S
                self._connection.execute("ROLLBACK")
        except sqlite3.OperationalError as error:
            if "interrupted" not in str(error):
                raise
            raise Unavailable(
                f"the list is so long that it took more than {LONGEST_S:.0f} s",
                "name a state or a group",
            ) from None

    def _is_late(self) -> bool:
        return time.monotonic() > self._until


@dataclass(slots=True)
class _Found:
    ids: list[int] = field(default_factory=list)
    total: int = 0
    places: dict[int, int] = field(default_factory=dict)


def _stretches(wanted: Wanted) -> list[_Stretch]:
    """The stretches of which the list is made, each with its order."""
    direction = "DESC" if wanted.descending else "ASC"
    if wanted.sort != "standing":
        key = _SORTS[wanted.sort]
        if wanted.sort == "id":
            return [_Stretch(order=f"j.id {direction}")]
        return [_Stretch(order=f"{key} {direction} NULLS LAST, j.id {direction}")]
    among_equals = f"coalesce(j.place, j.id << {PLACE_BITS}) {direction}"
    urgent = "(SELECT id FROM terms WHERE json_extract(body, '$.urgent'))"
    queue = f"j.terms NOT IN {urgent} {direction}, j.priority {direction}, {among_equals}"
    queue += f", j.id {direction}"
    # The index of what has ended gives its order, so that a long past costs nothing.
    other = "ASC" if wanted.descending else "DESC"
    unfinished = ("INDEXED BY jobs_unfinished", "j.ended_at_ms IS NULL")
    stretches = [
        _Stretch(_ACTIVE, f"{_BEGAN} {direction}, j.id {direction}", *unfinished),
        _Stretch(("waiting",), queue, *unfinished),
        _Stretch(("held",), queue, *unfinished),
        _Stretch(
            _ENDED,
            f"j.ended_at_ms {other}, j.state {other}, j.id {other}",
            "INDEXED BY jobs_ended",
            "j.ended_at_ms IS NOT NULL",
        ),
    ]
    if wanted.states:
        # A stretch of which only a part is wanted is looked through; it is no longer known whole.
        stretches = [
            replace(one, states=tuple(state for state in one.states if state in wanted.states))
            for one in stretches
        ]
        stretches = [one for one in stretches if one.states]
    return stretches[::-1] if wanted.descending else stretches


def _condition(wanted: Wanted, stretch: _Stretch) -> tuple[str, dict[str, Any]]:
    conditions = [stretch.scope]
    states = stretch.states or wanted.states
    named = numbered("state", states)
    values = {"group": wanted.group, "user": wanted.user, **named}
    if states and states != _ENDED:
        conditions.append(f"j.state IN (:{', :'.join(named)})")
    if wanted.ids:
        conditions.append("j.id IN (SELECT value FROM json_each(:ids))")
        values["ids"] = json.dumps(list(wanted.ids))
    if wanted.group is not None:
        conditions.append('j."group" = :group')
    if wanted.user is not None:
        conditions.append("j.user = :user")
    of_terms, more = matching.conditions(wanted.terms)
    return " AND ".join([*conditions, *of_terms]), values | more


@lru_cache(maxsize=1024)
def _need(body: str) -> dict[str, Any]:
    need = json.loads(body)
    share = need.get("share_milli")
    return {
        "gpus": need["gpus"],
        "share": None if share is None else share / 1000,
        "mem_mib": need["mem_mib"],
        "mem": "auto" if need.get("kind") is not None else None,
        "cpus": need["cpus"],
    }


def _list(body: str | None) -> list[str]:
    found: list[str] = json.loads(body) if body else []
    return found
