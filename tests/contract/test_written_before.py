"""What must be on disk before what: intents, exits, and the decisions that they follow from.

All other tests with real processes look at the same; see `written_before`.
"""

from __future__ import annotations

import os

import pytest

from contract.executor_benches import ENDS_WELL, EXITS_7, RUNS_ON, LocalBench, start
from contract.test_clock import Machine
from contract.test_takeover import take_over
from contract.test_warm_servers import Warm, warm
from contract.written_before import CommittedOnly, CommittedTakeovers
from stoker.core import commands as cmd
from stoker.core import events as ev
from stoker.core.model import Exit, Need, Terms
from stoker.engine import Engine
from stoker.inventory.auto import DeclaredInventory
from waiting import eventually

__all__ = ["warm"]


def test_every_start_has_its_intent_on_disk_before_its_process(local: LocalBench) -> None:
    for job_id in (1, 2, 3):
        local.has(job_id, EXITS_7)
    local.order(start(1), start(2, gpus=("1",)), start(3, attempt=2, gpus=("2",)))
    for job_id in (1, 2, 3):
        local.until(ev.AttemptExited, job_id)
    assert local.on_disk.when_made.keys() == {(1, 1), (2, 1), (3, 2)}
    last = local.on_disk.when_made[3, 2]
    assert last.pids.keys() == {(1, 1), (2, 1)}, "the pids of those before it are on disk, too"


def test_every_exit_is_on_disk_before_its_process_is_reaped(local: LocalBench) -> None:
    for job_id in (1, 2):
        local.has(job_id, EXITS_7)
    local.order(start(1), start(2, gpus=("1",)))
    for job_id in (1, 2):
        local.until(ev.AttemptExited, job_id)
        assert local.on_disk.when_reaped[job_id, 1].exits[job_id, 1][0] == Exit(code=7)


def test_one_that_takes_over_has_it_on_disk_whose_place_it_takes_and_how_that_ended(
    local: LocalBench,
) -> None:
    local.has(1, ENDS_WELL)
    local.has(2, ENDS_WELL)
    local.has(3, RUNS_ON)
    local.order(start(1), takeovers=take_over(1, 2, 3))
    local.until(ev.AttemptStarted, 3)
    for job_id in (2, 3):
        made = local.on_disk.when_made[job_id, 1]
        assert made.taken_over_by[job_id, 1] == (job_id - 1, 1)
        assert made.exits[job_id - 1, 1][0] == Exit(code=0)
    local.order(cmd.Terminate(3, 1, force=True))


def test_a_copy_of_a_warm_server_is_told_once_the_ledger_names_it(warm: Warm) -> None:
    warm.light()
    warm.runs(1, "pass")
    warm.local.order(start(1))
    warm.local.until(ev.AttemptExited, 1)
    told = warm.local.on_disk.when_told[1, 1]
    assert told.intent == (1, 1) and told.idle_copy is not None
    assert (1, 1) not in warm.local.on_disk.when_made, "no other process was made for it"
    assert (1, 1) in warm.local.on_disk.when_reaped


class Watched(Machine):
    """An engine whose executor takes no start that is not committed."""

    def _engine(self) -> Engine:
        database = self.local.root / "stoker.db"
        self.executor = CommittedOnly(self.local.executor, database)
        self.takeover = CommittedTakeovers(self.local.executor.takeover, database)
        return Engine(
            self.store,
            self.executor,
            DeclaredInventory(None),
            self.clocks.clock(),
            takeover=self.takeover,
        )


@pytest.fixture
def machine(local: LocalBench) -> Watched:
    return Watched(local, local.root / "stoker.db")


def test_no_start_and_no_takeover_is_carried_out_before_it_is_committed(machine: Watched) -> None:
    engine = machine.engine
    engine.state.apply(ev.GpuAdded(engine.state.now_ms, "0", None))
    gate = machine.local.root / "gate"
    os.mkfifo(gate)
    jobs = [machine.submit("cat", str(gate), need=Need(1))]
    jobs += [machine.submit("true", need=Need(1)) for _ in range(5)]

    def may_take_over() -> bool:
        machine.turn(1)
        return bool(machine.takeover.allowed)

    eventually(may_take_over, "others may take over from the first")
    gate.write_text("")

    def all_over() -> bool:
        machine.turn(1)
        return not any(job in engine.state.jobs for job in jobs)

    eventually(all_over, "all have run")
    assert {type(command) for command in machine.executor.carried_out} == {cmd.Start}
    assert len(machine.local.on_disk.when_reaped) == len(jobs)


def test_a_retry_is_committed_before_it_is_carried_out(machine: Watched) -> None:
    job = machine.submit("false", terms=Terms(retries=1))

    def over() -> bool:
        machine.turn(1_000)
        return job not in machine.engine.state.jobs

    eventually(over, "it has failed twice")
    assert machine.local.on_disk.when_made.keys() == {(job, 1), (job, 2)}
