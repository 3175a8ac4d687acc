"""Reading the state: there may be a million jobs that are not final, and GPUs wait meanwhile.

Usual jobs, which wait and to which nothing has ever happened, are read as cohorts that are alike;
the others one by one.
"""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from itertools import cycle
from pathlib import Path
from typing import Any

import msgspec

from stoker.core.model import ACTIVE, Group, Job, JobState, Need, Profile, Requirement, Terms
from stoker.core.order import Policy, Usage
from stoker.core.ready import Cohort
from stoker.core.state import State
from stoker.store.database import open_to_read
from stoker.store.named_sql import queries
from stoker.store.numbered import Numbered
from stoker.store.rows import attempt_from, gave_way_from, gpu_from, kept_from, requirements_from

_AT_A_TIME = 50_000  # jobs; the lists of more would only take memory
_STATES = {state.value: state for state in JobState}
_numbers = msgspec.json.Decoder(list[int])
_numbers_or_none = msgspec.json.Decoder(list[int | None])
_texts_or_none = msgspec.json.Decoder(list[str | None])

_Part = tuple[Sequence[int], str, str, str]
"""The ids of some jobs, and as JSON lists their needs and terms (see `_Alike`), priorities, groups.
"""

_Alike = tuple[int | None, int, str | None]
"""The numbers of a need and of terms in one (None: see `_unusual`), a priority, and a group."""


def load(
    connection: sqlite3.Connection, path: Path, numbered: Numbered, ended: int, now_ms: int
) -> State:
    """The state as of the last commit; so many jobs are there that have ended."""
    sql, run = queries(), connection.execute
    needs, terms = numbered.load()
    settings = dict(run(sql["settings"]))
    last = run(sql["last_id"]).fetchone()[0] or 0
    (first,) = run(sql["first_unfinished_id"]).fetchone()
    next_job_id = max(int(settings.get("next_job_id", "1")), last + 1)
    with ExitStack() as opened:
        connections = [connection]
        # No descriptor is left, say. One takes longer, and does as well.
        with suppress(sqlite3.Error):
            other = opened.enter_context(closing(open_to_read(path)))
            other.execute("PRAGMA user_version")  # Only now are all its files open.
            connections.append(other)
        jobs, cohorts = _unfinished(connections, needs, terms, next_job_id, ended)
    return State.restored(
        jobs,
        [gpu_from(row) for row in run(sql["gpus"])],
        [Group(name, bool(paused), most) for name, paused, most in run(sql["groups"])],
        [Profile(*row) for row in run(sql["profiles"])],
        cohorts,
        now_ms=now_ms,
        next_job_id=next_job_id,
        paused=settings.get("paused") == "1",
        cpus=int(settings.get("counted_cpus", "1")),
        at_cluster_most=int(settings.get("at_cluster_most", "1000")),
        standbys=json.loads(settings.get("standbys", "[]")),
        policy=settings.get("policy", Policy.FIFO),
        run_times=[(kind, n, json.loads(runs)) for kind, n, runs in run(sql["all_run_times"])],
        usage={name: Usage(*used) for name, *used in run(sql["all_usage"])},
        arrivals=run(sql["all_arrivals"], {"oldest": first or 0}).fetchall(),
    )


def _unfinished(
    connections: Sequence[sqlite3.Connection],
    needs: Mapping[int, Need],
    terms: Mapping[int, Terms],
    next_job_id: int,
    ended: int,
) -> tuple[list[Job], list[Cohort]]:
    """The unusual jobs that are not final, and all others in cohorts, read by all connections."""
    alike: defaultdict[_Alike, list[int]] = defaultdict(list)
    names: dict[str | None, str | None] = {}  # Jobs of a group share one string.
    bits = max(terms, default=0).bit_length()
    for ids, needs_and_terms, priorities, groups in _parts(connections, next_job_id, ended, bits):
        kinds = zip(
            _numbers_or_none.decode(needs_and_terms),
            _numbers.decode(priorities),
            _texts_or_none.decode(groups),
            strict=True,
        )
        for job_id, kind in zip(ids, kinds, strict=True):
            alike[kind].append(job_id)
    cohorts: list[Cohort] = []
    unusual: list[int] = []
    for (need_and_terms, priority, name), some in alike.items():
        if need_and_terms is None:
            unusual += some
            continue
        number = need_and_terms >> bits
        need, term = needs[number], terms[need_and_terms - (number << bits)]
        cohorts.append(Cohort(need, term, priority, names.setdefault(name, name), array("q", some)))
    jobs = _unusual(connections[0], unusual, needs, terms, names) if unusual else ()
    return list(jobs), cohorts


def _parts(
    connections: Sequence[sqlite3.Connection], next_job_id: int, ended: int, bits: int
) -> Iterator[_Part]:
    """The rows of `unfinished_jobs`; while one is looked at, each connection reads another."""
    sql = queries()
    (first,) = connections[0].execute(sql["first_unfinished_id"]).fetchone()
    if first is None:
        return
    # To go through the table itself is quicker than to look each job up, unless most have ended.
    by_index = ended > (next_job_id - first) // 2
    index = "INDEXED BY jobs_unfinished" if by_index else "NOT INDEXED"
    text = sql["unfinished_jobs"].format(index=index)

    def read(connection: sqlite3.Connection, start: int) -> _Part:
        ids: Sequence[int] = range(start, min(start + _AT_A_TIME, next_job_id))
        span = {"first": ids[0], "last": ids[-1]}
        count, *columns = connection.execute(text, {**span, "bits": bits}).fetchone()
        if count < len(ids):  # Some in between have ended, or were removed.
            (numbers,) = connection.execute(sql["unfinished_ids"], span).fetchone()
            ids = _numbers.decode(numbers)
        return (ids, *columns)

    starts = range(first, next_job_id, _AT_A_TIME)
    with ThreadPoolExecutor(len(connections)) as readers:
        ahead: deque[Future[_Part]] = deque()
        for start, connection in zip(starts, cycle(connections), strict=False):
            done = ahead.popleft().result() if len(ahead) == len(connections) else None
            ahead.append(readers.submit(read, connection, start))
            if done is not None:
                yield done
        for last in ahead:
            yield last.result()


def _unusual(
    connection: sqlite3.Connection,
    ids: list[int],
    needs: Mapping[int, Need],
    terms: Mapping[int, Terms],
    names: dict[str | None, str | None],
) -> Iterator[Job]:
    sql, run = queries(), connection.execute
    requires: dict[str | None, tuple[Requirement, ...] | None] = {None: None}
    # They come in the order of their ids, so that whatever is built of them is as it was.
    asked = msgspec.json.encode(sorted(ids)).decode()
    for row in run(sql["unusual_jobs"], {"job_ids": asked}):
        job_id, need, term, priority, group, state, *moments = row[:8]
        attempt, failures, unmet, *counts, gave_way, kept = row[8:]
        if unmet not in requires:
            requires[unmet] = requirements_from(unmet) or None
        active = None
        if state in ACTIVE:
            key = {"job_id": job_id, "number": attempt}
            active = attempt_from(run(sql["active_attempt"], key).fetchone())
        who = (job_id, needs[need], terms[term], priority, names.setdefault(group, group))
        tried = (attempt, failures, requires[unmet], active)
        fields: tuple[Any, ...] = (*who, _STATES[state], *moments, *tried, *counts)
        fields = (*fields, gave_way_from(gave_way), kept_from(kept))
        yield Job(*fields)
