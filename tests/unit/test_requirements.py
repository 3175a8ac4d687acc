"""What a job is to wait for: read from a request, and looked up as a proposal is granted."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.core import events as ev
from stoker.core.model import JobState, Need, Requirement, Terms
from stoker.core.state import State
from stoker.daemon.requirements import RANGE_FROM, RequiredJobs, Stand, required
from stoker.errors import UsageError
from stoker.store.sqlite import SqliteStore
from stoker.store.views import Views


def test_a_few_jobs_are_required_one_by_one() -> None:
    assert required(["7", "3-5", "4"], True) == [Requirement(i, True) for i in (3, 4, 5, 7)]


def test_many_jobs_that_follow_each_other_are_one_requirement() -> None:
    ids = [str(i) for i in range(1, RANGE_FROM + 1)]
    assert required(ids, False) == [Requirement(1, False, RANGE_FROM)]
    assert required([*ids, "900"], True) == [
        Requirement(1, True, RANGE_FROM),
        Requirement(900, True),
    ]
    assert required(["1-60", "61-5000"], True) == [Requirement(1, True, 5000)]


@pytest.mark.parametrize("text", ["x", "", "7-", "-7", "9-7", "1-2-3", "1-999999999", "9" * 19])
def test_what_is_no_job_and_no_range_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        required([text], True)


def test_a_job_that_ends_in_the_same_turn_is_known_to_have_ended(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "stoker.db")
    state = State(now_ms=1_700_000_000_000)
    for job_id in range(1, 4):
        state.apply(ev.JobSubmitted(state.now_ms, job_id, Need(), Terms()))
    store.commit(state, state.take_change())
    state.apply(ev.JobCancelled(state.now_ms, 2))
    others = RequiredJobs(state, Views(store.connection), range(4, 6))
    assert others.stand(Requirement(2, False)) == Stand(False, None, None)
    assert others.stand(Requirement(2, True)) == Stand(False, (2, JobState.CANCELLED), None)
    assert others.stand(Requirement(1, True, 3)) == Stand(True, (2, JobState.CANCELLED), None)
    assert others.stand(Requirement(1, False, 5)) == Stand(True, None, None)
    assert others.stand(Requirement(3, False, 7)) == Stand(True, None, 6)
