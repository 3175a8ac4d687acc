"""A wall clock that is set back or forward: durations do not feel it, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from contract.executor_benches import LocalBench
from stoker.core import events as ev
from stoker.core.model import Exit, JobState, Launch, Need, Terms
from stoker.core.state import State
from stoker.daemon.clock import TOLERANCE_MS, SystemClock
from stoker.engine import Decided, Engine
from stoker.inventory.auto import DeclaredInventory
from stoker.ports import Reading
from stoker.store.sqlite import SqliteStore
from waiting import eventually

HOUR_MS = 3_600_000


class Clocks:
    """The two clocks of a machine: one that can be set, and one that can't."""

    def __init__(self) -> None:
        self.wall_ms = 1_700_000_000_000
        self.steady_ms = 5_000_000
        self.note: str | None = None

    def clock(self) -> SystemClock:
        def remember(text: str) -> None:
            self.note = text

        return SystemClock(
            self.note, remember, wall_ms=lambda: self.wall_ms, steady_ms=lambda: self.steady_ms
        )

    def pass_ms(self, ms: int) -> None:
        self.wall_ms += ms
        self.steady_ms += ms


def test_time_flows_with_the_wall_clock() -> None:
    clocks = Clocks()
    clock = clocks.clock()
    clocks.pass_ms(1234)
    assert clock.read() == Reading(1_700_000_001_234, 0)


@pytest.mark.parametrize("by_ms", [HOUR_MS, -HOUR_MS, TOLERANCE_MS + 1, -TOLERANCE_MS - 1])
def test_a_clock_that_is_set_shows_as_a_shift_once(by_ms: int) -> None:
    clocks = Clocks()
    clock = clocks.clock()
    clocks.wall_ms += by_ms
    clocks.pass_ms(10)
    assert clock.read() == Reading(clocks.wall_ms, by_ms)
    assert clock.read() == Reading(clocks.wall_ms, 0)
    assert clock.now_ms() == clocks.wall_ms


def test_a_clock_that_is_disciplined_a_little_is_no_shift() -> None:
    clocks = Clocks()
    clock = clocks.clock()
    clocks.wall_ms += TOLERANCE_MS
    reading = clock.read()
    assert reading.shifted_ms == 0 and reading.now_ms == clocks.wall_ms - TOLERANCE_MS


def test_a_clock_that_was_set_while_no_daemon_ran_is_noticed() -> None:
    clocks = Clocks()
    clocks.clock()
    clocks.pass_ms(50_000)
    clocks.wall_ms -= HOUR_MS
    assert clocks.clock().read() == Reading(clocks.wall_ms, -HOUR_MS)


def test_after_a_reboot_the_wall_clock_is_taken_as_it_is() -> None:
    clocks = Clocks()
    clocks.clock()
    clocks.note = f"another-boot {123}"
    clocks.wall_ms += HOUR_MS
    assert clocks.clock().read() == Reading(clocks.wall_ms, 0)


class Machine:
    """An engine with a real store and real processes, on clocks that a test can set."""

    def __init__(self, local: LocalBench, path: Path) -> None:
        self.local = local
        self.clocks = Clocks()
        self.store = SqliteStore(path)
        self.engine = self._engine()

    def _engine(self) -> Engine:
        return Engine(
            self.store,
            self.local.executor,
            DeclaredInventory(None),
            self.clocks.clock(),
            takeover=self.local.takeover,
        )

    def submit(
        self,
        *argv: str,
        terms: Terms | None = None,
        at_ms: int | None = None,
        need: Need | None = None,
    ) -> int:
        env = {"PATH": "/usr/bin:/bin", "STOKER_HOME": str(self.local.root)}
        launch = Launch(argv, cwd="/", env=env)

        def proposal(state: State) -> Decided:
            now, job_id = state.now_ms, state.next_job_id
            event = ev.JobSubmitted(
                now, job_id, need or Need(0), terms or Terms(), not_before_ms=at_ms, launch=launch
            )
            return Decided([event], job_id)

        (answer,) = self.engine.turn([proposal])
        job_id: int = answer.value
        return job_id

    def state_of(self, job_id: int) -> JobState | None:
        job = self.engine.state.jobs.get(job_id)
        return None if job is None else job.state

    def turn(self, pass_ms: int = 0) -> None:
        self.clocks.pass_ms(pass_ms)
        self.engine.turn()

    def until_started(self, job_id: int) -> None:
        def started() -> bool:
            self.turn(1)
            attempt = self.engine.state.jobs[job_id].active
            return attempt is not None and attempt.started_at_ms is not None

        eventually(started, "it runs its program")

    def turned(self, pass_ms: int) -> bool:
        """One turn more, for those who wait for what comes of it."""
        self.turn(pass_ms)
        return True


