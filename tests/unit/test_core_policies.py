"""The order of jobs of equal priority: as they came, the shortest first, or fair between groups."""

from __future__ import annotations

import pytest

from stoker.core import events as ev
from stoker.core.model import Need, Terms
from stoker.core.order import HALF_LIFE_MS, PATIENCE, SCOUTS, Policy, with_run_kinds
from stoker.core.policy_reasons import ShortestFirst
from stoker.core.reasons import Reason, words
from stoker.core.takeover import planned
from stoker.core.waiting import reason_for, with_policy
from unit.core_scene import Scene, whole

MINUTE_S = 60
HOUR_S = 3_600


def scene_by(policy: Policy, gpus: int = 1) -> Scene:
    scene = Scene(gpus)
    scene.apply(ev.PolicySet(scene.now, policy))
    return scene


def ran(scene: Scene, kind: str, seconds: float, gpus: int = 1, group: str | None = None) -> None:
    """A job of this kind came to its end, before others came."""
    job = scene.submit(whole(gpus), run_kind=kind, group=group)
    assert list(scene.plan()) == [job]
    scene.started(job)
    scene.pass_s(seconds)
    scene.exited(job)


def order(scene: Scene, seconds: float = 1) -> list[int]:
    """The jobs in the order in which they start, one after the other."""
    met: list[int] = []
    while placed := list(scene.plan()):
        for job in placed:
            scene.started(job)
            scene.pass_s(seconds)
            scene.exited(job)
        met += placed
    return met


def test_the_least_expected_gpu_time_goes_first_within_a_priority() -> None:
    scene = scene_by(Policy.SHORTEST, 2)
    ran(scene, "long", HOUR_S)
    ran(scene, "short", MINUTE_S)
    ran(scene, "wide", 40, gpus=2)
    blocker = scene.running(whole(2))
    long = scene.submit(run_kind="long")
    wide = scene.submit(whole(2), run_kind="wide")
    short = scene.submit(run_kind="short")
    soon = scene.submit(run_kind="long", priority=-1)
    jobs = [scene.job(job) for job in (soon, short, wide, long)]
    assert scene.state.ahead_of(jobs) == {soon: 0, short: 1, wide: 2, long: 3}
    scene.exited(blocker)
    assert list(scene.plan()) == [soon, short]


def test_by_fifo_they_go_as_they_came_whatever_is_known() -> None:
    scene = scene_by(Policy.FIFO)
    ran(scene, "long", HOUR_S)
    ran(scene, "short", MINUTE_S)
    jobs = [scene.submit(run_kind=kind) for kind in ("long", "short", "long", "short")]
    assert order(scene) == jobs


@pytest.mark.parametrize("beyond_s", [-120, 120])
def test_a_job_is_overtaken_only_by_those_that_come_soon_enough(beyond_s: int) -> None:
    scene = scene_by(Policy.SHORTEST)
    ran(scene, "long", HOUR_S)
    ran(scene, "short", MINUTE_S)
    blocker = scene.running()
    long = scene.submit(run_kind="long")
    scene.pass_s(PATIENCE * (HOUR_S - MINUTE_S) + beyond_s)
    short = scene.submit(run_kind="short")
    scene.exited(blocker)
    assert order(scene) == ([short, long] if beyond_s < 0 else [long, short])


def test_the_first_of_a_kind_of_which_nothing_is_known_go_first_and_the_others_do_not() -> None:
    scene = scene_by(Policy.SHORTEST, 4)
    ran(scene, "usual", HOUR_S)
    ran(scene, "short", MINUTE_S)
    blocker = scene.running(whole(4))
    new = [scene.submit(run_kind="new") for _ in range(SCOUTS + 2)]
    short = [scene.submit(run_kind="short") for _ in range(4)]
    scene.exited(blocker)
    assert list(scene.plan()) == [*new[:SCOUTS], *short[: 4 - SCOUTS]]


def test_the_group_that_has_used_least_of_late_goes_first() -> None:
    scene = scene_by(Policy.FAIR)
    ran(scene, "a", 2 * HOUR_S, group="a")
    ran(scene, "b", HOUR_S, group="b")
    of_a = scene.submit(group="a")
    of_b = [scene.submit(group="b") for _ in range(2)]
    neither = scene.submit()
    assert order(scene, HOUR_S + MINUTE_S) == [neither, of_b[0], of_a, of_b[1]]


def test_what_a_group_used_long_ago_counts_less() -> None:
    scene = scene_by(Policy.FAIR)
    ran(scene, "a", 2 * HOUR_S, group="a")
    scene.pass_s(2 * HALF_LIFE_MS / 1000)
    ran(scene, "b", HOUR_S, group="b")
    of_b, of_a = scene.submit(group="b"), scene.submit(group="a")
    assert order(scene) == [of_a, of_b]


def test_groups_that_come_together_take_turns() -> None:
    scene = scene_by(Policy.FAIR, 4)
    of_a = [scene.submit(group="a") for _ in range(4)]
    of_b = [scene.submit(group="b") for _ in range(4)]
    assert sorted(scene.plan()) == sorted([*of_a[:2], *of_b[:2]])


