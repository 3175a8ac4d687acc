"""GPUs in the simulated world: memory, use, how jobs slow each other down, and what is read."""

from __future__ import annotations

import pytest

from stoker.core import events as ev
from stoker.core.model import Cause, Need
from stoker.sim.devices import Devices, Phase
from stoker.sim.play import Arrival, Play, gpus_like
from stoker.sim.run import Faults, Simulation
from stoker.sim.sweep import Sweep

GIB = 1024
MINUTE_MS = 60_000


def kind(name: str, *phases: Phase, runs_ms: int = 10 * MINUTE_MS) -> Arrival:
    return Arrival(0, Need(1, kind=name), runs_ms, phases)


def played(*arrivals: Arrival, gpus: int = 1) -> Play:
    play = Play(arrivals, gpus_like(gpus, 24 * GIB, measured=True))
    play.run()
    return play


def test_two_that_ask_for_more_than_a_gpu_take_as_much_longer() -> None:
    devices = Devices(gpus_like(1, 24 * GIB, measured=True))
    busy = (Phase(0, GIB, (80,)),)
    devices.begin((1, 1), ("0",), busy, 1_000, 0)
    assert devices.end_ms((1, 1)) == 1_000
    moved = devices.begin((2, 1), ("0",), busy, 1_000, 500)
    assert set(moved) == {(1, 1), (2, 1)}
    assert devices.end_ms((1, 1)) == 500 + 500 * 160 // 100
    devices.end((1, 1), 1_300)
    assert devices.end_ms((2, 1)) == 1_300 + 1_000 - 500  # It has done 800 * 100 / 160 of its work.


def test_one_that_does_not_use_what_is_short_is_not_slowed_down() -> None:
    devices = Devices(gpus_like(1, 24 * GIB, measured=True))
    devices.begin((1, 1), ("0",), (Phase(0, GIB, (90, 0)),), 1_000, 0)
    devices.begin((2, 1), ("0",), (Phase(0, GIB, (90, 0)),), 1_000, 0)
    devices.begin((3, 1), ("0",), (Phase(0, GIB, (0, 90)),), 1_000, 0)
    assert devices.end_ms((1, 1)) == devices.end_ms((2, 1)) == 1_800
    assert devices.end_ms((3, 1)) == 1_000


def test_a_process_that_grows_over_what_there_is_runs_out_of_memory_and_is_tried_again() -> None:
    growing = (Phase(0, 4 * GIB, (10,)), Phase(5 * MINUTE_MS, 14 * GIB, (10,)))
    play = played(*(kind("late", *growing) for _ in range(4)), gpus=2)
    assert sum(one.out_of_memory for one in play.ran) > 0
    assert all(one.ended_ms is not None for one in play.ran)


def test_memory_is_learned_from_what_the_driver_tells() -> None:
    steady = (Phase(0, 300), Phase(10_000, 5 * GIB, (10,)))
    play = played(*(kind("steady", *steady) for _ in range(8)))
    profile = play.engine.state.profiles["steady"]
    assert (profile.max_mib, profile.use_percent) == (5 * GIB, 10)
    stays = [stay for one in play.ran for stay in one.stays]
    together = max(sum(s.from_ms <= t.from_ms < (s.until_ms or 0) for s in stays) for t in stays)
    assert together == 4  # of 5 GiB and a margin, on 24


def test_the_same_seed_has_the_same_answer() -> None:
    jobs = [kind(f"k{n % 3}", Phase(n * 100, 3 * GIB, (20,))) for n in range(12)]
    once, again = (
        [(one.stays, one.ended_ms) for one in played(*jobs, gpus=2).ran] for _ in range(2)
    )
    assert once == again


def test_a_job_that_can_never_start_is_left_and_the_play_ends() -> None:
    play = Play([Arrival(0, Need(3), 1_000)], gpus_like(2, None, measured=False))
    (one,) = play.run()
    assert one.stays == [] and one.ended_ms is None


@pytest.mark.parametrize("seed", [71, 72])
def test_measured_runs_come_to_their_end_and_learn(seed: int) -> None:
    run = Simulation(seed, 60, faults=Faults(measured=0.6))
    run.run()
    learned = [event for event in run.log if isinstance(event, ev.ProfileLearned)]
    causes = {outcome.cause for outcome in run.store.attempts.values()}
    assert learned and run.world.ran_out and Cause.OUT_OF_MEMORY in causes


def test_a_crash_at_any_step_loses_no_job_where_memory_is_learned() -> None:
    swept = Sweep(6, 8, faults=Faults(measured=0.6)).run()
    assert swept.crashes == swept.steps > 100
