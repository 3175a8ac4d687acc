"""A job is restored as it was, whatever has happened to it, also among very many usual ones.

Usual jobs (they wait, and nothing has ever happened to them) are read in a shorter way.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stoker.api.messages import JobOwn
from stoker.core import events as ev
from stoker.core.check import check
from stoker.core.model import (
    ACTIVE,
    ALONE,
    QUEUED,
    Cause,
    Exit,
    Job,
    JobState,
    Launch,
    Need,
    Rank,
    Requirement,
    Terms,
    Warning,
)
from stoker.core.order import Policy
from stoker.core.state import State
from stoker.ports import Store
from stoker.sim.fingerprint import of_state
from stoker.store.memory import MemoryStore
from stoker.store.sqlite import SqliteStore

NOW_MS = 1_700_000_000_000
LATER_MS = NOW_MS + 3_600_000
GPU = ("0",)
Happening = Callable[[int], list[ev.Event]]


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "memory":
        return MemoryStore()
    return _sqlite(tmp_path)


def _sqlite(directory: Path) -> SqliteStore:
    store = SqliteStore(directory / "stoker.db")
    # Whether it survives power cuts is for SQLite's own tests; waiting for the disk is not.
    store.connection.execute("PRAGMA synchronous = OFF")
    return store


def _submitted(job_id: int, need: Need | None = None, **fields: Any) -> ev.JobSubmitted:
    terms = fields.pop("terms", Terms())
    return ev.JobSubmitted(NOW_MS, job_id, need or Need(), terms, **fields)


def _ran(job_id: int, *then: ev.Event, need: Need | None = None, **terms: Any) -> list[ev.Event]:
    """A job that was submitted, placed and started, and what came then."""
    return [
        _submitted(job_id, need, terms=Terms(**terms)),
        ev.AttemptPlaced(NOW_MS, job_id, 1, GPU),
        ev.AttemptStarted(NOW_MS, job_id, 1, 4711),
        *then,
    ]


def _on_cluster(job_id: int, *then: ev.Event) -> list[ev.Event]:
    return [
        _submitted(job_id, terms=Terms(executor="slurm")),
        ev.AttemptPlaced(NOW_MS, job_id, 1, ()),
        *then,
    ]


def _exited(job_id: int, **how: Any) -> ev.AttemptExited:
    return ev.AttemptExited(NOW_MS, job_id, 1, Exit(code=1), **how)


def _told_to_give_way(job_id: int, for_job: int) -> ev.StopRequested:
    return ev.StopRequested(NOW_MS, job_id, 1, Cause.GAVE_WAY, str(for_job))


SHARE = Need(1, mem_mib=1000)
UNUSUAL: dict[str, Happening] = {
    "held": lambda i: [_submitted(i, held=True)],
    "at a moment": lambda i: [_submitted(i, not_before_ms=LATER_MS)],
    "at a moment that is past": lambda i: [_submitted(i, not_before_ms=NOW_MS - 1)],
    "after a job": lambda i: [_submitted(i, requires=(Requirement(1, must_succeed=True),))],
    "after a range": lambda i: [
        _submitted(i, requires=(Requirement(1, must_succeed=False, last_id=3),))
    ],
    "held, after a job": lambda i: [
        _submitted(i, held=True, requires=(Requirement(1, must_succeed=True),))
    ],
    "placed": lambda i: [_submitted(i), ev.AttemptPlaced(NOW_MS, i, 1, GPU)],
    "running": _ran,
    "stopping": lambda i: _ran(i, ev.StopRequested(NOW_MS, i, 1, Cause.CANCELLED)),
    "warned": lambda i: _ran(
        i, ev.WarningDue(NOW_MS, i, 1), time_limit_ms=5_000, signal=10, signal_before_ms=2_000
    ),
    "failed once": lambda i: _ran(i, _exited(i), retries=2),
    "failed once, and held": lambda i: _ran(i, _exited(i), ev.JobHeld(NOW_MS, i), retries=2),
    "out of memory": lambda i: _ran(i, _exited(i, out_of_memory=True), need=SHARE),
    "taken along by MPS": lambda i: _ran(i, _exited(i, mps_fault=True), need=SHARE),
    "vanished": lambda i: _ran(i, ev.AttemptVanished(NOW_MS, i, 1, "a power cut"), retries=1),
    "put back": lambda i: _ran(i, _exited(i), requeue_on=(1,)),
    "put back, and stuck": lambda i: _ran(i, _exited(i, progressed=False), requeue_on=(1,)),
    "put back where it was": lambda i: _ran(i, _exited(i), requeue_on=(1,), keep_place=True),
    "put back, and placed again": lambda i: _ran(
        i, _exited(i), ev.AttemptPlaced(NOW_MS, i, 2, GPU), requeue_on=(1,)
    ),
    "past its slice, and warned": lambda i: _ran(
        i, ev.StopRequested(NOW_MS, i, 1, Cause.SLICE), signal=12, signal_before_ms=9, slice_ms=99
    ),
    "being suspended": lambda i: _ran(i, ev.SuspendRequested(NOW_MS, i, 1), time_limit_ms=5_000),
    "suspended": lambda i: _ran(
        i, ev.SuspendRequested(NOW_MS, i, 1), ev.AttemptSuspended(NOW_MS, i, 1, 1)
    ),
    "continued, and not told so yet": lambda i: _ran(
        i, ev.SuspendRequested(NOW_MS, i, 1), ev.ContinueRequested(NOW_MS, i, 1)
    ),
    "suspended before its process was there": lambda i: [
        _submitted(i),
        ev.AttemptPlaced(NOW_MS, i, 1, GPU),
        ev.SuspendRequested(NOW_MS, i, 1),
        ev.AttemptStarted(NOW_MS, i, 1, 4711),
    ],
    "gives way": lambda i: _ran(i, _told_to_give_way(i, 1), preemptible=True),
    "gave way": lambda i: _ran(
        i, _told_to_give_way(i, 1), _exited(i), preemptible=True, requeue_on=(1,)
    ),
    "gave way, and placed again": lambda i: _ran(
        i,
        _told_to_give_way(i, 1),
        _exited(i),
        ev.AttemptPlaced(NOW_MS, i, 2, GPU),
        preemptible=True,
        requeue_on=(1,),
    ),
    "urgent, and GPUs are kept for it": lambda i: [
        _submitted(i, terms=Terms(urgent=True)),
        ev.RoomKept(NOW_MS, i, GPU),
    ],
    "urgent, and placed where GPUs were kept": lambda i: [
        _submitted(i, terms=Terms(urgent=True)),
        ev.RoomKept(NOW_MS, i, GPU),
        ev.AttemptPlaced(NOW_MS, i, 1, GPU),
    ],
    "handed over": _on_cluster,
    "taken by a cluster": lambda i: _on_cluster(i, ev.AttemptAccepted(NOW_MS, i, 1, "77_3")),
    "running on a cluster": lambda i: _on_cluster(
        i, ev.AttemptStarted(NOW_MS, i, 1, None, "77_3 n1")
    ),
    "evicted": lambda i: _on_cluster(
        i, ev.AttemptEvicted(NOW_MS, i, 1, Cause.REQUEUED, "the cluster lost it")
    ),
    "retried by hand": lambda i: [
        _submitted(i),
        ev.JobCancelled(NOW_MS, i),
        ev.JobRetried(NOW_MS, i, Need(), Terms(), 0, None, (), 1),
    ],
}


def _usual(job_id: int) -> ev.JobSubmitted:
    return _submitted(job_id, priority=-job_id % 3, group="odd" if job_id % 2 else None)


def _line(state: State) -> list[Rank]:
    """Who is next, and so on, for as many as there are."""
    line = []
    (of_gpus,) = state.ready.gpu_lines()
    while (cls := state.ready.pop_class(of_gpus)) is not None:
        head = state.ready.head(cls)
        assert head is not None
        line.append(head.rank)
        state.ready.discard(head)
        state.ready.put_back(cls)
    return line


def _among_usual_ones(store: Store, happenings: list[Happening]) -> State:
    """A committed state: three usual jobs, then each unusual one and a usual one after it."""
    state = store.load(NOW_MS)
    state.apply(ev.GpuAdded(NOW_MS, "0", 24_576))
    state.apply(ev.GpuAdded(NOW_MS, "1", 49_152))
    for job_id in (1, 2, 3):
        state.apply(_usual(job_id))
    store.commit(state, state.take_change())
    for happening in happenings:
        for event in happening(state.next_job_id):
            state.apply(event)
            # Each by itself, since what comes together is written in another way.
            store.commit(state, state.take_change())
        state.apply(_usual(state.next_job_id))
        store.commit(state, state.take_change())
    return state


@pytest.mark.parametrize("kind", UNUSUAL)
def test_an_unusual_job_among_usual_ones_is_restored_as_it_was(store: Store, kind: str) -> None:
    state = _among_usual_ones(store, [UNUSUAL[kind]])
    unusual = state.jobs[4]
    assert kind == "at a moment that is past" or unusual != Job(4, unusual.need, unusual.terms)
    loaded = store.load(NOW_MS)
    check(loaded)
    assert loaded.jobs == state.jobs
    assert of_state(loaded) == of_state(state)
    assert _line(loaded) == _line(state)


def test_all_kinds_together_are_restored_as_they_were(store: Store) -> None:
    # Those that hold the GPU can't be there at once.
    alone = {"placed", "running", "stopping", "warned", "put back, and placed again"}
    alone |= {"past its slice, and warned", "being suspended", "suspended"}
    alone |= {"continued, and not told so yet", "suspended before its process was there"}
    alone |= {"gives way", "gave way, and placed again"}
    alone |= {"urgent, and placed where GPUs were kept"}
    kinds = [happening for kind, happening in UNUSUAL.items() if kind not in alone]
    state = _among_usual_ones(store, [*kinds, UNUSUAL["stopping"]])
    loaded = store.load(NOW_MS)
    check(loaded)
    assert list(loaded.jobs) == list(state.jobs)
    assert loaded.jobs == state.jobs
    assert of_state(loaded) == of_state(state)
    names = {id(job.group) for job in loaded.jobs.values() if job.group == "odd"}
    assert len(names) == 1, "jobs of a group share its name"
    assert _line(loaded) == _line(state)


def test_the_table_of_kinds_has_each_thing_that_can_be_unusual() -> None:
    jobs = [_among_usual_ones(MemoryStore(), [one]).jobs[4] for one in UNUSUAL.values()]
    assert {job.state for job in jobs} == QUEUED | ACTIVE
    assert any(job.ooms for job in jobs) and any(job.mps_faults for job in jobs)
    assert any(job.floor_mib for job in jobs) and any(job.failures for job in jobs)
    assert any(job.place for job in jobs) and any(job.resumes for job in jobs)
    assert any(job.stuck for job in jobs) and any(job.kept for job in jobs)
    assert any(job.gave_way and job.gave_way.since_ms for job in jobs)
    assert any(job.active and job.active.warning is Warning.DUE for job in jobs)


@pytest.mark.parametrize(
    ("column", "kept", "field", "value"),
    [
        ("state", "held", "state", JobState.HELD),
        ("not_before_ms", LATER_MS, "not_before_ms", LATER_MS),
        ("backoff_until_ms", LATER_MS, "backoff_until_ms", LATER_MS),
        ("attempt", 3, "attempt", 3),
        ("failures", 2, "failures", 2),
        ("unmet", json.dumps([[1, True]]), "requires", (Requirement(1, must_succeed=True),)),
        ("ooms", 1, "ooms", 1),
        ("floor_mib", ALONE, "floor_mib", ALONE),
        ("floor_mib", 0, "floor_mib", 0),
        ("mps_faults", 1, "mps_faults", 1),
        ("kept", '["0", "1"]', "kept", ("0", "1")),
    ],
)
def test_one_column_alone_makes_a_job_unusual(
    tmp_path: Path, column: str, kept: object, field: str, value: object
) -> None:
    store = _sqlite(tmp_path)
    usual = _among_usual_ones(store, []).jobs
    store.connection.execute(f"UPDATE jobs SET {column} = ? WHERE id = 2", (kept,))
    loaded = store.load(NOW_MS)
    check(loaded)
    changes: dict[str, Any] = {field: value}
    assert loaded.jobs == {1: usual[1], 2: replace(usual[2], **changes), 3: usual[3]}
    store.close()


def test_no_column_of_a_job_in_memory_is_forgotten_by_the_test_above() -> None:
    shared = {"id", "need", "terms", "priority", "group"}
    tried = {"state", "not_before_ms", "backoff_until_ms", "attempt", "failures", "requires",
             "ooms", "floor_mib", "mps_faults", "kept"}  # fmt: skip
    only_after_an_attempt = {"place", "resumes", "stuck", "gave_way"}
    indexes = {"active", "in_class", "goes_first"}
    fields = set(Job.__dataclass_fields__)
    assert fields == shared | tried | only_after_an_attempt | indexes


def test_what_the_order_is_decided_by_is_kept(store: Store) -> None:
    state = store.load(NOW_MS)
    kinds = ["short", "long", "short"]
    together = ev.JobsSubmitted(
        NOW_MS + 120_000, 1, Need(), Terms(), "g", [0, 0, 0], Launch(("x",)), [JobOwn()] * 3, kinds
    )
    happened: list[ev.Event] = [ev.GpuAdded(NOW_MS, "0"), together]
    happened.append(ev.AttemptPlaced(NOW_MS + 120_000, 1, 1, GPU))
    happened.append(ev.AttemptStarted(NOW_MS + 120_000, 1, 1, 4711))
    happened.append(ev.AttemptExited(LATER_MS, 1, 1, Exit(code=0)))
    happened.append(ev.PolicySet(LATER_MS, Policy.SHORTEST))
    for event in happened:
        state.apply(event)
        store.commit(state, state.take_change())
    loaded = store.load(LATER_MS)
    assert of_state(loaded) == of_state(state)
    assert loaded.order.run_times.of("short", 1) == (LATER_MS - NOW_MS - 120_000,)
    assert loaded.order.usage["g"].gpu_ms == LATER_MS - NOW_MS - 120_000
    assert {i: loaded.jobs[i].terms.run_kind for i in (2, 3)} == {2: "long", 3: "short"}
    assert loaded.order.came_ms(loaded.jobs[3].rank) > NOW_MS
