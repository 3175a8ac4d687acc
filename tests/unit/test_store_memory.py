"""What the store remembers of the file is forgotten with what it remembers.

Rows get numbers that are free again once they are removed or a transaction is undone. Whatever is
remembered by such a number must go with it, or a job starts with another one's environment.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.core import events as ev
from stoker.core.model import Cause, Launch
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
    new = queue.grant(queue.proposal([{"argv": ["true"]}], env={"WHOSE": "new"}))["ids"]
    queue.store.commit(queue.state, queue.state.take_change())
    assert queue.store.launch(new[0]).env == {"WHOSE": "new"}
    # And the same environment as the removed one had is written anew.
    again = queue.grant(queue.proposal([{"argv": ["true"]}], env={"WHOSE": "old"}))["ids"]
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

    queue.grant(queue.proposal(**submission(1)))  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="not today"):
        queue.store.commit(queue.state, queue.state.take_change(), fails)
    queue.state = queue.store.load(NOW_MS)
    [between] = queue.submit(**submission(2))  # type: ignore[arg-type]
    [again] = queue.submit(**submission(1))  # type: ignore[arg-type]
    for job_id, which in ((between, 2), (again, 1)):
        job, launch = queue.state.jobs[job_id], queue.store.launch(job_id)
        found = {"env": launch.env.get("N"), "need": job.need.cpus, "terms": job.terms.retries}
        assert str(found[field]) == str(which)


def test_what_was_just_committed_is_handed_over_as_it_would_be_read(queue: Queue) -> None:
    [before] = queue.submit([{"argv": ["true"]}])
    queue.state.apply(ev.JobCancelled(NOW_MS, before, Cause.CANCELLED))
    queue.commit()
    jobs: list[dict[str, object]] = [
        {"argv": ["ü"], "env": {"B": "2"}, "name": "one", "kind": "k", "after_any": [str(before)]},
        {"shell": "true", "params": {"lr": 0.1}, "point": "sweep:1", "out": "/tmp/out"},
    ]
    ids = queue.grant(queue.proposal(jobs, umask=0o27))["ids"]
    for job_id in ids:
        queue.state.apply(ev.AttemptPlaced(NOW_MS, job_id, 1, (str(job_id % 4),)))
    queue.store.commit(queue.state, queue.state.take_change())
    asked: list[str] = []
    queue.store.connection.set_trace_callback(asked.append)
    handed_over = [queue.store.launch(job_id) for job_id in ids]
    assert asked == [], "it is in memory still"
    assert handed_over == [queue.store.launch(job_id) for job_id in ids]
    assert asked, "but only once"


def test_alike_jobs_are_handed_over_as_they_would_be_read(queue: Queue) -> None:
    each = [
        {"argv": ["a"]},
        {"shell": "b"},
        {"params": {"x": 1}, "point": "sweep:2"},
        {"name": "d"},
    ]
    proposal = queue.proposal([{"argv": ["true"], "name": "all"}], each=each)
    ids = queue.grant(proposal)["ids"]
    for job_id in ids[:3]:
        queue.state.apply(ev.AttemptPlaced(NOW_MS, job_id, 1, (str(job_id % 4),)))
    queue.store.commit(queue.state, queue.state.take_change())
    handed_over = [queue.store.launch(job_id) for job_id in ids]
    assert handed_over == [queue.store.launch(job_id) for job_id in ids]
    assert [launch.name for launch in handed_over] == ["all", "all", "all", "d"]


def test_a_job_that_is_edited_in_the_turn_that_queues_it_starts_as_edited(queue: Queue) -> None:
    [job_id] = queue.grant(queue.proposal([{"argv": ["old"]}]))["ids"]
    job = queue.state.jobs[job_id]
    new = Launch(("new",), cwd="/", user="tester")
    queue.state.apply(
        ev.JobEdited(NOW_MS, job_id, job.need, job.terms, job.priority, None, None, new)
    )
    queue.state.apply(ev.AttemptPlaced(NOW_MS, job_id, 1, ("0",)))
    queue.store.commit(queue.state, queue.state.take_change())
    assert queue.store.launch(job_id).argv == ("new",)


def test_settings_are_read_again_once_they_have_changed(queue: Queue) -> None:
    queue.store.set_setting("grace", "5s")
    asked: list[str] = []
    assert queue.store.settings()["grace"] == "5s"
    queue.store.connection.set_trace_callback(asked.append)
    assert queue.store.settings()["grace"] == "5s" and asked == []
    queue.store.set_setting("grace", "6s")
    assert queue.store.settings()["grace"] == "6s"
    queue.state.apply(ev.QueuePaused(NOW_MS, None))
    queue.store.commit(queue.state, queue.state.take_change())
    assert queue.store.settings()["paused"] == "1"
    queue.store.set_setting("grace", None)
    assert "grace" not in queue.store.settings()
