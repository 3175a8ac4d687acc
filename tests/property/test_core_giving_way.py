"""An endless stream of urgent jobs can't starve one that gives way: there is a bound."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.core.giving_way import next_offer_ms
from stoker.core.model import JobState
from unit.core_scene import Scene

HOUR_S = 3600
GRACE_S = 30
LONGEST_S = 1500
IN_ALL_S = 12 * HOUR_S


@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.integers(300, LONGEST_S), min_size=1, max_size=6),
    ahead=st.integers(1, 4),
    yields=st.sampled_from((1, 3, 1000)),
    priority=st.sampled_from((-5, 0, 5)),
)
def test_one_that_gives_way_waits_no_longer_than_the_bound_and_has_half_of_the_time_after_that(
    lengths: list[int], ahead: int, yields: int, priority: int
) -> None:
    scene = Scene(1)
    began = scene.now
    job = scene.submit(preemptible=True, yields=yields, requeue_on=(75,), grace_s=GRACE_S)
    ends: dict[int, int] = {}  # of what runs, in ms
    came = 0
    waits: list[int] = []
    runs: list[int] = []
    since = scene.now
    assert list(scene.plan()) == [job]  # Before there are urgent ones.
    scene.started(job)
    while scene.now < began + IN_ALL_S * 1000:
        waiting = [one for one in scene.state.jobs.values() if one.terms.urgent and not one.active]
        for _ in range(ahead - len(waiting)):
            scene.submit(urgent=True, priority=priority)
        for placed in scene.plan():
            scene.started(placed)
            if placed == job:
                waits.append((scene.now - since) // 1000)
                since = scene.now
            else:
                ends[placed] = scene.now + lengths[came % len(lengths)] * 1000
                came += 1
        if scene.where(job) is JobState.STOPPING:
            ends[job] = ends.get(job, scene.now + GRACE_S * 1000)
        soon_ms = scene.now + 300_000
        next_ms = min(
            [
                *ends.values(),
                scene.state.next_timer_ms() or soon_ms,
                next_offer_ms(scene.state) or soon_ms,
                soon_ms,
            ]
        )
        scene.pass_s(max(1, next_ms - scene.now) / 1000)
        for ended in [one for one, end_ms in ends.items() if end_ms <= scene.now]:
            del ends[ended]
            scene.exited(ended, 75 if ended == job else 0)
            if ended == job:
                runs.append((scene.now - since) // 1000)
                since = scene.now
    assert max(waits) <= HOUR_S + LONGEST_S, waits
    assert waits and runs
    for waited, ran in zip(waits, runs[1:], strict=False):
        assert ran >= waited, f"{waits}, {runs}"
