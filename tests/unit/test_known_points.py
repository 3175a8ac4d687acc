"""Points that two submissions of one turn have in common get one job each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from unit.queue_scene import Queue

ONE: dict[str, Any] = {"jobs": [{"argv": ["true"], "point": "p", "hold": True}]}
ALONE: dict[str, Any] = {"jobs": [{"argv": ["true"], "point": "p"}]}
ALIKE: dict[str, Any] = {
    "jobs": [{"argv": ["true"]}],
    "each": [{"point": "p"}, {"point": "q"}],
}
SHARED: dict[str, Any] = {"jobs": [{"argv": ["true"], "point": "p"}], "each": [{}, {"point": "q"}]}


@pytest.mark.parametrize("first", [ONE, ALONE, ALIKE, SHARED])
@pytest.mark.parametrize("second", [ONE, ALONE, ALIKE, SHARED])
@pytest.mark.parametrize("rerun", ["missing", "all"])
def test_the_same_point_is_queued_once_by_two_submissions_of_one_turn(
    tmp_path: Path, first: dict[str, Any], second: dict[str, Any], rerun: str
) -> None:
    queue = Queue(tmp_path)
    proposals = [queue.proposal(**one, rerun=rerun) for one in (first, second)]
    answers = [queue.grant(proposal) for proposal in proposals]
    queue.commit()
    points = [queue.store.launch(job_id).point for job_id in queue.state.jobs]
    assert sorted(points, key=str) == sorted({"p", *(["q"] if "q" in str((first, second)) else [])})
    assert answers[1]["left_out"]["unfinished"] >= 1


@pytest.mark.parametrize("rerun", ["missing", "all"])
def test_the_same_point_twice_in_one_submission_is_queued_once(tmp_path: Path, rerun: str) -> None:
    queue = Queue(tmp_path)
    job = {"argv": ["true"], "point": "p"}
    ids = queue.submit([job, job], rerun=rerun)
    more = queue.submit([{"argv": ["true"]}], each=[{"point": "q"}, {"point": "q"}], rerun=rerun)
    assert (len(ids), len(more)) == (1, 1)