@pytest.fixture
def machine(local: LocalBench, tmp_path: Path) -> Machine:
    return Machine(local, tmp_path / "stoker.db")


@pytest.mark.parametrize("by_ms", [48 * HOUR_MS, -48 * HOUR_MS])
def test_a_running_job_with_a_limit_does_not_feel_a_set_clock(machine: Machine, by_ms: int) -> None:
    job = machine.submit("sleep", "600", terms=Terms(time_limit_ms=60_000, grace_ms=0))
    machine.until_started(job)
    machine.clocks.wall_ms += by_ms
    machine.turn(30_000)
    assert machine.state_of(job) is JobState.RUNNING, "half of its time has passed"
    attempt = machine.engine.state.jobs[job].active
    assert attempt is not None and attempt.started_at_ms is not None
    ran_ms = machine.engine.state.now_ms - attempt.started_at_ms
    assert 30_000 <= ran_ms <= 31_000
    machine.turn(31_000)
    eventually(lambda: machine.turned(30) and machine.state_of(job) is None, "it reached its limit")


@pytest.mark.parametrize("by_ms", [48 * HOUR_MS, -48 * HOUR_MS])
def test_a_clock_set_between_two_daemons_loses_nothing(machine: Machine, by_ms: int) -> None:
    running = machine.submit("sleep", "600", terms=Terms(time_limit_ms=60_000, grace_ms=0))
    machine.until_started(running)
    waiting = machine.submit("true", at_ms=machine.clocks.wall_ms + 10 * HOUR_MS)
    machine.clocks.wall_ms += by_ms
    machine.clocks.pass_ms(10_000)
    machine.local.started_again()
    machine.engine = machine._engine()
    machine.turn(100)
    assert machine.state_of(running) is JobState.RUNNING
    expected = None if by_ms > 0 else JobState.WAITING
    eventually(
        lambda: machine.turned(30) and machine.state_of(waiting) is expected,
        "a moment of the wall clock is kept to by the wall clock",
    )


def test_a_moment_of_the_wall_clock_comes_when_the_wall_clock_says_so(machine: Machine) -> None:
    job = machine.submit("true", at_ms=machine.clocks.wall_ms + HOUR_MS)
    machine.turn(1000)
    assert machine.state_of(job) is JobState.WAITING
    machine.clocks.wall_ms += 2 * HOUR_MS
    eventually(lambda: machine.turned(30) and machine.state_of(job) is None, "it ran")


@pytest.mark.parametrize("by_ms", [48 * HOUR_MS, -48 * HOUR_MS])
def test_back_off_does_not_feel_a_set_clock(machine: Machine, by_ms: int) -> None:
    job = machine.submit("false", terms=Terms(retries=1))
    eventually(
        lambda: machine.turned(10) and machine.engine.state.jobs[job].failures == 1,
        "it failed once",
    )
    machine.clocks.wall_ms += by_ms
    machine.turn(1)
    assert machine.state_of(job) is JobState.WAITING
    moment = machine.engine.next_wakeup_ms()
    assert moment is not None and 0 < moment - machine.engine.state.now_ms <= 1_000
    eventually(lambda: machine.turned(100) and machine.state_of(job) is None, "it was tried again")


def test_a_fact_from_before_the_clock_was_set_back_is_taken(machine: Machine) -> None:
    job = machine.submit("sh", "-c", "exit 3")
    machine.clocks.wall_ms -= 48 * HOUR_MS
    eventually(lambda: machine.turned(30) and machine.state_of(job) is None, "its end is known")
    code = machine.store.connection.execute("SELECT exit_code FROM jobs").fetchone()[0]
    assert Exit(code=code) == Exit(code=3)
