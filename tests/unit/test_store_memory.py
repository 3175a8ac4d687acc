"""What the store remembers of the file is forgotten with what it remembers.

Rows get numbers that are free again once they are removed or a transaction is undone. Whatever is
remembered by such a number must go with it, or a job starts with another one's environment.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.core import events as ev
from stoker.core.model import Cause
from unit.queue_scene import NOW_MS, Queue


@pytest.fixture
def queue(tmp_path: Path) -> Queue:
    return Queue(tmp_path)


def remove(queue: Queue, job_id: int) -> None:
    queue.state.apply(ev.JobCancelled(NOW_MS, job_id, Cause.CANCELLED))
    queue.commit()
    queue.state.apply(ev.JobsRemoved(NOW_MS, (job_id,)))
    queue.store.commit(queue.state, queue.state.take_change())  # The daemon loads nothing here.


def test_a_job_never_gets_the_environment_of_one_that_was_removed(queue: Queue) -> None:
    [old] = queue.submit([{"argv": ["true"]}], env={"WHOSE": "old"})
    assert queue.store.launch(old).env == {"WHOSE": "old"}
    remove(queue, old)
    new = queue.grant(queue.wish([{"argv": ["true"]}], env={"WHOSE": "new"}))["ids"]
    queue.store.commit(queue.state, queue.state.take_change())
    assert queue.store.launch(new[0]).env == {"WHOSE": "new"}
    # And the same environment as the removed one had is written anew.
    again = queue.grant(queue.wish([{"argv": ["true"]}], env={"WHOSE": "old"}))["ids"]
    queue.store.commit(queue.state, queue.state.take_change())
    assert queue.store.launch(again[0]).env == {"WHOSE": "old"}


def test_what_was_read_ahead_of_a_job_that_was_edited_is_read_again(queue: Queue) -> None:
    ids = queue.submit([{"argv": ["old", str(number)]} for number in range(4)])
    for job_id in ids[:2]:
        queue.store.launch(job_id)  # The second one reads ahead.
    job, launch = queue.state.jobs[ids[3]], queue.store.launch(ids[3])
    queue.store.launch(ids[0]), queue.store.launch(ids[1])
    edited = launch._replace(argv=("new",))
    queue.state.apply(
        ev.JobEdited(NOW_MS, ids[3], job.need, job.terms, job.priority, None, None, edited)
    )
    queue.store.commit(queue.state, queue.state.take_change())
    assert queue.store.launch(ids[3]).argv == ("new",)


@pytest.mark.parametrize("field", ["env", "need", "terms"])
def test_what_a_transaction_that_was_undone_has_numbered_is_numbered_anew(
    queue: Queue, field: str
) -> None:
    """The number is another's by then: of the submission that came in between."""

    def submission(which: int) -> dict[str, object]:
        job: dict[str, object] = {"argv": ["true"], "hold": True}
        if field == "need":
            job |= {"cpus": which}
        if field == "terms":
            job |= {"retries": which}
        return {"jobs": [job], "env": {"N": str(which)} if field == "env" else {}}

    def fails() -> None:
        raise RuntimeError("not today")

    queue.grant(queue.wish(**submission(1)))  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="not today"):
        queue.store.commit(queue.state, queue.state.take_change(), fails)
    queue.state = queue.store.load(NOW_MS)
    [between] = queue.submit(**submission(2))  # type: ignore[arg-type]
    [again] = queue.submit(**submission(1))  # type: ignore[arg-type]
    for job_id, which in ((between, 2), (again, 1)):
        job, launch = queue.state.jobs[job_id], queue.store.launch(job_id)
        found = {"env": launch.env.get("N"), "need": job.need.cpus, "terms": job.terms.retries}
        assert str(found[field]) == str(which)
