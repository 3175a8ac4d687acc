"""A long queue that was loaded goes on as one that was in memory all along.

Usual jobs come back as cohorts, and none of them is made before somebody asks for it.
"""

from __future__ import annotations

import gc
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.core import events as ev
from stoker.core.check import check
from stoker.core.model import Job, Need, Requirement, Terms
from stoker.core.plan import Scan
from stoker.core.state import State
from stoker.ports import Store
from stoker.sim.fingerprint import of_state
from stoker.store import loading
from stoker.store.memory import MemoryStore
from stoker.store.sqlite import SqliteStore

NOW_MS = 1_700_000_000_000
LATER_MS = NOW_MS + 3_600_000
NEEDS = (Need(), Need(2), Need(0, cpus=1), Need(1, mem_mib=1_000))
# The last two differ in nothing that planning asks about, and so are of one class.
TERMS = (Terms(), Terms(time_limit_ms=60_000), Terms(retries=1))
GROUPS = (None, "odd", 'quo"ted \\ \n \u2028 ünïcode')


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else _on_disk(tmp_path)


def _on_disk(directory: Path) -> SqliteStore:
    store = SqliteStore(directory / "stoker.db")
    store.connection.execute("PRAGMA synchronous = OFF")
    return store


def _line(state: State) -> list[int]:
    """Who is next, and so on, for as many as there are."""
    line = []
    ready = state.ready
    for classes in (*ready.gpu_lines(), ready.cpu_line):
        while (cls := ready.pop_class(classes)) is not None:
            head = state.ready.head(cls)
            assert head is not None
            line.append(head.id)
            state.ready.discard(head)
            state.ready.put_back(cls)
    return line


