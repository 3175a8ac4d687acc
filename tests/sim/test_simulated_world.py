"""The simulated world notices what it is there to notice; else a sweep would prove nothing."""

from __future__ import annotations

import pytest

from stoker.core import commands as cmd
from stoker.core import events as ev
from stoker.core.model import Exit, Need
from stoker.ports import SeenGpu
from stoker.sim.agreement import check_agreement, check_end
from stoker.sim.faults import Crash, Steps
from stoker.sim.fingerprint import of_run
from stoker.sim.run import Faults, Simulation
from stoker.sim.world import NEVER_MS, Behaviour, VirtualClock, World

ENDLESS = Behaviour(NEVER_MS, Exit(code=0))
STUBBORN = Behaviour(NEVER_MS, Exit(code=0), heeds_stop_after_ms=None)


def world_with(*needs: Need, behaviour: Behaviour = ENDLESS) -> World:
    """Two GPUs, and jobs 1, 2, … with these needs."""
    world = World([SeenGpu("0", 1000), SeenGpu("1", 1000)], 4, VirtualClock(), seed=1)
    for job_id, need in enumerate(needs, start=1):
        world.needs[job_id] = need
        world.behaviours[job_id] = (behaviour,)
    return world


def start(world: World, job_id: int, *gpus: str, attempt: int = 1) -> None:
    world.carry_out(cmd.Start(job_id, attempt, gpus, 100))


def test_two_whole_gpu_jobs_on_one_gpu_are_noticed() -> None:
    world = world_with(Need(), Need())
    start(world, 1, "0")
    with pytest.raises(AssertionError, match="over its capacity"):
        start(world, 2, "0")


def test_reservations_that_do_not_fit_together_are_noticed() -> None:
    world = world_with(Need(1, mem_mib=600), Need(1, mem_mib=400), Need(1, mem_mib=1))
    start(world, 1, "0")
    start(world, 2, "0")
    with pytest.raises(AssertionError, match="over its capacity"):
        start(world, 3, "0")


def test_a_second_attempt_while_the_first_still_runs_is_noticed() -> None:
    world = world_with(Need())
    start(world, 1, "0")
    with pytest.raises(AssertionError, match="while"):
        start(world, 1, "1", attempt=2)


def test_a_wrong_number_of_gpus_is_noticed() -> None:
    world = world_with(Need(2))
    with pytest.raises(AssertionError, match="got"):
        start(world, 1, "0")


def test_an_order_that_is_given_twice_is_carried_out_once() -> None:
    world = world_with(Need())
    start(world, 1, "0")
    start(world, 1, "0")
    assert len(world.processes) == 1
    assert len(world.facts()) == 1


def test_an_endless_process_ends_only_when_it_is_told_to() -> None:
    world = world_with(Need())
    start(world, 1, "0")
    world.advance_to(10**9)
    assert world.processes
    world.carry_out(cmd.Terminate(1, 1, force=False))
    end_ms = world.next_ms()
    assert end_ms is not None
    world.advance_to(end_ms)
    assert not world.processes and not world.ledger["0"]
    assert ev.AttemptExited(world.clock.now_ms, 1, 1, Exit(signal=15)) in world.facts()


def test_a_stubborn_process_ends_only_by_force() -> None:
    world = world_with(Need(), behaviour=STUBBORN)
    start(world, 1, "0")
    world.carry_out(cmd.Terminate(1, 1, force=False))
    world.advance_to(10**9)
    assert world.processes
    world.carry_out(cmd.Terminate(1, 1, force=True))
    world.advance_to(world.clock.true_ms + 1)
    assert not world.processes


def test_facts_are_told_until_they_are_settled() -> None:
    world = world_with(Need(), Need())
    start(world, 1, "0")
    start(world, 2, "1")
    facts = world.facts()
    assert world.facts() == facts
    world.acknowledged(facts[:1])
    assert world.facts() == facts[1:]


