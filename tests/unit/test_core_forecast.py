"""When will it start: the same core, run forward on what is expected."""

from __future__ import annotations

from stoker.core import events as ev
from stoker.core.forecast import expected_start
from stoker.core.model import Need
from unit.core_scene import Scene, whole

HOUR_MS = 3_600_000


def in_ms(scene: Scene, job_id: int, expected: dict[int, int]) -> int | None:
    """How long a job is expected to wait."""
    known = {job: (ran_ms,) for job, ran_ms in expected.items()}
    start = expected_start(scene.state, job_id, lambda job: known.get(job, ()))
    return None if start is None else start.at_ms - scene.now


def test_a_job_that_nothing_hinders_starts_now() -> None:
    scene = Scene(1)
    assert in_ms(scene, scene.submit(), {}) == 0


def test_a_job_starts_when_the_one_before_it_is_expected_to_end() -> None:
    scene = Scene(1)
    first, second = scene.running(), scene.submit()
    scene.pass_s(4)
    assert in_ms(scene, second, {first: 10_000}) == 6_000


def test_a_job_waits_for_all_that_come_before_it() -> None:
    scene = Scene(1)
    first = scene.running()
    queue = [scene.submit() for _ in range(3)]
    expected = {first: 1_000, queue[0]: 2_000, queue[1]: 3_000}
    assert in_ms(scene, queue[2], expected) == 6_000


def test_a_time_limit_bounds_what_is_expected() -> None:
    scene = Scene(1)
    scene.running(limit_s=5)
    waiting = scene.submit()
    assert in_ms(scene, waiting, {1: 60_000}) == 5_000
    assert in_ms(scene, waiting, {}) == 5_000


def test_what_is_not_known_is_not_guessed() -> None:
    scene = Scene(1)
    scene.running()
    assert in_ms(scene, scene.submit(), {}) is None


def test_a_job_that_the_cluster_has_not_started_has_no_expected_end() -> None:
    scene = Scene(1)
    first, with_cluster = scene.running(), scene.submit(on_cluster=True, limit_s=5)
    scene.plan()
    scene.accepted(with_cluster)
    waiting = scene.submit()
    assert in_ms(scene, waiting, {first: 10_000, with_cluster: 1_000}) == 10_000
    behind = scene.submit(after=[with_cluster])
    assert in_ms(scene, behind, {first: 10_000, with_cluster: 1_000}) is None


def test_a_job_that_has_outlived_all_that_are_like_it_is_taken_to_be_half_way() -> None:
    scene = Scene(1)
    first, second = scene.running(), scene.submit()
    scene.pass_s(100)
    assert in_ms(scene, second, {first: 10_000}) == 100_000


def test_a_job_that_has_run_long_is_like_those_that_ran_longer() -> None:
    scene = Scene(1)
    first, second = scene.running(), scene.submit()
    runs = (10_000, 20_000, 30_000, 110_000, 120_000, 130_000)
    expect = {first: runs, second: runs}.get
    start = expected_start(scene.state, second, lambda job: expect(job, ()))
    assert start is not None and start.from_ms - scene.now < 30_000 < start.at_ms - scene.now
    scene.pass_s(40)
    start = expected_start(scene.state, second, lambda job: expect(job, ()))
    assert start is not None and start.from_ms - scene.now > 50_000
    assert start.at_ms - scene.now == 80_000


def test_those_who_wait_for_a_scout_are_expected_to_start_before_it_ends() -> None:
    scene = Scene(1)
    first = scene.submit(Need(1, kind="new"))
    assert list(scene.plan()) == [first]
    scene.started(first)
    second = scene.submit(Need(1, kind="new"))
    later = in_ms(scene, second, {first: HOUR_MS, second: HOUR_MS})
    assert later is not None and later < HOUR_MS


def test_a_big_job_is_expected_once_enough_gpus_are_free_and_small_ones_after_it() -> None:
    scene = Scene(2)
    first, second = scene.running(), scene.running()
    big, small = scene.submit(whole(2)), scene.submit()
    expected = {first: 5_000, second: 8_000, big: 1_000}
    assert in_ms(scene, big, expected) == 8_000
    assert in_ms(scene, small, expected) == 9_000


def test_a_job_with_a_moment_starts_at_that_moment() -> None:
    scene = Scene(1)
    assert in_ms(scene, scene.submit(at_ms=scene.now + 7_000), {}) == 7_000


def test_a_job_that_requires_another_starts_after_it() -> None:
    scene = Scene(2)
    first = scene.running()
    assert in_ms(scene, scene.submit(after=[first]), {first: 3_000}) == 3_000


def test_nothing_is_expected_of_a_held_job_or_a_paused_queue() -> None:
    scene = Scene(1)
    held, free = scene.submit(held=True), scene.submit()
    assert in_ms(scene, held, {}) is None
    scene.apply(ev.QueuePaused(scene.now))
    assert in_ms(scene, free, {}) is None


def test_a_forecast_changes_nothing() -> None:
    scene = Scene(1)
    first, second = scene.running(limit_s=9), scene.submit()
    in_ms(scene, second, {first: 1_000})
    assert list(scene.state.active) == [first]
    assert scene.state.ready.has(scene.job(second))
    assert scene.state.next_timer_ms() == scene.now + 9_000
