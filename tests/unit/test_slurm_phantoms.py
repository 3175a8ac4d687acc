"""What has ended and still runs by Slurm's word is called off, but not in the first moment."""

from __future__ import annotations

from stoker.executors.slurm.squeue import Seen
from stoker.executors.slurm.sweeping import Phantoms


def runs(slurm_id: str) -> Seen:
    return Seen(slurm_id, 8, None, "RUNNING", "None", None, 0, "n1", "stoker.b", "b", 8)


def test_the_news_of_an_end_may_take_its_time() -> None:
    phantoms = Phantoms()
    assert phantoms.due_at() is None
    assert phantoms.overdue([runs("8_0")], 100.0) == []
    assert phantoms.due_at() == 110.0, "that is when it is looked at again"
    assert phantoms.overdue([runs("8_0"), runs("8_1")], 109.0) == []
    assert phantoms.overdue([runs("8_0"), runs("8_1")], 110.0) == [runs("8_0")]


def test_one_that_was_gone_in_between_begins_anew() -> None:
    phantoms = Phantoms()
    phantoms.overdue([runs("8_0")], 100.0)
    assert phantoms.overdue([], 105.0) == []
    assert phantoms.due_at() is None
    assert phantoms.overdue([runs("8_0")], 111.0) == []
