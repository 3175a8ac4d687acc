"""A search that is killed between any two steps neither loses nor doubles a trial."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from stoker.search import reconcile as to_do


class Killed(Exception):
    """The searcher is gone; what it has done stays."""


@dataclass
class World:
    """A study, the points of the record, and a searcher that dies after so many steps."""

    samples: int
    told: dict[int, int] = field(default_factory=dict)  # how often, by number
    study: list[dict[str, bool]] = field(default_factory=list)
    points: dict[int, str] = field(default_factory=dict)  # by number, whether it runs
    queued: dict[int, int] = field(default_factory=dict)  # how often, by number
    attempts: dict[int, int] = field(default_factory=dict)  # of points, by number
    told_of: dict[int, to_do.Runs] = field(default_factory=dict)  # what the study knows
    steps_left: int = 0

    def step(self) -> None:
        """One thing outside was done; the searcher may die before the next."""
        self.steps_left -= 1
        if self.steps_left < 0:
            raise Killed

    def queue(self, number: int) -> None:
        """The daemon queues a point that it does not know, and no other."""
        self.step()
        if number not in self.points:
            self.points[number] = "running"
            self.attempts[number] = 1
            self.queued[number] = self.queued.get(number, 0) + 1
        self.step()
        self.study[number]["queued"] = True

    def tell(self, number: int) -> None:
        """The study is told, once: first of what, and then that it is over."""
        self.step()
        assert not self.study[number]["told"]
        self.told_of[number] = self.runs(number)
        self.step()
        self.study[number]["told"] = True
        self.told[number] = self.told.get(number, 0) + 1

    def runs(self, number: int) -> to_do.Runs:
        """Of which runs a point is what it is now."""
        if number not in self.points:
            return ()
        return ((number, self.attempts.get(number, 1), self.points[number]),)

    def retry(self, number: int) -> None:
        """Its user has the daemon run a point again that has ended."""
        if self.points.get(number) == "ended":
            self.points[number] = "running"
            self.attempts[number] = self.attempts.get(number, 1) + 1

    def live(self, steps: int, ends: int) -> None:
        """A searcher that is killed after so many steps; then so many points end."""
        self.steps_left = steps
        try:
            self.look()
        except Killed:
            pass
        for number in [n for n, state in self.points.items() if state == "running"][:ends]:
            self.points[number] = "ended"

    def look(self) -> None:
        """What a searcher does when it has heard something."""
        while True:
            trials = [
                to_do.Trial(n, t["told"], t["queued"], self.told_of.get(n, ()))
                for n, t in enumerate(self.study)
            ]
            seen = [
                to_do.Seen(n, state == "ended", self.runs(n)) for n, state in self.points.items()
            ]
            steps = to_do.steps(trials, seen)
            for step in steps:
                match step:
                    case to_do.Queue(number):
                        self.queue(number)
                    case to_do.Tell(number) | to_do.GiveUp(number):
                        self.tell(number)
                    case to_do.Reopen(number):
                        self.step()
                        assert self.study[number]["told"]
                        self.study[number]["told"] = False
                    case to_do.Note(number):
                        self.step()
                        self.study[number]["queued"] = True
                    case to_do.Adopt(number):
                        self.step()
                        assert number == len(self.study)
                        self.study.append({"told": False, "queued": True})
                    case to_do.Fill(number):
                        self.step()
                        assert number == len(self.study)
                        self.study.append({"told": True, "queued": False})
            if steps:
                continue
            running = sum(state == "running" for state in self.points.values())
            asked = len(self.study)
            if not to_do.may_ask(0, running, asked, samples=self.samples, max_running=2):
                return
            self.step()
            self.study.append({"told": False, "queued": False})
            self.queue(asked)


@given(
    st.integers(1, 8),
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), max_size=40),
)
def test_no_trial_is_lost_doubled_or_told_twice_whenever_the_searcher_is_killed(
    samples: int, lives: list[tuple[int, int]]
) -> None:
    world = World(samples)
    for steps, ends in [*lives, *[(1_000, 9)] * (2 * samples + 2)]:
        world.live(steps, ends)
    assert world.queued == dict.fromkeys(range(samples), 1)
    assert world.told == dict.fromkeys(range(samples), 1)
    assert len(world.study) == samples
    assert all(trial["queued"] for trial in world.study), "each says which job it was"


@given(
    st.integers(1, 6),
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 3), st.integers(0, 6)), max_size=40),
)
def test_what_the_study_was_told_is_what_came_of_each_point_last_however_often_it_was_retried(
    samples: int, lives: list[tuple[int, int, int]]
) -> None:
    world = World(samples)
    for steps, ends, again in [*lives, *[(1_000, 9, samples)] * (2 * samples + 2)]:
        world.live(steps, ends)
        world.retry(again)
    assert world.queued == dict.fromkeys(range(samples), 1), "a retry makes no trial"
    assert len(world.study) == samples
    assert world.told_of == {number: world.runs(number) for number in range(samples)}
    assert all(trial["told"] for trial in world.study)


@given(st.sets(st.integers(0, 9), min_size=1), st.integers(0, 12))
def test_a_study_that_was_lost_is_filled_from_the_points_under_their_numbers(
    numbers: set[int], steps_until_killed: int
) -> None:
    world = World(0, points=dict.fromkeys(sorted(numbers), "ended"))
    for steps in (steps_until_killed, 1_000):
        world.steps_left = steps
        try:
            world.look()
        except Killed:
            pass
    assert len(world.study) == max(numbers) + 1
    assert world.told == dict.fromkeys(numbers, 1)
    assert not world.queued


def test_a_trial_whose_job_was_removed_is_given_up_and_not_run_again() -> None:
    assert to_do.steps([to_do.Trial(0, told=False, queued=True)], []) == [to_do.GiveUp(0)]


def test_a_trial_whose_point_runs_again_is_open_until_that_has_ended() -> None:
    told = to_do.Trial(0, told=True, queued=True, told_of=((7, 1, "failed"),))
    assert to_do.steps([told], [to_do.Seen(0, True, ((7, 1, "failed"),))]) == []
    assert to_do.steps([told], [to_do.Seen(0, False, ((7, 1, "waiting"),))]) == [to_do.Reopen(0)]
    for run in ((7, 2, "failed"), (7, 1, "cancelled"), (8, 1, "failed")):
        again = to_do.steps([told], [to_do.Seen(0, True, (run,))])
        assert again == [to_do.Reopen(0), to_do.Tell(0)], run
    assert to_do.steps([told], []) == [], "one that was removed stays as it was told"


def test_never_more_than_one_point_waits_for_its_turn() -> None:
    assert to_do.may_ask(0, 3, 3, samples=9, max_running=None)
    assert not to_do.may_ask(1, 3, 3, samples=9, max_running=None)
    assert not to_do.may_ask(0, 3, 3, samples=9, max_running=3)
    assert not to_do.may_ask(0, 0, 9, samples=9, max_running=3)
