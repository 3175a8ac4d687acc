"""One turn: what is committed before anything is done, and what is done again after a failure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pytest

from stoker.core import commands as cmd
from stoker.core import events as ev
from stoker.core.change import Change
from stoker.core.commands import Command
from stoker.core.laws import IllegalMove
from stoker.core.model import Cause, Exit, Job, JobState, Launch, Need, Requirement, Terms
from stoker.core.state import State
from stoker.core.takeover import AllowTakeovers, Standby
from stoker.engine import Decided, Engine, Proposal
from stoker.errors import NotFound, Unavailable
from stoker.ports import Reading, SeenGpu, Sighting, StoreFailed
from stoker.sim.run import WatchedEngine
from stoker.sim.world import VirtualClock
from stoker.store.memory import MemoryStore


def _in_short(command: Command) -> str:
    name = type(command).__name__
    return f"{name} {command.job_id}"


class Diary:
    """In which order the ports were used."""

    def __init__(self) -> None:
        self.lines: list[str] = []


class DiaryStore(MemoryStore):
    """A memory store that writes a diary and can be full."""

    def __init__(self, diary: Diary) -> None:
        super().__init__()
        self._diary = diary
        self.full = False

    def commit(
        self, state: State, change: Change, meanwhile: Callable[[], object] | None = None
    ) -> None:
        if meanwhile is not None:
            meanwhile()
        if self.full:
            self._diary.lines.append("could not commit")
            raise StoreFailed("no space left on device")
        self._diary.lines.append("committed")
        super().commit(state, change)


class ScriptedExecutor:
    """Tells the facts that it is given until they are settled, and notes its orders."""

    def __init__(self, diary: Diary) -> None:
        self._diary = diary
        self.facts: list[ev.Fact] = []
        self.ordered: list[Command] = []  # by the last turn
        self.adopted: list[int] = []
        self.wakeup_ms: int | None = None

    def adopt(self, active: Iterable[Job], now_ms: int) -> None:
        self.adopted = [job.id for job in active]

    def carry_out(
        self, commands: Sequence[Command], launch_of: Callable[[int], Launch], now_ms: int
    ) -> None:
        self.ordered = list(commands)
        self._diary.lines += [f"ordered {_in_short(command)}" for command in commands]

    def observe(self, now_ms: int) -> list[ev.Fact]:
        return list(self.facts)

    def acknowledged(self, facts: Sequence[ev.Fact]) -> None:
        self._diary.lines += [f"settled {type(fact).__name__}" for fact in facts]
        self.facts = [fact for fact in self.facts if fact not in facts]

    def next_wakeup_ms(self) -> int | None:
        return self.wakeup_ms

    def owners(self, pids: Iterable[int]) -> dict[int, int]:
        return {}


class ScriptedTakeover:
    """Notes what is allowed, and lets the executor tell facts while a turn is committed."""

    def __init__(self, diary: Diary, executor: ScriptedExecutor) -> None:
        self._diary = diary
        self._executor = executor
        self.allowed: AllowTakeovers | None = None  # by the last turn
        self.may_have_taken_over: list[int] = []
        self.narrowed_to: list[AllowTakeovers | None] = []
        self.happens_meanwhile: list[ev.Fact] = []

    def adopt(self, standbys: Iterable[Job], now_ms: int) -> None:
        self.may_have_taken_over = [job.id for job in standbys]

    def allow(self, takeovers: AllowTakeovers | None, launch_of: Callable[[int], Launch]) -> None:
        self.allowed = takeovers
        if takeovers is not None:
            self._diary.lines.append("allowed takeovers")

    def narrow_to(self, takeovers: AllowTakeovers | None) -> None:
        self.narrowed_to.append(takeovers)

    def take_over(self, now_ms: int) -> bool:
        self._executor.facts += self.happens_meanwhile
        self.happens_meanwhile = []
        return False


class FixedInventory:
    """Sees what it is told to see."""

    def read_soon(self) -> None:
        pass

    def __init__(self) -> None:
        self.sighting = Sighting(4, (SeenGpu("0", 24_576), SeenGpu("1", 24_576)))

    def observe(self) -> Sighting:
        return self.sighting


class House:
    """An engine and its ports."""

    def __init__(self) -> None:
        self.diary = Diary()
        self.store = DiaryStore(self.diary)
        self.executor = ScriptedExecutor(self.diary)
        self.takeover = ScriptedTakeover(self.diary, self.executor)
        self.inventory = FixedInventory()
        self.clock = VirtualClock()
        self.noted: list[ev.Event] = []
        self.engine = self._engine()

    def _engine(self) -> Engine:
        engine = WatchedEngine(
            self.store, self.executor, self.inventory, self.clock, takeover=self.takeover
        )
        engine.noted = self.noted
        return engine

    def restart(self) -> None:
        self.engine = self._engine()

    def submit(self, terms: Terms | None = None, need: Need | None = None) -> int:
        [answer] = self.engine.turn([submission(terms, need)])
        assert answer.error is None
        assert isinstance(answer.value, int)
        return answer.value

    def start(self, job_id: int, attempt: int = 1) -> None:
        self.executor.facts.append(ev.AttemptStarted(self.clock.now_ms, job_id, attempt, 7))

    def job(self, job_id: int) -> Job:
        return self.engine.state.jobs[job_id]


def submission(terms: Terms | None = None, need: Need | None = None) -> Proposal:
    def proposal(state: State) -> Decided:
        job_id = state.next_job_id
        event = ev.JobSubmitted(state.now_ms, job_id, need or Need(), terms or Terms())
        return Decided([event], job_id)

    return proposal


def refusal(state: State) -> Decided:
    raise NotFound("there is no job 77")


def test_a_turn_commits_before_it_settles_and_orders_anything() -> None:
    house = House()
    house.submit()
    house.start(1)
    house.diary.lines.clear()
    house.submit()
    assert house.diary.lines == ["committed", "settled AttemptStarted", "ordered Start 2"]


def test_a_turn_in_which_nothing_changes_commits_nothing() -> None:
    house = House()
    house.engine.turn()
    house.diary.lines.clear()
    house.clock.true_ms += 1000
    house.engine.turn()
    assert house.diary.lines == []


def test_an_order_is_given_again_in_each_turn_until_its_fact_is_known() -> None:
    house = House()
    house.submit()
    for _ in range(3):
        assert house.executor.ordered == [cmd.Start(1, 1, ("0",), 30_000)]
        house.engine.turn()
    house.start(1)
    house.engine.turn()
    assert house.executor.ordered == []


def test_an_order_is_given_again_after_a_restart() -> None:
    house = House()
    house.submit()
    house.start(1)
    house.engine.turn([lambda s: Decided([ev.StopRequested(s.now_ms, 1, 1, Cause.CANCELLED)])])
    house.submit()
    house.restart()
    assert house.executor.adopted == [1, 2]
    house.engine.turn()
    assert house.executor.ordered == [
        cmd.Start(2, 1, ("1",), 30_000),
        cmd.Terminate(1, 1, force=False),
    ]


def test_a_fact_about_an_earlier_attempt_changes_nothing() -> None:
    house = House()
    house.submit(Terms(retries=1))
    house.start(1)
    house.engine.turn()
    house.executor.facts.append(ev.AttemptExited(house.clock.now_ms, 1, 1, Exit(code=1)))
    house.engine.turn()
    house.clock.true_ms += 60_000
    house.engine.turn()
    house.start(1, attempt=2)
    house.engine.turn()
    assert house.job(1).attempt == 2
    house.noted.clear()
    house.executor.facts += [
        ev.AttemptExited(house.clock.now_ms, 1, 1, Exit(code=0)),
        ev.AttemptVanished(house.clock.now_ms, 1, 1, "gone"),
        ev.AttemptStarted(house.clock.now_ms, 1, 1, 9),
        ev.AttemptNotStarted(house.clock.now_ms, 1, 1, "no"),
        ev.WarningSent(house.clock.now_ms, 1, 1),
        ev.AttemptExited(house.clock.now_ms, 99, 1, Exit(code=0)),
    ]
    house.engine.turn()
    assert house.noted == [ev.TimePassed(house.clock.now_ms)]
    assert house.job(1).state is JobState.RUNNING
    assert house.executor.facts == [], "a stale fact is settled, or it would be told for ever"


def test_a_start_that_is_told_twice_counts_once() -> None:
    house = House()
    house.submit()
    house.start(1)
    house.engine.turn()
    started_at_ms = house.clock.now_ms
    house.clock.true_ms += 5000
    house.start(1)
    house.engine.turn()
    attempt = house.job(1).active
    assert attempt is not None and attempt.started_at_ms == started_at_ms


def test_a_refused_wish_does_not_hinder_the_others_of_its_turn() -> None:
    house = House()
    answers = house.engine.turn([submission(), refusal, submission()])
    assert [answer.value for answer in answers] == [1, None, 2]
    assert isinstance(answers[1].error, NotFound)
    assert sorted(house.store.jobs) == [1, 2]


def test_a_wish_sees_what_was_granted_before_it_in_the_same_turn() -> None:
    house = House()
    seen: list[list[int]] = []

    def look(state: State) -> Decided:
        seen.append(list(state.jobs))
        return Decided([])

    house.engine.turn([submission(), look])
    assert seen == [[1]]


def test_with_a_full_disk_every_wish_is_refused_and_nothing_is_changed_or_done() -> None:
    house = House()
    house.submit()
    house.start(1)
    house.engine.turn()
    house.store.full = True
    house.diary.lines.clear()
    house.executor.facts.append(ev.AttemptExited(house.clock.now_ms, 1, 1, Exit(code=0)))
    answers = house.engine.turn([submission(), submission()])
    assert [type(answer.error) for answer in answers] == [Unavailable, Unavailable]
    assert answers[0].error is not None and "no space left" in answers[0].error.message
    assert house.diary.lines == ["could not commit"]
    assert list(house.engine.state.jobs) == [1]
    assert house.job(1).state is JobState.RUNNING
    house.store.full = False
    assert [answer.value for answer in house.engine.turn([submission()])] == [2]
    assert house.store.outcomes[1].state is JobState.SUCCEEDED


def test_with_a_full_disk_it_is_not_forgotten_which_clients_are_there() -> None:
    house = House()
    house.engine.starts_nothing = True
    job = house.submit(Terms(attached=True))
    house.engine.turn([lambda state: Decided([ev.TerminalCame(state.now_ms, job)])])
    house.store.full = True
    [refused] = house.engine.turn([submission(None, None)])
    assert isinstance(refused.error, Unavailable)
    house.store.full = False
    house.engine.starts_nothing = False
    house.engine.turn()
    assert house.job(job).active is not None


def test_with_a_full_disk_a_turn_that_changes_nothing_still_gives_its_orders() -> None:
    house = House()
    house.submit()
    house.store.full = True
    house.executor.ordered = []
    house.engine.turn()
    assert house.executor.ordered == [cmd.Start(1, 1, ("0",), 30_000)]


def test_an_impossible_event_stops_the_turn_before_its_commit() -> None:
    house = House()
    house.submit()
    house.diary.lines.clear()

    def wrong(state: State) -> Decided:
        return Decided([ev.JobReleased(state.now_ms, 1)])

    with pytest.raises(IllegalMove, match="job 1: it is running") as refused:
        house.engine.turn([submission(), wrong])
    story = str(refused.value).splitlines()[1:]
    assert [event.split("(")[0].strip() for event in story] == ["AttemptPlaced", "JobReleased"]
    assert house.diary.lines == []
    assert list(house.engine.state.jobs) == [1], "memory is as the record has it"
    house.engine.turn([submission()])
    assert list(house.engine.state.jobs) == [1, 2]


def test_all_that_can_no_longer_start_is_skipped_in_the_same_turn() -> None:
    house = House()

    def chain(state: State) -> Decided:
        jobs = [
            ev.JobSubmitted(
                state.now_ms,
                number,
                Need(9),
                Terms(),
                requires=(Requirement(number - 1, True),) if number > 1 else (),
            )
            for number in range(1, 6)
        ]
        return Decided(jobs)

    house.engine.turn([chain])
    house.engine.turn([lambda s: Decided([ev.JobCancelled(s.now_ms, 1)])])
    assert not house.engine.state.jobs
    assert {house.store.outcomes[number].state for number in range(2, 6)} == {JobState.SKIPPED}


def test_a_daemon_that_drains_starts_nothing_new() -> None:
    house = House()
    house.engine.starts_nothing = True
    house.submit()
    assert house.executor.ordered == []
    house.engine.starts_nothing = False
    house.engine.turn()
    assert house.executor.ordered == [cmd.Start(1, 1, ("0",), 30_000)]


def test_the_next_turn_is_due_when_the_first_of_state_and_executor_says_so() -> None:
    house = House()
    assert house.engine.next_wakeup_ms() is None
    house.submit(Terms(time_limit_ms=5_000))
    house.start(1)
    house.engine.turn()
    limit_ms = house.clock.now_ms + 5_000
    assert house.engine.next_wakeup_ms() == limit_ms
    house.executor.wakeup_ms = limit_ms - 1
    assert house.engine.next_wakeup_ms() == limit_ms - 1
    house.executor.wakeup_ms = limit_ms + 1
    assert house.engine.next_wakeup_ms() == limit_ms


def test_no_turn_is_due_for_the_sake_of_a_job_that_has_ended() -> None:
    house = House()
    house.submit(Terms(time_limit_ms=5_000))
    house.start(1)
    house.engine.turn()
    house.executor.facts.append(ev.AttemptExited(house.clock.now_ms, 1, 1, Exit(code=0)))
    house.engine.turn()
    assert house.engine.next_wakeup_ms() is None


# ---------------------------------------------------------------------- GPUs as they are seen


def test_gpus_that_appear_and_go_are_taken_over() -> None:
    house = House()
    house.engine.turn()
    assert list(house.engine.state.gpus) == ["0", "1"]
    assert house.engine.state.cpus == 4
    house.inventory.sighting = Sighting(2, (SeenGpu("1", 24_576), SeenGpu("2", 8_192)))
    house.engine.turn()
    assert list(house.engine.state.gpus) == ["1", "2"]
    assert house.engine.state.cpus == 2
    house.restart()
    assert list(house.engine.state.gpus) == ["1", "2"]
    assert house.engine.state.cpus == 2


def test_a_gpu_that_goes_while_a_job_is_on_it_stays_until_the_job_ends() -> None:
    house = House()
    house.submit()
    house.start(1)
    house.inventory.sighting = Sighting(4, (SeenGpu("1", 24_576),))
    house.engine.turn()
    assert house.engine.state.gpus["0"].removing
    house.restart()
    assert house.engine.state.gpus["0"].removing
    house.executor.facts.append(ev.AttemptExited(house.clock.now_ms, 1, 1, Exit(code=0)))
    house.engine.turn()
    assert list(house.engine.state.gpus) == ["1"]


def test_a_gpu_that_comes_back_in_time_is_used_as_before() -> None:
    house = House()
    house.submit()
    house.start(1)
    seen = house.inventory.sighting
    house.inventory.sighting = Sighting(4, ())
    house.engine.turn()
    house.inventory.sighting = seen
    house.engine.turn()
    assert not house.engine.state.gpus["0"].removing
    house.noted.clear()
    house.engine.turn()
    assert house.noted == [ev.TimePassed(house.clock.now_ms)]


def test_gpus_that_nobody_sees_are_left_as_the_user_declared_them() -> None:
    house = House()
    house.inventory.sighting = Sighting(4, None)
    house.engine.turn([lambda s: Decided([ev.GpuAdded(s.now_ms, "5")])])
    house.engine.turn()
    assert list(house.engine.state.gpus) == ["5"]


# ---------------------------------------------------------------------- a clock that is set


@pytest.mark.parametrize("by_ms", [-3_600_000, 86_400_000])
def test_a_clock_that_is_set_does_not_change_when_a_time_limit_ends(by_ms: int) -> None:
    house = House()
    house.submit(Terms(time_limit_ms=10_000))
    house.start(1)
    house.engine.turn()
    house.clock.true_ms += 4_000
    house.clock.set_wall(by_ms)
    house.engine.turn()
    assert house.engine.next_wakeup_ms() == house.clock.now_ms + 6_000


@pytest.mark.parametrize("by_ms", [-3_600_000, 86_400_000])
def test_a_start_noted_before_the_clock_was_set_does_not_change_the_time_limit(by_ms: int) -> None:
    house = House()
    house.submit(Terms(time_limit_ms=10_000))
    house.start(1)
    house.clock.set_wall(by_ms)
    house.engine.turn()
    assert house.engine.state.now_ms == house.clock.now_ms
    assert house.engine.next_wakeup_ms() == house.clock.now_ms + 10_000
    assert house.job(1).state is JobState.RUNNING


@pytest.mark.parametrize("by_ms", [-3_600_000, 86_400_000])
def test_a_clock_that_is_set_while_the_disk_is_full_does_not_change_a_time_limit(
    by_ms: int,
) -> None:
    house = House()
    house.submit(Terms(time_limit_ms=10_000))
    house.start(1)
    house.engine.turn()
    house.store.full = True
    house.clock.set_wall(by_ms)
    house.engine.turn()
    house.clock.true_ms += 1_000
    house.engine.turn()
    house.store.full = False
    house.engine.turn()
    assert house.engine.next_wakeup_ms() == house.clock.now_ms + 9_000
    house.restart()
    assert house.engine.next_wakeup_ms() == house.clock.now_ms + 9_000


@pytest.mark.parametrize("by_ms", [-3_600_000, 86_400_000])
def test_a_clock_that_was_set_while_no_engine_ran_does_not_change_a_time_limit(by_ms: int) -> None:
    house = House()
    house.submit(Terms(time_limit_ms=10_000, retries=1))
    house.submit(Terms(retries=1))
    house.start(1)
    house.start(2)
    house.engine.turn()
    house.executor.facts.append(ev.AttemptExited(house.clock.now_ms, 2, 1, Exit(code=1)))
    house.engine.turn()
    house.clock.set_wall(by_ms)
    house.restart()
    house.engine.turn()
    assert house.job(1).state is JobState.RUNNING
    assert house.job(2).backoff_until_ms == house.clock.now_ms + 1_000
    assert house.engine.next_wakeup_ms() == house.clock.now_ms + 1_000
    house.clock.true_ms += 1_000
    house.engine.turn()
    assert house.job(2).state is JobState.RUNNING
    assert house.engine.next_wakeup_ms() == house.clock.now_ms + 9_000


def test_a_fact_never_carries_the_state_beyond_the_present() -> None:
    house = House()
    house.submit()
    house.start(1)
    house.engine.turn()
    far = house.clock.now_ms + 3_600_000
    house.executor.facts.append(ev.AttemptExited(far, 1, 1, Exit(code=0)))
    house.engine.turn()
    assert house.engine.state.now_ms == house.clock.now_ms


def test_the_engine_starts_with_the_time_that_it_reads() -> None:
    house = House()
    assert house.clock.read() == Reading(house.engine.state.now_ms)


# ---------------------------------------------------------------------- taking over


def too_many_clients() -> House:
    """Both GPUs are taken, and two more jobs wait."""
    house = House()
    for _ in range(4):
        house.submit()
    return house


def followed(house: House, job_id: int, by: int) -> None:
    left = ev.AttemptExited(house.clock.now_ms, job_id, 1, Exit(code=0), taken_over_by=(by, 1))
    house.executor.facts.append(left)


def test_who_is_to_take_over_is_committed_before_it_is_ordered() -> None:
    house = too_many_clients()
    house.diary.lines.clear()
    house.submit()
    assert house.diary.lines == [
        "committed",
        "allowed takeovers",
        "ordered Start 1",
        "ordered Start 2",
    ]
    assert house.takeover.allowed == AllowTakeovers(
        ((1, 1), (2, 1)),
        tuple(Standby(job_id, 1, Terms().grace_ms) for job_id in (3, 4, 5)),
    )
    assert house.store.load(0).takeovers.standbys == (3, 4, 5)


def test_one_for_which_others_wait_is_not_to_be_relieved_in_its_turn() -> None:
    house = too_many_clients()
    waits_for_3 = ev.JobSubmitted(0, 5, Need(), Terms(), requires=(Requirement(3, True),))
    house.engine.turn([lambda state: Decided([waits_for_3])])
    allowed = house.takeover.allowed
    assert allowed is not None
    assert [standby.may_be_followed for standby in allowed.standbys] == [False, True]


def test_a_chain_of_attempts_that_took_over_is_taken_in_whatever_the_order_of_its_facts() -> None:
    now_ms = House().clock.now_ms
    chain: list[ev.Fact] = [
        ev.AttemptExited(now_ms, 1, 1, Exit(code=0), taken_over_by=(3, 1)),
        ev.AttemptStarted(now_ms, 3, 1, 7),
        ev.AttemptExited(now_ms, 3, 1, Exit(code=0), taken_over_by=(4, 1)),
        ev.AttemptStarted(now_ms, 4, 1, 8),
        ev.AttemptExited(now_ms, 4, 1, Exit(code=3)),
    ]
    for order in ((0, 1, 2, 3, 4), (3, 4, 1, 2, 0), (2, 0, 3, 1, 4)):
        # Those of one attempt are always told in their own order.
        house = too_many_clients()
        house.executor.facts = [chain[place] for place in order]
        house.engine.turn()
        assert sorted(house.engine.state.jobs) == [2]
        assert house.store.outcomes[3].state is JobState.SUCCEEDED
        assert house.store.outcomes[4].exit == Exit(code=3)


def test_one_that_took_over_and_could_not_be_loaded_has_failed_and_its_gpu_goes_to_the_next() -> (
    None
):
    house = too_many_clients()
    followed(house, 1, by=3)
    house.executor.facts.append(ev.AttemptNotStarted(house.clock.now_ms, 3, 1, "no such file"))
    house.engine.turn()
    assert house.store.outcomes[3].cause is Cause.NOT_STARTED
    next_one, other = house.job(4).active, house.job(2).active
    assert next_one is not None and other is not None
    assert next_one.gpus != other.gpus


def test_what_takes_over_while_a_turn_is_committed_is_taken_in_by_the_next() -> None:
    house = too_many_clients()
    now_ms = house.clock.now_ms
    house.executor.facts = [ev.AttemptStarted(now_ms, 1, 1, 7)]
    house.takeover.happens_meanwhile = [
        ev.AttemptExited(now_ms, 1, 1, Exit(code=0), taken_over_by=(3, 1)),
        ev.AttemptStarted(now_ms, 3, 1, 8),
    ]
    house.engine.turn()
    assert house.takeover.narrowed_to[-1] == house.takeover.allowed
    assert [type(fact) for fact in house.executor.facts] == [ev.AttemptExited, ev.AttemptStarted]
    place = house.job(1).active
    house.engine.turn()
    taken = house.job(3).active
    assert place is not None and taken is not None
    assert taken.gpus == place.gpus and taken.started_at_ms is not None


def test_nobody_takes_over_while_what_somebody_asked_for_is_committed() -> None:
    house = too_many_clients()
    house.takeover.narrowed_to.clear()
    house.takeover.happens_meanwhile = [ev.AttemptStarted(0, 1, 1, 7)]
    house.submit()
    assert house.takeover.narrowed_to == []
    assert house.takeover.happens_meanwhile


def test_what_took_over_before_a_commit_failed_is_told_again_and_taken_in() -> None:
    house = too_many_clients()
    now_ms = house.clock.now_ms
    house.executor.facts = [ev.AttemptStarted(now_ms, 1, 1, 7)]
    left = ev.AttemptExited(now_ms, 1, 1, Exit(code=0), taken_over_by=(3, 1))
    house.takeover.happens_meanwhile = [left, ev.AttemptStarted(now_ms, 3, 1, 8)]
    house.store.full = True
    house.engine.turn()
    house.store.full = False
    house.engine.turn()
    assert house.store.outcomes[1].state is JobState.SUCCEEDED
    taken = house.job(3).active
    assert taken is not None and taken.started_at_ms is not None


def test_an_order_that_could_not_be_committed_is_not_given() -> None:
    house = too_many_clients()
    house.store.full = True
    house.executor.ordered.clear()
    house.takeover.allowed = None
    house.engine.turn([submission()])
    assert house.executor.ordered == [] and house.takeover.allowed is None


def test_the_end_of_one_and_the_start_of_the_other_in_its_place_are_one_commit() -> None:
    house = too_many_clients()
    place = house.job(2).active
    assert place is not None
    followed(house, 2, by=3)
    house.diary.lines.clear()
    house.engine.turn()
    assert [line for line in house.diary.lines if line == "committed"] == ["committed"]
    after = house.store.load(0)
    attempt = after.jobs[3].active
    assert attempt is not None and attempt.gpus == place.gpus
    assert 2 not in after.jobs
    assert after.takeovers.standbys == (4,)


def test_a_taking_over_that_could_not_be_committed_is_told_and_taken_again() -> None:
    house = too_many_clients()
    followed(house, 1, by=3)
    house.store.full = True
    house.engine.turn()
    assert house.job(3).state is JobState.WAITING and 1 in house.engine.state.jobs
    house.store.full = False
    house.engine.turn()
    assert house.job(3).state is JobState.RUNNING and 1 not in house.engine.state.jobs


def test_a_taking_over_that_is_told_once_more_changes_nothing() -> None:
    house = too_many_clients()
    followed(house, 1, by=3)
    house.engine.turn()
    followed(house, 1, by=3)
    house.engine.turn()
    assert house.job(3).attempt == 1


def test_where_the_executor_knows_no_takeover_none_is_planned() -> None:
    house = House()
    house.engine = Engine(house.store, house.executor, house.inventory, house.clock)
    for _ in range(4):
        house.submit()
    assert house.engine.state.takeovers.standbys == ()
    house.executor.facts = [ev.AttemptExited(house.clock.now_ms, 1, 1, Exit(code=0))]
    house.engine.turn()
    assert house.job(3).state is JobState.RUNNING


def test_while_a_daemon_drains_nobody_takes_over() -> None:
    house = too_many_clients()
    house.engine.starts_nothing = True
    house.engine.turn()
    assert house.takeover.allowed is None
    assert house.store.load(0).takeovers.standbys == ()


def test_a_new_engine_asks_whether_those_who_stood_by_have_taken_over() -> None:
    house = too_many_clients()
    house.restart()
    assert house.executor.adopted == [1, 2]
    assert house.takeover.may_have_taken_over == [3, 4]


def measured_house() -> tuple[House, int]:
    """A job runs on a GPU that a driver measures, and which was read before."""
    house = House()
    now = house.clock.now_ms
    gpu = SeenGpu("GPU-0", 24_576, 0, used_mib=0, vendor="nvidia", measured_at_ms=now)
    house.inventory.sighting = Sighting(4, (gpu,))
    job_id = house.submit()
    house.start(job_id)
    house.engine.turn()
    house.clock.true_ms += 10
    house.executor.facts.append(ev.AttemptExited(house.clock.now_ms, job_id, 1, Exit(code=1)))
    house.executor.wakeup_ms = house.clock.now_ms
    house.engine.turn()
    assert house.job(job_id).active is not None, "it is not judged without a newer reading"
    assert house.engine.next_wakeup_ms() == house.clock.now_ms + 50
    return house, job_id


def test_a_failure_that_is_called_off_while_it_waits_for_a_reading_leaves_nothing_behind() -> None:
    house, job_id = measured_house()
    stop = ev.StopRequested(house.clock.now_ms, job_id, 1, Cause.CANCELLED)
    house.engine.turn([lambda state: Decided([stop])])
    house.engine.turn()
    assert house.store.outcomes[job_id].state is JobState.CANCELLED
    # Else each turn to come would be put off.
    assert house.engine.next_wakeup_ms() == house.clock.now_ms


def test_a_failure_that_is_judged_without_a_reading_leaves_nothing_behind() -> None:
    house, job_id = measured_house()
    house.clock.true_ms += 2_000
    house.executor.wakeup_ms = house.clock.now_ms
    house.engine.turn()
    assert house.store.outcomes[job_id].state is JobState.FAILED
    assert house.engine.next_wakeup_ms() == house.clock.now_ms


def test_a_failure_that_waited_for_a_reading_is_judged_anew_after_a_turn_that_was_not_saved() -> (
    None
):
    house, job_id = measured_house()
    house.store.full = True
    [answer] = house.engine.turn([lambda state: Decided([ev.QueuePaused(state.now_ms)])])
    assert isinstance(answer.error, Unavailable)
    # What was read is forgotten, and so is that something waits for more of it.
    assert house.engine.next_wakeup_ms() == house.clock.now_ms
    house.store.full = False
    house.engine.turn()
    house.clock.true_ms += 2_000
    house.engine.turn()
    assert house.store.outcomes[job_id].state is JobState.FAILED
