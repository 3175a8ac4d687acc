"""What every store promises, tried on the one in memory and on the one on disk."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.random_history import HISTORIES, OWN, History
from stoker.api.messages import JobOwn
from stoker.core import events as ev
from stoker.core.change import Change
from stoker.core.check import check
from stoker.core.code import Code
from stoker.core.model import Attempt, Exit, Launch, Memory, Need, Requirement, Takeovers, Terms
from stoker.core.order import with_run_kinds
from stoker.core.state import State
from stoker.ports import BrokenRecord, Store, StoreFailed
from stoker.sim.fingerprint import of_state
from stoker.store.database import point_hash
from stoker.store.memory import MemoryStore
from stoker.store.sqlite import SqliteStore
from stoker.store.views import Views

NOW_MS = 1_700_000_000_000


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "memory":
        return MemoryStore()
    return SqliteStore(tmp_path / "stoker.db")


def seen(state: State) -> Hashable:
    """Everything that a reader could tell apart. A group of which nothing is known is no group."""
    state.groups = {
        name: group
        for name, group in state.groups.items()
        if group.paused
        or group.max_running is not None
        or any(job.group == name for job in state.jobs.values())
    }
    return of_state(state)


def commit(store: Store, state: State, *events: ev.Event) -> None:
    for event in events:
        state.apply(event)
    store.commit(state, state.take_change())


def submitted(
    state: State, launch: Launch | None = None, need: Need | None = None, **fields: Any
) -> ev.JobSubmitted:
    return ev.JobSubmitted(
        state.now_ms, state.next_job_id, need or Need(), Terms(), launch=launch, **fields
    )


# ---------------------------------------------------------------------- any history


def _is_what_was_committed(store: Store, steps: Sequence[Sequence[int]]) -> None:
    history = History(store.load(NOW_MS))
    for numbers in steps:
        change = history.step(numbers)
        if change:
            store.commit(history.state, change)
        loaded = store.load(history.state.now_ms)
        check(loaded)
        assert seen(loaded) == seen(history.state)


@given(HISTORIES)
@settings(max_examples=60)
def test_what_memory_loads_is_what_was_committed(steps: list[tuple[int, int, int]]) -> None:
    _is_what_was_committed(MemoryStore(), steps)


@given(HISTORIES)
@settings(max_examples=60)
def test_what_sqlite_loads_is_what_was_committed(steps: list[tuple[int, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        store = SqliteStore(Path(directory, "stoker.db"))
        # Whether it survives power cuts is for SQLite's own tests; waiting for the disk is not.
        store.connection.execute("PRAGMA synchronous = OFF")
        _is_what_was_committed(store, steps)
        store.close()


@given(HISTORIES)
@settings(max_examples=20)
def test_another_process_that_opens_the_file_sees_what_was_committed(
    steps: list[tuple[int, int, int]],
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "stoker.db")
        store = SqliteStore(path)
        store.connection.execute("PRAGMA synchronous = OFF")
        history = History(store.load(NOW_MS))
        for numbers in steps:
            store.commit(history.state, history.step(numbers))
        # The first one is left open, as it is when a daemon was killed.
        later = SqliteStore(path)
        assert seen(later.load(history.state.now_ms)) == seen(history.state)
        later.close()
        store.close()


# ---------------------------------------------------------------------- single promises


def test_a_fresh_store_is_empty(store: Store) -> None:
    state = store.load(NOW_MS)
    assert not state.jobs and not state.gpus and state.next_job_id == 1 and not state.paused


def test_ids_are_never_given_twice_even_after_all_jobs_were_removed(store: Store) -> None:
    state = store.load(NOW_MS)
    for job_id in (1, 2):
        commit(store, state, submitted(state))
        commit(store, state, ev.JobCancelled(NOW_MS, job_id))
    commit(store, state, ev.JobsRemoved(NOW_MS, (1, 2)))
    assert store.load(NOW_MS).next_job_id == 3


@pytest.mark.parametrize(
    "shared",
    [
        Launch(("echo",), cwd="/tmp", env={"A": "1"}, user="me"),
        Launch(
            shell="true", env={"A": "1"}, extra_env={"B": "2"}, name="all", out="/tmp/out",
            err="/tmp/err", gpu_arg=True, params={"a": 1}, point="all", cluster_options=("-p", "x"),
            options={"nice": 3},
        ),
    ],
)  # fmt: skip
def test_jobs_that_come_together_are_kept_as_they_would_be_one_by_one(
    store: Store, shared: Launch
) -> None:
    state = store.load(NOW_MS)
    kinds = [f"kind {place % 2}" for place in range(len(OWN))]
    launches = [shared.with_own(own, kind) for own, kind in zip(OWN, kinds, strict=True)]
    for priority, launch in enumerate(launches):
        commit(store, state, submitted(state, launch, group="a", priority=priority))
    together = ev.JobsSubmitted(
        NOW_MS, state.next_job_id, Need(), Terms(), "a", range(len(OWN)), shared, OWN, kinds
    )
    commit(store, state, together)
    assert [store.launch(job_id) for job_id in together.ids] == launches
    jobs = list(store.load(NOW_MS).jobs.values())
    alone, alike = jobs[: len(OWN)], jobs[len(OWN) :]
    assert [job.id for job in alike] == list(together.ids)
    assert [job.terms.run_kind for job in alike] == kinds
    for job, other in zip(alone, alike, strict=True):
        # Whoever submits one alone says its run kind in its terms.
        terms = with_run_kinds(job.need, job.terms, [other.terms.run_kind])
        assert replace(job, id=other.id, terms=terms[other.terms.run_kind]) == other


def test_a_change_that_is_not_committed_is_not_there(store: Store) -> None:
    state = store.load(NOW_MS)
    commit(store, state, submitted(state))
    state.apply(submitted(state))
    state.apply(ev.QueuePaused(NOW_MS))
    state.apply(ev.JobHeld(NOW_MS, 1))
    loaded = store.load(NOW_MS)
    assert list(loaded.jobs) == [1] and not loaded.paused
    assert loaded.jobs[1].state == "waiting"


def test_an_attempt_that_was_placed_and_ended_within_one_commit_is_ended(store: Store) -> None:
    state = store.load(NOW_MS)
    commit(
        store,
        state,
        ev.GpuAdded(NOW_MS, "0"),
        submitted(state),
        ev.AttemptPlaced(NOW_MS, 1, 1, ("0",)),
        ev.AttemptStarted(NOW_MS, 1, 1, 17),
        ev.AttemptExited(NOW_MS, 1, 1, Exit(code=7)),
    )
    assert store.load(NOW_MS).jobs == {}


def _memory(attempt: Attempt) -> Memory | None:
    return attempt.memory


def test_what_is_margin_in_the_memory_of_an_attempt_is_kept(store: Store) -> None:
    state = store.load(NOW_MS)
    need = Need(kind="train")
    commit(
        store,
        state,
        ev.GpuAdded(NOW_MS, "0", 24_000),
        submitted(state, need=need),
        ev.AttemptPlaced(NOW_MS, 1, 1, ("0",), Memory(9_000, 3_000, 600)),
    )
    attempt = store.load(NOW_MS).jobs[1].active
    assert attempt is not None and _memory(attempt) == (9_000, 3_000, 600)
    commit(store, state, ev.ReservationChanged(NOW_MS, 1, 1, Memory(7_000, 500, 40)))
    loaded = store.load(NOW_MS)
    attempt = loaded.jobs[1].active
    assert attempt is not None and _memory(attempt) == (7_000, 500, 40)
    assert loaded.gpus["0"].held_by == state.gpus["0"].held_by


def test_requirements_that_have_come_true_stay_so(store: Store) -> None:
    state = store.load(NOW_MS)
    commit(store, state, ev.GpuAdded(NOW_MS, "0"), submitted(state))
    requires = (Requirement(1, must_succeed=True),)
    commit(store, state, submitted(state, requires=requires))
    assert store.load(NOW_MS).jobs[2].requires == requires
    commit(store, state, ev.AttemptPlaced(NOW_MS, 1, 1, ("0",)))
    commit(store, state, ev.AttemptExited(NOW_MS, 1, 1, Exit(code=0)))
    assert not store.load(NOW_MS).jobs[2].requires


# A NUL can be in no argument, path or variable; lone surrogates never come in (see the api).
_TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)
_SOME_VALUE = st.none() | st.booleans() | st.integers(-9, 9) | _TEXT
_VALUES = st.dictionaries(_TEXT, _SOME_VALUE, max_size=3)
_LAUNCHES = st.builds(
    Launch,
    argv=st.lists(_TEXT, min_size=1, max_size=5).map(tuple),
    shell=st.none() | _TEXT,
    cwd=_TEXT.map(lambda text: "/" + text),
    env=st.dictionaries(_TEXT, _TEXT, max_size=5),
    extra_env=st.dictionaries(_TEXT, _TEXT, max_size=3),
    name=st.none() | _TEXT,
    user=_TEXT,
    out=st.none() | _TEXT,
    err=st.none() | _TEXT,
    gpu_arg=st.booleans(),
    requires=st.lists(st.builds(Requirement, st.integers(1, 9), st.booleans()), max_size=3).map(
        tuple
    ),
    kind=_TEXT,
    params=_VALUES,
    point=st.none() | _TEXT,
    cluster_options=st.lists(_TEXT, max_size=3).map(tuple),
    umask=st.none() | st.integers(0, 0o777),
    options=_VALUES,
    code=st.none() | st.integers(1, 9).map(lambda number: Code(number, f"/{number}", "ab" * 20)),
)


@given(st.lists(_LAUNCHES, max_size=8))
@settings(max_examples=50)
def test_what_is_needed_to_start_a_job_comes_back_as_it_was(launches: list[Launch]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        sqlite = SqliteStore(Path(directory, "stoker.db"))
        sqlite.connection.execute("PRAGMA synchronous = OFF")
        stores: list[Store] = [MemoryStore(), sqlite]
        for store in stores:
            state = store.load(NOW_MS)
            for launch in launches:
                commit(store, state, submitted(state, launch))
            for job_id, launch in enumerate(launches, start=1):
                assert store.launch(job_id) == launch
        sqlite.close()


def test_a_huge_environment_comes_back_as_it_was(store: Store) -> None:
    env = {f"VARIABLE_{i}": f"{i} ünïcode \n" * 200 for i in range(1000)}
    state = store.load(NOW_MS)
    commit(store, state, submitted(state, Launch(("true",), env=env)))
    assert dict(store.launch(1).env) == env


def test_jobs_of_one_environment_share_it_and_the_last_to_be_removed_takes_it_along(
    tmp_path: Path,
) -> None:
    store = SqliteStore(tmp_path / "stoker.db")
    state = store.load(NOW_MS)

    def kept() -> int:
        found: int = store.connection.execute("SELECT count(*) FROM environments").fetchone()[0]
        return found

    for _ in range(3):
        commit(store, state, submitted(state, Launch(("true",), env={"SECRET": "s"})))
    assert kept() == 1
    for job_id in (1, 2, 3):
        commit(store, state, ev.JobCancelled(NOW_MS, job_id))
        commit(store, state, ev.JobsRemoved(NOW_MS, (job_id,)))
        assert kept() == (0 if job_id == 3 else 1)
    commit(store, state, submitted(state, Launch(("true",), env={"SECRET": "s"})))
    assert dict(store.launch(4).env) == {"SECRET": "s"}
    store.close()


def _edited(state: State, job_id: int, launch: Launch) -> ev.JobEdited:
    return ev.JobEdited(state.now_ms, job_id, Need(), Terms(), 0, None, None, launch=launch)


def test_a_job_starts_as_it_was_edited_though_it_was_read_ahead_with_the_one_before_it(
    store: Store,
) -> None:
    state = store.load(NOW_MS)
    commit(store, state, submitted(state, Launch(("first",))))
    commit(store, state, submitted(state, Launch(("as added",))))
    assert store.launch(1).argv == ("first",)
    commit(store, state, _edited(state, 2, Launch(("as edited",))))
    assert store.launch(2).argv == ("as edited",)


def test_a_job_that_came_was_edited_and_placed_in_one_turn_starts_as_it_was_edited(
    store: Store,
) -> None:
    state = store.load(NOW_MS)
    commit(
        store,
        state,
        ev.GpuAdded(NOW_MS, "0"),
        submitted(state, Launch(("as added",))),
        _edited(state, 1, Launch(("as edited",))),
        ev.AttemptPlaced(NOW_MS, 1, 1, ("0",)),
    )
    assert store.launch(1).argv == ("as edited",)


def test_an_environment_that_was_removed_is_not_taken_for_the_next_one(store: Store) -> None:
    state = store.load(NOW_MS)
    for job_id in (1, 2):
        env = {"OF": str(job_id)}
        commit(store, state, submitted(state, Launch(("true",), env=env)))
        assert dict(store.launch(job_id).env) == env
        commit(store, state, ev.JobCancelled(NOW_MS, job_id))
        commit(store, state, ev.JobsRemoved(NOW_MS, (job_id,)))


def test_a_store_that_is_opened_counts_the_final_jobs_by_how_they_ended(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "stoker.db")
    state = store.load(NOW_MS)
    assert store.finished == {}
    commit(store, state, submitted(state))
    commit(store, state, ev.JobCancelled(NOW_MS, 1))
    assert store.finished == {"cancelled": 1}
    store.load(NOW_MS)
    assert store.finished == {"cancelled": 1}, "none succeeded"
    for code in (0, 0, 0, 1, 1):
        job_id = state.next_job_id
        commit(store, state, submitted(state), ev.AttemptPlaced(NOW_MS, job_id, 1, ()))
        commit(store, state, ev.AttemptExited(NOW_MS, job_id, 1, Exit(code=code)))
    commit(store, state, submitted(state))
    counted = {"cancelled": 1, "succeeded": 3, "failed": 2}
    assert store.finished == counted
    store.load(NOW_MS)
    assert store.finished == counted
    store.close()


# ---------------------------------------------------------------------- when it fails


def _fill(store: SqliteStore) -> None:
    """Let the database be full, as SQLite itself knows it."""
    pages = store.connection.execute("PRAGMA page_count").fetchone()[0]
    store.connection.execute(f"PRAGMA max_page_count = {pages}")


def _make_room(store: SqliteStore) -> None:
    store.connection.execute("PRAGMA max_page_count = 1000000")


def test_a_commit_that_fails_leaves_the_old_state_and_the_next_one_works(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "stoker.db")
    state = store.load(NOW_MS)
    commit(store, state, ev.GpuAdded(NOW_MS, "0"), submitted(state, Launch(("first",))))
    before = seen(store.load(NOW_MS))
    _fill(store)
    big = Launch(("second",), env={"NOISE": os.urandom(200_000).hex()})
    with pytest.raises(StoreFailed, match="full"):
        commit(store, state, ev.QueuePaused(NOW_MS), submitted(state, big))
    assert not store.connection.in_transaction
    state = store.load(NOW_MS)
    assert seen(state) == before
    _make_room(store)
    commit(store, state, submitted(state, big))
    assert store.launch(2) == big
    loaded = store.load(NOW_MS)
    assert sorted(loaded.jobs) == [1, 2] and not loaded.paused
    store.close()


def test_a_job_that_is_not_there_is_not_started(store: Store) -> None:
    with pytest.raises(BrokenRecord, match="job 7 "):
        store.launch(7)


def test_a_start_without_an_attempt_is_refused_and_leaves_no_open_transaction(
    tmp_path: Path,
) -> None:
    store = SqliteStore(tmp_path / "stoker.db")
    state = store.load(NOW_MS)
    commit(store, state, submitted(state))
    change = Change()
    change.started[1] = None
    with pytest.raises(BrokenRecord, match="job 1 "):
        store.commit(state, change)
    assert not store.connection.in_transaction
    store.close()


def test_what_sqlite_can_not_hold_is_refused_whole_and_leaves_no_open_transaction(
    tmp_path: Path,
) -> None:
    store = SqliteStore(tmp_path / "stoker.db")
    state = store.load(NOW_MS)
    commit(store, state, submitted(state))
    before = seen(store.load(NOW_MS))
    with pytest.raises(OverflowError):
        commit(store, state, submitted(state), ev.GroupLimited(NOW_MS, "sweep", 10**30))
    assert not store.connection.in_transaction
    assert seen(store.load(NOW_MS)) == before
    store.close()


def test_many_jobs_of_which_the_last_can_not_be_written_are_refused_whole(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "stoker.db")
    state = store.load(NOW_MS)
    commit(store, state, submitted(state))
    store.connection.execute("UPDATE jobs SET id = 251")
    before = seen(store.load(NOW_MS))
    many = ev.JobsSubmitted(
        NOW_MS, 2, Need(), Terms(), None, [0] * 250, Launch(), [JobOwn()] * 250, [""] * 250
    )
    with pytest.raises(StoreFailed, match="UNIQUE"):
        commit(store, state, many)
    assert not store.connection.in_transaction
    assert seen(store.load(NOW_MS)) == before
    store.close()


def test_a_point_is_not_taken_for_another_one_with_the_same_hash(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "stoker.db")
    state = store.load(NOW_MS)
    assert point_hash("plumless") == point_hash("buckeroo")
    views = Views(store.connection)
    commit(store, state, submitted(state, Launch(("true",), point="plumless")))
    assert views.at_points(["buckeroo"]) == {}
    commit(store, state, submitted(state, Launch(("true",), point="buckeroo")))
    own = [JobOwn(point="plumless"), JobOwn(), JobOwn(point="other")]
    many = ev.JobsSubmitted(NOW_MS, 3, Need(), Terms(), None, [0] * 3, Launch(), own, [""] * 3)
    commit(store, state, many)
    asked = ["buckeroo", "other", "plumless", "unknown"]
    assert views.at_points(asked) == {
        "buckeroo": (2, "waiting"),
        "other": (5, "waiting"),
        "plumless": (3, "waiting"),
    }
    store.close()


def test_who_may_have_taken_over_is_known_after_a_restart(store: Store) -> None:
    state = store.load(NOW_MS)
    for _ in range(3):
        state.apply(submitted(state))
    state.apply(ev.TakeoversPlanned(state.now_ms, Takeovers((1,), (2, 3))))
    store.commit(state, state.take_change())
    assert store.load(NOW_MS).takeovers == Takeovers((), (2, 3))
    state.apply(ev.TakeoversPlanned(state.now_ms, Takeovers()))
    store.commit(state, state.take_change())
    assert store.load(NOW_MS).takeovers == Takeovers()