def test_another_policy_holds_from_the_next_plan_on() -> None:
    scene = scene_by(Policy.FIFO)
    ran(scene, "long", HOUR_S)
    ran(scene, "short", MINUTE_S)
    together = [scene.submit(run_kind=kind) for kind in ("long", "short", "long")]
    edited = scene.submit(run_kind="long", priority=1)
    scene.apply(ev.PolicySet(scene.now, Policy.SHORTEST))
    long, short, later = together
    scene.edit(edited, priority=0)
    assert list(scene.plan()) == [short]
    scene.apply(ev.PolicySet(scene.now, Policy.FIFO))
    scene.exited(short)
    assert order(scene) == [long, later, edited]


def test_nothing_takes_over_where_another_group_may_be_first_by_then() -> None:
    scene = scene_by(Policy.FAIR)
    running = scene.submit(group="a")
    assert list(scene.plan()) == [running]
    scene.started(running)
    same = scene.submit(group="a")
    assert planned(scene.state).standbys == (same,)
    scene.submit(group="b")
    assert planned(scene.state).standbys == ()


def test_a_standby_is_the_shortest() -> None:
    scene = scene_by(Policy.SHORTEST)
    ran(scene, "long", HOUR_S)
    ran(scene, "short", MINUTE_S)
    running = scene.submit(run_kind="long")
    assert list(scene.plan()) == [running]
    scene.started(running)
    scene.submit(run_kind="long")
    short = scene.submit(run_kind="short")
    assert planned(scene.state).standbys == (short,)


def test_jobs_that_come_together_are_told_apart_by_their_kinds_unless_there_are_very_many() -> None:
    of = with_run_kinds(Need(1), Terms(), ["a", "b", "a"])
    assert {kind: one.run_kind for kind, one in of.items()} == {"a": "a", "b": "b"}
    many = with_run_kinds(Need(1), Terms(), map(str, range(1_000)))
    assert {one.run_kind for one in many.values()} == {""}
    assert with_run_kinds(Need(0), Terms(), ["a"])["a"] == Terms()


def test_why_says_how_many_go_first_and_until_when() -> None:
    scene = scene_by(Policy.SHORTEST)
    ran(scene, "long", HOUR_S)
    ran(scene, "short", MINUTE_S)
    scene.running()
    long = scene.submit(run_kind="long")
    scene.pass_s(HOUR_S)
    for _ in range(12):
        scene.submit(run_kind="short")
    reason = told(scene, long)
    assert isinstance(reason, ShortestFirst) and reason.expected_ms == HOUR_S * 1000
    first_in_s = (reason.first_at_ms - scene.now) / 1000
    assert 0 <= (PATIENCE - 1) * HOUR_S - first_in_s <= MINUTE_S, "jobs come to the minute"
    assert words(reason, scene.now) == (
        "shortest first: 12 jobs with less expected GPU time or a longer wait go first; at the "
        f"latest in 8h {round(first_in_s) // 60 % 60:02d}m no new job does; "
        "needs 1 GPU, 0 of 1 free"
    )
    scene.apply(ev.PolicySet(scene.now, Policy.FIFO))
    assert words(told(scene, long), scene.now) == "needs 1 GPU, 0 of 1 free"


def test_why_says_what_the_group_has_used() -> None:
    scene = scene_by(Policy.FAIR)
    ran(scene, "a", HOUR_S, group="a")
    scene.running()
    job = scene.submit(group="a")
    scene.submit(group="b")
    assert words(told(scene, job), scene.now) == (
        "fair shares: group a has used 1h 00m of GPU time of late, and 1 job goes first; "
        "needs 1 GPU, 0 of 1 free"
    )


def told(scene: Scene, job_id: int) -> Reason:
    job = scene.job(job_id)
    ahead = scene.state.ahead_of([job])[job_id]
    return with_policy(scene.state, job, reason_for(scene.state, job), ahead)


def test_a_job_goes_ahead_if_it_should_end_before_what_the_first_one_waits_for() -> None:
    scene = scene_by(Policy.FIFO, 2)
    for _ in range(8):
        ran(scene, "long", HOUR_S)
        ran(scene, "short", MINUTE_S)
    long = scene.submit(run_kind="long")
    assert list(scene.plan()) == [long]
    scene.started(long)
    scene.submit(whole(2))
    short = scene.submit(run_kind="short")
    assert list(scene.plan()) == [short], "it ends long before the other"
    scene.exited(short)
    unknown = scene.submit(run_kind="new")
    assert scene.plan() == {}
    scene.cancel(unknown)
    scene.pass_s(HOUR_S - MINUTE_S / 2)
    scene.submit(run_kind="short")
    assert scene.plan() == {}, "the other may have ended by then"


def test_nothing_more_goes_ahead_once_all_that_is_in_the_way_came_later() -> None:
    scene = scene_by(Policy.FIFO, 2)
    for _ in range(8):
        ran(scene, "long", HOUR_S)
        ran(scene, "short", MINUTE_S)
        ran(scene, "tiny", 1)
    long = scene.submit(run_kind="long")
    assert list(scene.plan()) == [long]
    scene.started(long)
    first = scene.submit(whole(2))
    short = scene.submit(run_kind="short")
    assert list(scene.plan()) == [short]
    scene.started(short)
    scene.exited(long)
    scene.submit(run_kind="tiny")
    assert scene.plan() == {}, "it would end long before the short one, which came later itself"
    scene.exited(short)
    assert list(scene.plan()) == [first]
