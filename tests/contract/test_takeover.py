"""What every executor of this machine promises of attempts that take the place of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from contract.executor_benches import (
    ENDS_WELL,
    EXITS_7,
    LOCAL,
    MISSING,
    RUNS_ON,
    LocalBench,
    SimBench,
    active_job,
    start,
)
from stoker.core import commands as cmd
from stoker.core import events as ev
from stoker.core.model import Exit, Job, Need, Terms
from stoker.core.takeover import AllowTakeovers, Standby
from stoker.executors.adoption import Past
from stoker.executors.ledger import LedgerWriter
from waiting import eventually

Here = LocalBench | SimBench


@pytest.fixture(params=[*LOCAL, "simulated"])
def here(request: pytest.FixtureRequest) -> Here:
    if request.param == "simulated":
        return SimBench()
    real: LocalBench = request.getfixturevalue(request.param)
    return real


def take_over(attempts: int | tuple[int, ...], *standbys: int) -> AllowTakeovers:
    jobs = (attempts,) if isinstance(attempts, int) else attempts
    return AllowTakeovers(
        tuple((job_id, 1) for job_id in jobs),
        tuple(Standby(job_id, 1, 300) for job_id in standbys),
    )


def waiting_job(job_id: int) -> Job:
    return Job(job_id, Need(), Terms(grace_ms=300))


def kinds_told(here: Here, job_id: int) -> list[type]:
    facts = here.executor.observe(2_000_000)
    return [type(fact) for fact in facts if fact.job_id == job_id]


def ended(here: Here) -> None:
    """Stop what still runs."""
    for job_id in (2, 3):
        here.order(cmd.Terminate(job_id, 1, force=True))
    here.order()


def test_a_standby_starts_in_the_place_of_one_that_ends_well(here: Here) -> None:
    here.has(1, ENDS_WELL)
    here.has(2, EXITS_7)
    here.order(start(1, gpus=("3",)), takeovers=take_over(1, 2))
    left = here.until(ev.AttemptExited, 1)
    assert (left.exit, left.taken_over_by) == (Exit(code=0), (2, 1))
    here.executor.acknowledged([left])
    assert here.until(ev.AttemptStarted, 2).attempt == 1
    assert here.until(ev.AttemptExited, 2).exit == Exit(code=7)


def test_a_standby_gets_the_gpus_of_the_one_before_it(local: LocalBench) -> None:
    local.has(1, ENDS_WELL)
    local.runs(2, "sh", "-c", "echo on $CUDA_VISIBLE_DEVICES, attempt $STOKER_ATTEMPT")
    local.order(start(1, gpus=("3",)), takeovers=take_over(1, 2))
    local.executor.acknowledged([local.until(ev.AttemptExited, 1)])
    local.until(ev.AttemptExited, 2)
    assert local.log(2) == "on 3, attempt 1\n"


def test_one_that_has_taken_over_may_be_relieved_in_its_turn(here: Here) -> None:
    for job_id in (1, 2):
        here.has(job_id, ENDS_WELL)
    here.has(3, EXITS_7)
    here.order(start(1), takeovers=take_over(1, 2, 3))
    assert here.until(ev.AttemptExited, 3).exit == Exit(code=7)
    ends = {
        fact.job_id: fact.taken_over_by
        for fact in here.executor.observe(2_000_000)
        if isinstance(fact, ev.AttemptExited)
    }
    assert ends == {1: (2, 1), 2: (3, 1), 3: None}


def test_one_for_which_others_wait_is_not_relieved_in_its_turn(here: Here) -> None:
    for job_id in (1, 2):
        here.has(job_id, ENDS_WELL)
    here.has(3, RUNS_ON)
    standbys = (Standby(2, 1, 300, may_be_followed=False), Standby(3, 1, 300))
    here.order(start(1), takeovers=AllowTakeovers(((1, 1),), standbys))
    assert here.until(ev.AttemptExited, 2).taken_over_by is None


def test_a_chain_of_those_that_took_over_before_a_crash_is_told_after_it(here: Here) -> None:
    for job_id in (1, 2):
        here.has(job_id, ENDS_WELL)
    here.has(3, RUNS_ON)
    here.order(start(1), takeovers=take_over(1, 2, 3))
    here.until(ev.AttemptStarted, 3)
    here.started_again(active_job(1, started=True), standbys=[waiting_job(2), waiting_job(3)])
    ends = [here.until(ev.AttemptExited, job_id) for job_id in (1, 2)]
    assert [end.taken_over_by for end in ends] == [(2, 1), (3, 1)]
    here.until(ev.AttemptStarted, 3)
    ended(here)


def test_one_that_fails_is_not_relieved(here: Here) -> None:
    here.has(1, EXITS_7)
    here.has(2, RUNS_ON)
    here.order(start(1), takeovers=take_over(1, 2))
    assert here.until(ev.AttemptExited, 1).taken_over_by is None
    assert kinds_told(here, 2) == []


def test_one_that_is_asked_to_stop_is_not_relieved(local: LocalBench) -> None:
    local.runs(1, "sh", "-c", "trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done")
    local.has(2, RUNS_ON)
    local.order(start(1))
    eventually(lambda: "ready" in local.log(1))
    local.order(cmd.Terminate(1, 1, force=False), takeovers=take_over(1, 2))
    left = local.until(ev.AttemptExited, 1)
    assert (left.exit, left.taken_over_by) == (Exit(code=0), None)


def test_only_those_that_were_named_are_relieved(here: Here) -> None:
    for job_id in (1, 2):
        here.has(job_id, ENDS_WELL)
    here.has(3, RUNS_ON)
    here.order(start(1, gpus=("0",)), start(2, gpus=("1",)), takeovers=take_over(2, 3))
    assert here.until(ev.AttemptExited, 1).taken_over_by is None
    assert here.until(ev.AttemptExited, 2).taken_over_by == (3, 1)
    ended(here)


def test_an_order_that_is_not_given_again_does_not_hold(here: Here) -> None:
    here.has(1, ENDS_WELL)
    here.has(2, RUNS_ON)
    here.order(start(1), takeovers=take_over(1, 2))
    here.order(start(1))
    assert here.until(ev.AttemptExited, 1).taken_over_by is None


def test_each_standby_takes_one_place_and_the_first_goes_first(here: Here) -> None:
    for job_id in (1, 2):
        here.has(job_id, ENDS_WELL)
    here.has(3, RUNS_ON)
    here.order(start(1, gpus=("0",)), start(2, gpus=("1",)), takeovers=take_over((1, 2), 3))
    ends = [here.until(ev.AttemptExited, job_id).taken_over_by for job_id in (1, 2)]
    assert sorted(ends, key=str) == [(3, 1), None]
    ended(here)


def test_a_standby_that_can_not_be_started_is_left_to_the_next_turn(here: Here) -> None:
    here.has(1, ENDS_WELL)
    here.has(2, MISSING)
    here.order(start(1), takeovers=take_over(1, 2))
    left = here.until(ev.AttemptExited, 1)
    assert left.taken_over_by is None
    here.executor.acknowledged([left])
    assert kinds_told(here, 2) == []
    here.order(start(2))
    here.until(ev.AttemptNotStarted, 2)


def test_ends_are_told_also_where_what_is_to_take_over_can_not_be_read(local: LocalBench) -> None:
    for job_id in (1, 2):
        local.has(job_id, ENDS_WELL)
    local.order(start(1, gpus=("0",)), start(2, gpus=("1",)), takeovers=take_over((1, 2), 3, 4))
    assert 3 not in local.launches and 4 not in local.launches
    for job_id in (1, 2):
        assert local.until(ev.AttemptExited, job_id).taken_over_by is None


def test_what_has_taken_over_before_a_crash_is_told_after_it(here: Here) -> None:
    here.has(1, ENDS_WELL)
    here.has(2, RUNS_ON)
    here.has(3, RUNS_ON)
    here.order(start(1), takeovers=take_over(1, 2, 3))
    here.until(ev.AttemptExited, 1)
    here.started_again(active_job(1, started=True), standbys=[waiting_job(2), waiting_job(3)])
    left = here.until(ev.AttemptExited, 1)
    assert (left.exit, left.taken_over_by) == (Exit(code=0), (2, 1))
    here.until(ev.AttemptStarted, 2)
    assert kinds_told(here, 3) == [], "it never started"
    ended(here)


def test_what_has_taken_over_is_told_after_a_crash_though_the_ledger_was_written_anew(
    local: LocalBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local.ledger, "_rewrite_at", 0)
    for job_id in (1, 9):
        local.has(job_id, ENDS_WELL)
    local.has(2, RUNS_ON)
    local.order(start(1), start(9, gpus=("1",)), takeovers=take_over(1, 2))
    local.until(ev.AttemptStarted, 2)
    local.executor.acknowledged([local.until(ev.AttemptExited, 9)])
    assert "exit 9 " not in local.ledger.path.read_text(), "it was written anew"
    local.started_again(active_job(1, started=True), standbys=[waiting_job(2)])
    assert local.until(ev.AttemptExited, 1).taken_over_by == (2, 1)
    local.until(ev.AttemptStarted, 2)
    ended(local)


def test_a_standby_that_never_started_is_none_of_the_executors_business(here: Here) -> None:
    here.has(1, RUNS_ON)
    here.has(2, RUNS_ON)
    here.order(start(1), takeovers=take_over(1, 2))
    here.until(ev.AttemptStarted, 1)
    here.started_again(active_job(1, started=True), standbys=[waiting_job(2)])
    assert kinds_told(here, 2) == []
    here.order(cmd.Terminate(1, 1, force=True))


def test_a_ledger_tells_who_took_whose_place_unless_that_came_to_nothing(tmp_path: Path) -> None:
    ledger = LedgerWriter(tmp_path / "one.ledger", None)
    ledger.intend((2, 1), follows=(1, 1))
    ledger.withdraw()
    ledger.intend((3, 1), follows=(4, 1))
    ledger.close()
    past = Past(tmp_path, tmp_path)
    assert past.taken_over_by((2, 1)) is None
    assert past.taken_over_by((3, 1)) == (4, 1)


def test_until_the_next_order_only_those_take_over_who_are_first_in_both(here: Here) -> None:
    for job_id in range(1, 5):
        here.has(job_id, ENDS_WELL if job_id < 3 else RUNS_ON)
    here.order(start(1), start(2, gpus=("1",)), takeovers=take_over((1, 2), 3, 4))
    here.takeover.narrow_to(take_over((1,), 3, 5))
    assert here.until(ev.AttemptExited, 1).taken_over_by == (3, 1)
    assert here.until(ev.AttemptExited, 2).taken_over_by is None


def test_until_the_next_order_only_those_are_followed_whom_both_name(here: Here) -> None:
    for job_id in range(1, 5):
        here.has(job_id, ENDS_WELL if job_id < 3 else RUNS_ON)
    here.order(start(1), start(2, gpus=("1",)), takeovers=take_over((1, 2), 3, 4))
    here.takeover.narrow_to(take_over((1,), 3, 4))
    assert here.until(ev.AttemptExited, 2).taken_over_by is None
    assert here.until(ev.AttemptExited, 1).taken_over_by == (3, 1)
    ended(here)


def test_nobody_takes_over_before_an_order_that_names_none(here: Here) -> None:
    for job_id in (1, 2):
        here.has(job_id, ENDS_WELL)
    here.has(3, RUNS_ON)
    here.order(start(1), start(2, gpus=("1",)), takeovers=take_over((1, 2), 3))
    here.takeover.narrow_to(None)
    assert here.until(ev.AttemptExited, 1).taken_over_by is None
    here.order(takeovers=take_over(2))
    assert here.until(ev.AttemptExited, 2).taken_over_by is None
    assert kinds_told(here, 3) == []


def test_those_who_stood_by_are_forgotten_with_their_order(here: Here) -> None:
    for job_id in (1, 4):
        here.has(job_id, ENDS_WELL)
    for job_id in (2, 3):
        here.has(job_id, RUNS_ON)
    here.order(takeovers=take_over(9, 2))
    here.order()
    here.order(start(1), takeovers=take_over(1, 3))
    assert here.until(ev.AttemptExited, 1).taken_over_by == (3, 1)
    assert kinds_told(here, 2) == []
    ended(here)


def test_nobody_takes_over_before_an_order_in_which_another_is_first(here: Here) -> None:
    for job_id in (1, 3):
        here.has(job_id, ENDS_WELL)
    here.order(start(1), takeovers=take_over(1, 3, 4))
    here.takeover.narrow_to(take_over(1, 4, 3))
    assert here.until(ev.AttemptExited, 1).taken_over_by is None


def test_one_that_has_taken_over_before_an_order_does_not_do_so_again(here: Here) -> None:
    for job_id in range(1, 5):
        here.has(job_id, ENDS_WELL if job_id in (1, 3) else RUNS_ON)
    here.order(start(1), takeovers=take_over(1, 3, 4))
    here.takeover.narrow_to(take_over(1, 3))
    assert here.until(ev.AttemptExited, 1).taken_over_by == (3, 1)
    here.order(takeovers=take_over(1, 3, 4))
    assert here.until(ev.AttemptExited, 3).taken_over_by == (4, 1)


def test_one_that_has_taken_over_before_an_order_is_not_followed_if_others_wait_for_it(
    here: Here,
) -> None:
    for job_id in (1, 2):
        here.has(job_id, ENDS_WELL)
    here.has(3, RUNS_ON)
    first, second = Standby(2, 1, 300, may_be_followed=False), Standby(3, 1, 300)
    here.order(start(1), takeovers=AllowTakeovers(((1, 1),), (first,)))
    assert here.until(ev.AttemptExited, 1).taken_over_by == (2, 1)
    here.order(takeovers=AllowTakeovers(((1, 1),), (first, second)))
    assert here.until(ev.AttemptExited, 2).taken_over_by is None


def test_a_standby_whose_program_can_not_be_loaded_has_taken_over_and_is_told_of(
    quick: LocalBench,
) -> None:
    quick.has(1, ENDS_WELL)
    quick.runs(2, "true", "x" * 200_000)
    quick.order(start(1), takeovers=take_over(1, 2))
    assert quick.until(ev.AttemptExited, 1).taken_over_by == (2, 1)
    assert "Argument list too long" in quick.until(ev.AttemptNotStarted, 2).why
    assert not any(isinstance(f, ev.AttemptStarted) and f.job_id == 2 for f in quick.observe())
