"""When the engine lets urgent jobs in: once it is known what others would lose, and by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stoker.core import events as ev
from stoker.core.model import Cause, Exit, Job, JobState, Need, Terms
from stoker.engine import Decided, Engine
from stoker.ports import SeenGpu
from stoker.sim.faults import CrashingExecutor, Steps
from stoker.sim.scenario import CPUS
from stoker.sim.takeover import CrashingTakeover
from stoker.sim.world import NEVER_MS, Behaviour, VirtualClock, World
from stoker.store.memory import MemoryStore

OFFERED = Terms(preemptible=True, requeue_on=(75,), grace_ms=500, yields=1)
SAVES = Behaviour(NEVER_MS, Exit(code=0), 10, heeds_by=Exit(code=75))


class Daemon:
    """An engine on two GPUs with two offered jobs, 1 and 2, of which the second has just begun."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.world = World((SeenGpu("0"), SeenGpu("1")), CPUS, self.clock, 1)
        self.saved: Mapping[int, int] | None = {}
        self.asked: list[set[int]] = []
        takeover = CrashingTakeover(self.world, Steps())
        executor = CrashingExecutor(self.world, Steps(), takeover.fill_places)
        ports = (MemoryStore(), executor, self.world, self.clock)
        self.engine = Engine(*ports, takeover=takeover, last_saved=self.last_saved)
        for job_id in (1, 2):
            self.submit(job_id, OFFERED)
            self.pass_ms(1_000)

    def last_saved(self, jobs: Sequence[Job]) -> Mapping[int, int] | None:
        self.asked.append({job.id for job in jobs})
        return self.saved

    def submit(self, job_id: int, terms: Terms, behaviour: Behaviour = SAVES) -> None:
        self.world.behaviours[job_id], self.world.needs[job_id] = (behaviour,), Need()
        event = ev.JobSubmitted(self.clock.now_ms, job_id, Need(), terms)
        self.engine.turn([lambda state: Decided([event])])

    def pass_ms(self, ms: int) -> None:
        self.world.advance_to(self.clock.true_ms + ms)
        for _ in range(3):
            self.engine.turn()

    def stopping(self) -> set[int]:
        return set(self.engine.state.stopping)


def test_what_attempts_have_saved_is_asked_only_when_one_is_about_to_give_way() -> None:
    daemon = Daemon()
    assert daemon.asked == []
    daemon.saved = None
    daemon.submit(3, Terms(urgent=True))
    assert daemon.asked == [{1, 2}] and daemon.stopping() == set()
    soon_ms = daemon.engine.next_wakeup_ms()
    assert soon_ms is not None and 0 < soon_ms - daemon.clock.now_ms <= 50
    # The first has saved its work since the second began.
    daemon.saved = {1: daemon.clock.now_ms}
    daemon.pass_ms(50)
    assert daemon.stopping() == {1}
    asked = len(daemon.asked)
    daemon.pass_ms(5)
    assert len(daemon.asked) == asked


def test_nothing_is_asked_where_no_job_could_make_room() -> None:
    daemon = Daemon()
    daemon.world.needs[3] = Need(2, on=("0", "7"))
    event = ev.JobSubmitted(daemon.clock.now_ms, 3, Need(2, on=("0", "7")), Terms(urgent=True))
    daemon.engine.turn([lambda state: Decided([event])])
    assert daemon.asked == [] and daemon.stopping() == set()


def test_an_urgent_job_is_let_in_when_one_may_give_way_again_although_nothing_happens() -> None:
    daemon = Daemon()
    for job_id in (3, 4):
        daemon.submit(job_id, Terms(urgent=True), Behaviour(1_000, Exit(code=0)))
    daemon.pass_ms(20)
    assert {1, 2}.isdisjoint(daemon.engine.state.active)
    daemon.pass_ms(1_100)
    assert {1, 2} <= daemon.engine.state.active.keys()
    daemon.submit(5, Terms(urgent=True))
    assert daemon.stopping() == set()
    wakes_ms = daemon.engine.next_wakeup_ms()
    assert wakes_ms is not None
    assert 3_590_000 < wakes_ms - daemon.clock.now_ms <= 3_600_000
    daemon.pass_ms(wakes_ms - daemon.clock.now_ms)
    assert len(daemon.stopping()) == 1
    stop = daemon.engine.state.jobs[daemon.stopping().pop()].active
    assert stop is not None and stop.stop is not None and stop.stop.cause is Cause.GAVE_WAY
    assert daemon.engine.state.jobs[5].state is JobState.WAITING
