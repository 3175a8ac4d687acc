"""What is to stop is stopped although it can't be committed, and is on record once it can be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stoker.core import commands as cmd
from stoker.core import events as ev
from stoker.core.change import Change
from stoker.core.model import Cause, Exit, JobState, Need, Terms
from stoker.core.state import State
from stoker.core.unsaved import UnsavedStops
from stoker.engine import Decided, Engine, Proposal
from stoker.errors import Unavailable
from stoker.ports import StoreFailed
from stoker.sim.faults import CrashingExecutor, Steps
from stoker.sim.scenario import CPUS, GPUS
from stoker.sim.takeover import CrashingTakeover
from stoker.sim.world import NEVER_MS, Behaviour, VirtualClock, World
from stoker.store.memory import MemoryStore

GRACE_MS = 500


class SmallStore(MemoryStore):
    """A store that can be full, with room kept for so many commits."""

    def __init__(self) -> None:
        super().__init__()
        self.full = False
        self.reserve = 0
        self._room = 0

    def commit(
        self, state: State, change: Change, meanwhile: Callable[[], object] | None = None
    ) -> None:
        if self.full and not self._room:
            raise StoreFailed("no space left on device")
        self._room = max(0, self._room - 1)
        super().commit(state, change, meanwhile)

    def make_room(self) -> bool:
        if not self.reserve:
            return False
        self.reserve -= 1
        self._room = 1
        return True


class Scene:
    """An engine on a simulated world, with one job on each of the first GPUs."""

    def __init__(
        self,
        running: int = 1,
        waiting: int = 0,
        retries: int = 0,
        time_limit_ms: int | None = None,
    ) -> None:
        self.clock = VirtualClock()
        self.world = World(GPUS, CPUS, self.clock, 0)
        self.store = SmallStore()
        takeover = CrashingTakeover(self.world, Steps())
        self.executor = CrashingExecutor(self.world, Steps(), takeover.fill_places)
        self.engine = Engine(self.store, self.executor, self.world, self.clock, takeover=takeover)
        self._terms = Terms(time_limit_ms, GRACE_MS, retries=retries)
        self.engine.turn([self.submission(number) for number in range(1, running + 1)])
        self.after(1)
        # These need all GPUs, so they wait.
        for number in range(running + 1, running + waiting + 1):
            self.engine.turn([self.submission(number, gpus=4)])

    def submission(self, job_id: int, gpus: int = 1) -> Proposal:
        endless = Behaviour(NEVER_MS, Exit(code=0), heeds_stop_after_ms=None)
        need = Need(gpus=gpus)
        self.world.behaviours[job_id], self.world.needs[job_id] = (endless,), need
        return lambda state: Decided(
            [ev.JobSubmitted(state.now_ms, state.next_job_id, need, self._terms)]
        )

    def after(self, ms: int, *proposals: Proposal) -> list[object]:
        self.world.advance_to(self.clock.true_ms + ms)
        return list(self.engine.turn(proposals))

    def runs(self, job_id: int) -> bool:
        return any(key[0] == job_id for key in self.world.processes)


def cancel(job_id: int) -> Proposal:
    def proposal(state: State) -> Decided:
        job = state.jobs[job_id]
        if job.active is None:
            return Decided([ev.JobCancelled(state.now_ms, job_id)])
        number = job.active.number
        return Decided([ev.StopRequested(state.now_ms, job_id, number, Cause.CANCELLED)])

    return proposal


def remove(*job_ids: int) -> Proposal:
    return lambda state: Decided([ev.JobsRemoved(state.now_ms, job_ids)])


def test_a_job_is_stopped_by_force_after_its_grace_time_though_nothing_can_be_saved() -> None:
    scene = Scene(retries=2)
    scene.store.full = True
    [answer] = scene.engine.turn([cancel(1)])
    assert answer.error is None and "not on record yet" in answer.note
    assert "no space left" in answer.note
    for _ in range(4):
        scene.after(GRACE_MS // 4)
        scene.engine.turn([cancel(1)])  # To ask again gives it no more time.
    assert scene.world.processes[1, 1].forced
    scene.after(1)
    assert not scene.runs(1)
    assert not scene.store.outcomes and scene.engine.failing
    scene.store.full = False
    scene.after(1)
    assert scene.store.outcomes[1].state is JobState.CANCELLED, "and it is not tried again"
    assert not scene.engine.unsaved


def test_a_job_that_is_to_be_put_back_is_not_stopped_before_that_is_on_record() -> None:
    def requeue(state: State) -> Decided:
        return Decided([ev.StopRequested(state.now_ms, 1, 1, Cause.REQUEUED)])

    scene = Scene()
    scene.store.full, scene.store.reserve = True, 1
    [answer] = scene.engine.turn([requeue])
    assert isinstance(answer.error, Unavailable)
    scene.after(10 * GRACE_MS)
    assert not scene.world.processes[1, 1].forced and not scene.engine.unsaved
    assert scene.store.reserve == 1


def test_a_time_limit_is_kept_though_nothing_can_be_saved() -> None:
    scene = Scene(time_limit_ms=1_000)
    scene.store.full = True
    scene.after(1_000)
    for _ in range(4):
        scene.after(GRACE_MS // 4)
    assert scene.world.processes[1, 1].forced
    scene.store.full = False
    scene.after(1)
    assert scene.store.outcomes[1].cause is Cause.TIME_LIMIT


@pytest.mark.parametrize("by_ms", [3_600_000, -3_600_000])
def test_a_clock_that_is_set_meanwhile_changes_nothing_of_the_grace_time(by_ms: int) -> None:
    scene = Scene()
    scene.store.full = True
    scene.engine.turn([cancel(1)])
    scene.clock.set_wall(by_ms)
    scene.after(GRACE_MS // 2)
    assert not scene.world.processes[1, 1].forced
    scene.after(GRACE_MS // 2)
    assert scene.world.processes[1, 1].forced


def test_a_waiting_job_that_was_called_off_does_not_start_when_there_is_room() -> None:
    scene = Scene(running=1, waiting=1)
    scene.store.full = True
    [answer] = scene.engine.turn([cancel(2)])
    assert answer.error is None and answer.note
    scene.engine.turn([cancel(1)])
    scene.after(GRACE_MS)
    scene.after(1)
    assert not scene.runs(1)
    scene.store.full = False
    scene.after(1)
    assert {i: o.state for i, o in scene.store.outcomes.items()} == {
        1: JobState.CANCELLED, 2: JobState.CANCELLED,
    }  # fmt: skip
    assert not scene.world.processes


def test_the_room_that_is_kept_is_for_what_stops_or_removes_and_for_nothing_else() -> None:
    scene = Scene(running=2)
    scene.store.full, scene.store.reserve = True, 3
    refused, stopped = scene.engine.turn([scene.submission(3), cancel(1)])
    assert isinstance(refused.error, Unavailable)
    assert stopped.error is None and not stopped.note
    assert scene.store.reserve == 2
    assert scene.engine.state.next_job_id == 3 and not scene.runs(3)
    assert scene.engine.state.jobs[1].state is JobState.STOPPING
    assert scene.engine.failing, "the rest is tried again soon"
    [refused] = scene.engine.turn([scene.submission(3)])
    assert isinstance(refused.error, Unavailable)
    assert scene.store.reserve == 2, "a submission gets nothing of it"


def test_nothing_is_started_by_the_room_that_is_kept() -> None:
    scene = Scene(running=1, waiting=0)
    scene.engine.starts_nothing = True
    scene.engine.turn([scene.submission(2)])
    scene.engine.starts_nothing = False
    scene.store.full, scene.store.reserve = True, 1
    [answer] = scene.engine.turn([cancel(1)])
    assert answer.error is None and not answer.note
    assert not scene.runs(2)
    scene.store.full = False
    scene.after(1)
    assert scene.runs(2)


def test_a_removal_that_can_not_be_saved_is_refused_and_takes_of_the_reserve_if_there_is_some() -> (
    None
):
    scene = Scene()
    scene.engine.turn([cancel(1)])
    scene.after(GRACE_MS)
    scene.after(1)
    scene.store.full = True
    [refused] = scene.engine.turn([remove(1)])
    assert isinstance(refused.error, Unavailable) and "nothing was changed" in refused.error.hint
    assert 1 in scene.store.outcomes
    scene.store.reserve = 1
    [removed] = scene.engine.turn([remove(1)])
    assert removed.error is None
    assert 1 not in scene.store.outcomes


def test_a_stop_of_the_record_is_enforced_although_other_facts_can_not_be_saved() -> None:
    scene = Scene(running=2)
    scene.engine.turn([cancel(1)])
    scene.store.full = True
    scene.world.processes[2, 1].ends_at_ms = 0
    scene.after(GRACE_MS)  # The end of the other one can't be saved in this turn.
    assert scene.world.processes[1, 1].forced


def test_the_end_of_what_was_stopped_may_have_of_the_reserve() -> None:
    scene = Scene()
    scene.engine.turn([cancel(1)])
    scene.store.full, scene.store.reserve = True, 1
    scene.after(GRACE_MS)
    scene.after(1)
    assert scene.store.outcomes[1].state is JobState.CANCELLED


def test_only_terminations_are_ordered_without_a_commit() -> None:
    scene = Scene(running=1, waiting=1)
    ordered: list[cmd.Command] = []
    carry_out = scene.executor.carry_out

    def noted(commands: list[cmd.Command], *rest: object) -> None:
        ordered.extend(commands)
        carry_out(commands, *rest)  # type: ignore[arg-type]

    scene.executor.carry_out = noted  # type: ignore[assignment,method-assign]
    scene.store.full = True
    scene.engine.turn([cancel(1), scene.submission(3)])
    assert ordered == [cmd.Terminate(1, 1, force=False)]


def test_what_stops_something_and_does_more_is_refused_if_it_can_not_be_saved() -> None:
    scene = Scene(running=2)
    scene.engine.turn([cancel(2)])
    scene.after(GRACE_MS)
    scene.after(1)
    scene.store.full = True

    def both(state: State) -> Decided:
        return Decided([*cancel(1)(state).events, *remove(2)(state).events])

    [answer] = scene.engine.turn([both])
    assert isinstance(answer.error, Unavailable) and 2 in scene.store.outcomes


def test_one_that_was_called_off_while_it_waited_is_stopped_if_it_took_over_meanwhile() -> None:
    scene = Scene()
    scene.engine.unsaved.add([ev.JobCancelled(scene.engine.state.now_ms, 1)])
    scene.after(1)
    assert scene.engine.state.jobs[1].state is JobState.STOPPING


def test_the_grace_time_of_another_attempt_is_its_own() -> None:
    unsaved = UnsavedStops()
    unsaved.add([ev.StopRequested(100, 1, 1, Cause.CANCELLED)])
    later = ev.StopRequested(900, 1, 2, Cause.CANCELLED)
    unsaved.add([later])
    assert unsaved.value() == {later}