def test_the_facts_of_an_attempt_keep_their_order() -> None:
    behaviour = Behaviour(5, Exit(code=0))
    world = world_with(*[Need(0)] * 6, behaviour=behaviour)
    for job_id in range(1, 7):
        start(world, job_id)
    world.advance_to(5)
    facts = world.facts()
    assert [f.job_id for f in facts] != sorted(f.job_id for f in facts), "others' are mixed"
    for job_id in range(1, 7):
        mine = [type(fact) for fact in facts if fact.job_id == job_id]
        assert mine == [ev.AttemptStarted, ev.AttemptExited]


def test_a_clock_that_is_set_is_no_time_that_passes() -> None:
    world = world_with(Need(), behaviour=Behaviour(1_000, Exit(code=0)))
    start(world, 1, "0")
    world.clock.set_wall(86_400_000)
    world.advance_to(999)
    assert world.processes
    world.advance_to(1_000)
    assert not world.processes
    assert world.clock.read().shifted_ms == 86_400_000
    assert world.clock.read().shifted_ms == 0


def busy_run() -> Simulation:
    run = Simulation(4, 60, faults=Faults(0, 0))
    while len(run.world.processes) < 3:
        run.step()
    run.turn()
    check_agreement(run)
    return run


def test_a_process_of_which_the_state_knows_nothing_is_noticed() -> None:
    run = busy_run()
    world = run.world
    key = next(key for held in world.ledger.values() for key in held)
    gpu_id = next(gpu_id for gpu_id, held in world.ledger.items() if key in held)
    world.ledger[gpu_id][key[0], key[1] + 1] = world.ledger[gpu_id].pop(key)
    with pytest.raises(AssertionError, match="unknown"):
        check_agreement(run)


def test_a_process_on_another_gpu_than_the_state_believes_is_noticed() -> None:
    run = busy_run()
    ledger = run.world.ledger
    taken = next(gpu_id for gpu_id, held in ledger.items() if held)
    free = next(gpu_id for gpu_id in ledger if gpu_id != taken)
    key, mine = ledger[taken].popitem()
    ledger[free][key] = mine
    with pytest.raises(AssertionError, match="not"):
        check_agreement(run)


def test_an_attempt_that_the_state_believes_in_and_that_is_not_there_is_noticed() -> None:
    run = busy_run()
    run.world.power_cut()
    with pytest.raises(AssertionError, match="nothing is there"):
        check_agreement(run)


def test_an_end_that_is_none_is_noticed() -> None:
    run = busy_run()
    with pytest.raises(AssertionError):
        check_end(run)


def test_an_exit_code_that_is_not_the_process_own_is_noticed() -> None:
    run = Simulation(4, 20, faults=Faults(0, 0))
    run.run()
    key, outcome = next((key, o) for key, o in run.store.attempts.items() if o.exit == Exit(code=0))
    run.store.attempts[key] = type(outcome)(outcome.state, outcome.cause, Exit(code=77))
    with pytest.raises(AssertionError, match="77"):
        check_end(run)


def test_a_survivor_goes_its_own_way_and_leaves_the_other_alone() -> None:
    run = busy_run()
    before = of_run(run)
    survivor = run.survivor(Steps())
    survivor.run()
    assert survivor.crashes == 1
    assert of_run(run) == before
    run.run()
    assert run.store.outcomes == survivor.store.outcomes


def test_a_crash_happens_at_the_step_that_was_chosen() -> None:
    steps = Steps({3})
    steps.take()
    steps.take()
    with pytest.raises(Crash):
        steps.take()
    assert steps.taken == 3


def test_every_nth_step_starts_with_the_first_that_was_named() -> None:
    steps, crashed = Steps(range(2, 10**9, 4)), []
    for _ in range(13):
        try:
            steps.take()
        except Crash:
            crashed.append(steps.taken)
    assert crashed == [2, 6, 10]