def _queued(store: Store, count: int) -> State:
    """A committed state with so many usual jobs, mixed in all that they can differ in."""
    state = store.load(NOW_MS)
    state.apply(ev.GpuAdded(NOW_MS, "0", 24_576))
    for job_id in range(1, count + 1):
        need, terms = NEEDS[job_id // 3 % len(NEEDS)], TERMS[job_id // 5 % len(TERMS)]
        group = GROUPS[job_id // 2 % len(GROUPS)]
        state.apply(ev.JobSubmitted(NOW_MS, job_id, need, terms, job_id % 4, group))
    store.commit(state, state.take_change())
    return state


def _edited(job: Job, *, priority: int) -> ev.JobEdited:
    return ev.JobEdited(NOW_MS, job.id, job.need, job.terms, priority, job.group, None, None)


Proposals = Callable[[State], list[ev.Event]]
LATER: dict[str, Proposals] = {
    "the first of all are called off": lambda state: [
        ev.JobCancelled(NOW_MS, job_id) for job_id in (4, 8, 12)
    ],
    "some in the middle are called off": lambda state: [
        ev.JobCancelled(NOW_MS, job_id) for job_id in range(20, 60)
    ],
    "some are held, and let go again": lambda state: [
        *(ev.JobHeld(NOW_MS, job_id) for job_id in range(4, 80, 4)),
        *(ev.JobReleased(NOW_MS, job_id) for job_id in range(8, 80, 8)),
    ],
    "some go ahead, and some let others go ahead": lambda state: [
        *(_edited(state.jobs[job_id], priority=-1) for job_id in range(9, 40, 3)),
        *(_edited(state.jobs[job_id], priority=2) for job_id in range(4, 40, 8)),
    ],
    "one goes ahead, and back to where it was": lambda state: [
        _edited(state.jobs[4], priority=-1),
        _edited(state.jobs[4], priority=0),
        ev.JobCancelled(NOW_MS, 4),
    ],
    "others come": lambda state: [
        ev.JobSubmitted(NOW_MS, 101, Need(), Terms(), 0),
        ev.JobSubmitted(NOW_MS, 102, Need(), Terms(), 3, "odd"),
        ev.JobSubmitted(NOW_MS, 103, Need(), Terms(), 0, None, LATER_MS),
        ev.JobSubmitted(NOW_MS, 104, Need(), Terms(), 0, None, None, (Requirement(50, True),)),
        ev.JobCancelled(NOW_MS, 50),
    ],
    "the clock is set": lambda state: [ev.ClockShifted(LATER_MS, LATER_MS - NOW_MS)],
}


@pytest.mark.parametrize("what", LATER)
def test_what_happens_later_has_the_same_effect_as_without_a_restart(
    store: Store, what: str
) -> None:
    state = _queued(store, 100)
    loaded = store.load(NOW_MS)
    for each in (state, loaded):
        for event in LATER[what](each):
            each.apply(event)
        while skips := each.take_doomed():
            for skip in skips:
                each.apply(skip)
        check(each)
    assert list(loaded.jobs) == list(state.jobs)
    assert loaded.jobs == state.jobs
    assert of_state(loaded) == of_state(state)
    assert _line(loaded) == _line(state)


def test_jobs_start_in_the_same_order_as_without_a_restart(store: Store) -> None:
    started = []
    state = _queued(store, 100)
    for each in (state, store.load(NOW_MS)):
        order = []
        while placements := _started(each):
            order.append(placements)
            for job_id in list(each.active):
                each.apply(ev.AttemptVanished(NOW_MS, job_id, 1, "it is over"))
        started.append(order)
    assert started[0] == started[1]
    assert len(started[0]) > 10


def _started(state: State) -> list[tuple[int, tuple[str, ...]]]:
    return [(placed.job_id, placed.gpus) for placed in Scan(state).carry_out(state.apply)]


def test_no_job_is_made_before_somebody_asks_for_it(store: Store) -> None:
    _queued(store, 100)
    before = _jobs_in_memory()
    loaded = store.load(NOW_MS)
    assert len(loaded.jobs) == loaded.ready.count == 100
    assert 77 in loaded.jobs and 101 not in loaded.jobs
    assert _jobs_in_memory() == before
    job = loaded.jobs[77]
    assert _jobs_in_memory() == before + 1
    assert loaded.jobs[77] is job and loaded.jobs.get(77) is job
    _started(loaded)
    # Besides those that start, the head of each class is looked at.
    assert _jobs_in_memory() - before <= 1 + len(loaded.active) + len(loaded.ready.classes())


def _jobs_in_memory() -> int:
    gc.collect()
    return sum(isinstance(thing, Job) for thing in gc.get_objects())


@pytest.mark.parametrize("at_a_time", [1, 7, 99, 100, 101])
def test_all_jobs_are_read_however_many_are_read_at_a_time(
    tmp_path: Path, at_a_time: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "_AT_A_TIME", at_a_time)
    store = _on_disk(tmp_path)
    state = _queued(store, 100)
    for job_id in (1, 7, 50, 100):
        state.apply(ev.JobHeld(NOW_MS, job_id))
    for job_id in (8, 49, 99):
        state.apply(ev.JobCancelled(NOW_MS, job_id))
    store.commit(state, state.take_change())
    loaded = store.load(NOW_MS)
    check(loaded)
    assert list(loaded.jobs) == list(state.jobs)
    assert loaded.jobs == state.jobs
    store.close()


@pytest.mark.parametrize("left", [[1], [99, 100], [1, 50, 51, 52, 100], list(range(2, 100, 2))])
@pytest.mark.parametrize("at_a_time", [7, 100])
def test_the_jobs_that_are_left_are_read_whatever_has_ended_or_was_removed(
    tmp_path: Path, left: list[int], at_a_time: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "_AT_A_TIME", at_a_time)
    store = _on_disk(tmp_path)
    state = _queued(store, 100)
    gone = [job_id for job_id in range(1, 101) if job_id not in left]
    for job_id in gone:
        state.apply(ev.JobCancelled(NOW_MS, job_id))
    store.commit(state, state.take_change())
    for removed in ([], gone[::2], gone[1::2]):
        if removed:
            state.apply(ev.JobsRemoved(NOW_MS, tuple(removed)))
            store.commit(state, state.take_change())
        loaded = store.load(NOW_MS)
        check(loaded)
        assert list(loaded.jobs) == left
        assert loaded.jobs == state.jobs
        assert loaded.next_job_id == 101
    store.close()


def test_jobs_have_their_own_needs_and_terms_again_however_many_there_are_of_these(
    tmp_path: Path,
) -> None:
    store = _on_disk(tmp_path)
    state = store.load(NOW_MS)
    for job_id in range(1, 301):
        need, terms = Need(1, cpus=job_id % 20), Terms(time_limit_ms=1 + job_id % 37)
        state.apply(ev.JobSubmitted(NOW_MS, job_id, need, terms))
    store.commit(state, state.take_change())
    loaded = store.load(NOW_MS)
    assert loaded.jobs == state.jobs
    assert len({(job.need, job.terms) for job in loaded.jobs.values()}) > 256
    store.close()


def test_a_queue_is_loaded_where_no_second_connection_can_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = _on_disk(tmp_path)
    before = of_state(_queued(store, 300))

    def refuse(path: Path) -> sqlite3.Connection:
        raise sqlite3.OperationalError("unable to open database file")

    monkeypatch.setattr(loading, "open_to_read", refuse)
    assert of_state(store.load(NOW_MS)) == before
