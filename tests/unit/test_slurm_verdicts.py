"""Every combination of what the files say and what Slurm says has a meaning."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.core import events as ev
from stoker.core.model import Cause, Exit
from stoker.executors.slurm.files import Started
from stoker.executors.slurm.squeue import Seen
from stoker.executors.slurm.verdict import Found, Heard, ending

KEY = (7, 2)
NOW = 1_000_000
BEGAN = Started("n1", "812_3", 0, ("0",), 900_000)
WITHDRAWN = Started("withdrawn", "-", 0, (), 900_000)
OK, TERM, KILL = Exit(code=0), Exit(signal=15), Exit(signal=9)


def seen(
    state: str,
    reason: str = "None",
    how: Exit | None = None,
    *,
    node: str = "n1",
    restarts: int = 0,
) -> Seen:
    return Seen("812_3", 812, 3, state, reason, how, restarts, node, "a.b", "stoker:x:b")


def told(found: Found, heard: Heard, *, stopping: bool = False) -> ev.Fact | None:
    fact = ending(KEY, NOW, found, heard, stopping)
    assert fact is None or (fact.job_id, fact.attempt) == KEY
    return fact


@pytest.mark.parametrize("how", [OK, Exit(code=1), Exit(code=128)])
@pytest.mark.parametrize("heard", [Heard(None), Heard(seen("RUNNING")), Heard(seen("NODE_FAIL"))])
def test_an_end_of_its_own_is_believed_at_once(how: Exit, heard: Heard) -> None:
    assert told(Found(how, 950_000, BEGAN), heard) == ev.AttemptExited(950_000, *KEY, how)


def test_what_is_cancelled_under_an_id_that_was_anothers_is_tried_again() -> None:
    cancelled = Heard(seen("CANCELLED"), conclusive=True)
    doubtful = replace(cancelled, doubtful=True)
    for found in (Found(TERM, 950_000, BEGAN), Found(started=BEGAN)):
        assert isinstance(told(found, cancelled), ev.AttemptCutShort)
        assert isinstance(told(found, doubtful), ev.AttemptEvicted)
    itself = Found(Exit(code=3), 950_000, BEGAN)
    assert told(itself, doubtful) == told(itself, cancelled), "its own word counts for more"


@pytest.mark.parametrize("how", [TERM, KILL, Exit(code=143)])
def test_of_an_end_by_a_signal_slurm_may_know_more(how: Exit) -> None:
    found = Found(how, 950_000, BEGAN)
    assert told(found, Heard(seen("RUNNING"))) is None
    assert told(found, Heard(seen("FAILED"))) == ev.AttemptExited(950_000, *KEY, how)
    cut = told(found, Heard(seen("TIMEOUT")))
    assert cut == ev.AttemptCutShort(950_000, *KEY, Cause.TIME_LIMIT, how)
    assert told(found, Heard(None, missing=True)) == ev.AttemptExited(950_000, *KEY, how)


@pytest.mark.parametrize(
    ("state", "cause", "evicted"),
    [
        ("TIMEOUT", Cause.TIME_LIMIT, False),
        ("OUT_OF_MEMORY", Cause.NODE_MEMORY, False),
        ("CANCELLED", Cause.CANCELLED, False),
        ("DEADLINE", Cause.CLUSTER, False),
        ("PREEMPTED", Cause.PREEMPTED, True),
        ("NODE_FAIL", Cause.NODE_FAILED, True),
        ("BOOT_FAIL", Cause.NODE_FAILED, True),
    ],
)
@pytest.mark.parametrize("how", [OK, TERM, None])
def test_what_slurm_did_to_it_is_told_apart(
    state: str, cause: Cause, evicted: bool, how: Exit | None
) -> None:
    found = Found(how, 950_000, BEGAN, told_to_stop=True)
    fact = told(found, Heard(seen(state, how=TERM), conclusive=True))
    assert isinstance(fact, ev.AttemptEvicted if evicted else ev.AttemptCutShort)
    assert fact.cause is cause
    if isinstance(fact, ev.AttemptCutShort):
        assert fact.exit == (how or TERM)


def test_one_that_was_told_to_stop_and_exits_with_0_has_not_succeeded_yet() -> None:
    found = Found(OK, 950_000, BEGAN, told_to_stop=True)
    assert told(found, Heard(seen("COMPLETING"))) is None
    assert isinstance(told(found, Heard(seen("COMPLETED"))), ev.AttemptExited)


def test_one_that_its_user_stopped_has_ended_as_it_says() -> None:
    found = Found(TERM, 950_000, BEGAN, told_to_stop=True)
    fact = told(found, Heard(seen("RUNNING")), stopping=True)
    assert fact == ev.AttemptExited(950_000, *KEY, TERM)


def test_one_that_a_forgetful_controller_killed_is_tried_again() -> None:
    found = Found(TERM, 950_000, BEGAN, told_to_stop=True)
    assert told(found, Heard(None)) is None
    assert isinstance(told(found, Heard(None, missing=True)), ev.AttemptEvicted)


def test_killed_for_its_memory_is_known_from_the_log_where_slurm_does_not_say() -> None:
    found = Found(KILL, 950_000, BEGAN, took_too_much_memory=True)
    fact = told(found, Heard(seen("FAILED", "JobLaunchFailure")))
    assert isinstance(fact, ev.AttemptCutShort) and fact.cause is Cause.NODE_MEMORY


@pytest.mark.parametrize("how", [OK, Exit(code=3), KILL])
def test_without_an_exit_of_its_own_slurms_word_counts_after_a_while(how: Exit) -> None:
    state = seen("COMPLETED" if how.ok else "FAILED", how=how)
    found = Found(started=BEGAN)
    assert told(found, Heard(state)) is None
    assert told(found, Heard(state, conclusive=True)) == ev.AttemptExited(NOW, *KEY, how)


def test_where_nobody_knows_nothing_is_invented() -> None:
    found = Found(started=BEGAN)
    assert told(found, Heard(None)) is None
    assert isinstance(told(found, Heard(None, missing=True)), ev.AttemptVanished)
    fact = told(found, Heard(seen("FAILED"), conclusive=True))
    assert isinstance(fact, ev.AttemptVanished)


# ---------------------------------------------------------------------- what never began


def test_what_the_cluster_lost_is_tried_again() -> None:
    assert told(Found(), Heard(None)) is None
    assert isinstance(told(Found(), Heard(None, missing=True)), ev.AttemptEvicted)


def test_what_waits_is_left_to_wait() -> None:
    for reason in ("Priority", "Resources", "Dependency", "JobHeldUser", "JobHeldAdmin"):
        assert told(Found(), Heard(seen("PENDING", reason, node=""))) is None


def test_what_slurm_will_never_start_by_itself_is_tried_again() -> None:
    for reason in ("launch failed requeued held", "launch_failed_requeued_held"):
        assert isinstance(told(Found(), Heard(seen("PENDING", reason))), ev.AttemptEvicted)


def test_what_was_taken_back_after_it_began_is_tried_again() -> None:
    found = Found(started=BEGAN)
    assert told(found, Heard(seen("PENDING"))) is None, "that may be older than the start"
    fact = told(found, Heard(seen("PENDING"), since_the_start=True))
    assert isinstance(fact, ev.AttemptEvicted) and fact.cause is Cause.REQUEUED
    assert isinstance(told(found, Heard(seen("PENDING", restarts=1))), ev.AttemptEvicted)


def test_what_is_said_to_run_and_never_begins_is_tried_again() -> None:
    assert told(Found(), Heard(seen("RUNNING"))) is None
    assert isinstance(told(Found(), Heard(seen("RUNNING"), overdue=True)), ev.AttemptEvicted)
    assert told(Found(started=BEGAN), Heard(seen("RUNNING"), overdue=True)) is None


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        (seen("CANCELLED", node=""), ev.AttemptCutShort),
        (seen("CANCELLED", node="n1"), ev.AttemptEvicted),
        (seen("CANCELLED", "DependencyNeverSatisfied", node=""), ev.AttemptEvicted),
        (seen("FAILED", "BadConstraints", node=""), ev.AttemptNotStarted),
        (seen("FAILED", "NonZeroExitCode", Exit(code=127)), ev.AttemptNotStarted),
        (seen("FAILED", "NonZeroExitCode", Exit(code=78)), ev.AttemptNotStarted),
        (seen("FAILED", "NonZeroExitCode", Exit(code=3)), ev.AttemptEvicted),
        (seen("COMPLETED", "None", OK), ev.AttemptEvicted),
        (seen("NODE_FAIL"), ev.AttemptEvicted),
    ],
)
def test_what_is_said_to_be_over_and_never_began(state: Seen, kind: type[ev.Fact]) -> None:
    assert told(Found(), Heard(state)) is None
    assert isinstance(told(Found(), Heard(state, conclusive=True)), kind)


def test_perl_is_named_where_it_is_missing() -> None:
    fact = told(Found(), Heard(seen("FAILED", "NonZeroExitCode", Exit(code=127)), conclusive=True))
    assert isinstance(fact, ev.AttemptNotStarted) and "is perl on its nodes?" in fact.why


def test_a_refusal_of_the_node_is_told() -> None:
    fact = told(Found(started=BEGAN, refusal=("start", "x: not found")), Heard(None))
    assert fact == ev.AttemptNotStarted(NOW, *KEY, "x: not found")
    fact = told(Found(refusal=("requirement", "/a/3.1")), Heard(None))
    assert isinstance(fact, ev.AttemptEvicted)


def test_what_an_earlier_daemon_gave_up_is_tried_again() -> None:
    found = Found(started=WITHDRAWN)
    assert told(found, Heard(None)) is None
    assert isinstance(told(found, Heard(seen("PENDING"))), ev.AttemptEvicted)
    assert told(found, Heard(seen("PENDING")), stopping=True) is None
