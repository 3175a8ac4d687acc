"""What `scancel` is told: no more jobs than are meant, and no other's."""

from __future__ import annotations

from stoker.executors.slurm.calls import Answer
from stoker.executors.slurm.cancelling import Canceller
from stoker.executors.slurm.squeue import Seen

SILENT = Answer(False, b"", "no contact", True, False, 9.0)
HEARD = Answer(True, b"", "", False, False, 0.1)


def task(index: int, state: str = "PENDING") -> Seen:
    return Seen(f"8_{index}", 8, index, state, "None", None, 0, "", "a.b", "t:b")


def calls(canceller: Canceller, now: float) -> list[list[str]]:
    """All that is due."""
    found = []
    while (words := canceller.next_words(now)) is not None:
        found.append(words)
        canceller.answered(HEARD, now)
    return found


def test_what_nobody_wants_is_cancelled_by_name_in_one_call() -> None:
    canceller = Canceller()
    canceller.sift([task(index) for index in (0, 1, 2, 7)], [], 10.0)
    assert calls(canceller, 10.0) == [["scancel", "--name=a.b", "8_[0-2,7]"]]


def test_of_tasks_that_are_wanted_in_part_the_others_alone_are_named() -> None:
    canceller = Canceller()
    canceller.sift([task(3), task(4)], [task(0)], 10.0)
    assert calls(canceller, 10.0) == [["scancel", "8_[3-4]"]]


def test_ids_alone_are_not_used_once_slurms_word_for_them_is_old() -> None:
    canceller = Canceller()
    canceller.sift([task(3)], [task(0)], 10.0)
    assert calls(canceller, 13.0) == []
    assert "8_3" in canceller.unconfirmed, "so Slurm is asked again"
    canceller.sift([task(3)], [task(0)], 14.0)
    assert calls(canceller, 14.0) == [["scancel", "8_[3]"]]


def test_what_is_withdrawn_waits_for_slurms_word_and_counts_until_it_is_gone() -> None:
    canceller = Canceller()
    canceller.withdraw(task(3), 10.0)
    assert calls(canceller, 10.0) == []
    canceller.confirm(set(), asked_at=9.0)
    assert "8_3" in canceller.unconfirmed, "that was asked before"
    canceller.confirm(set(), asked_at=11.0)
    assert not canceller.unconfirmed


def test_what_runs_by_slurms_word_alone_is_cancelled_once_it_was_withdrawn() -> None:
    """A controller that was killed lets jobs run that never began; they would hold their GPUs."""
    canceller = Canceller()
    ghost, ending, waits = task(0, "RUNNING"), task(1, "RUNNING"), task(2)
    canceller.withdraw(ghost, 9.0)
    canceller.sift([ghost, ending], [waits], 10.0)
    assert calls(canceller, 10.0) == [["scancel", "--name=a.b", "8_[0]"]]


def test_a_job_that_runs_is_ended_only_if_it_runs() -> None:
    canceller = Canceller()
    canceller.ask_to_stop("a.b", "8_3", task(3, "RUNNING"), 10.0)
    canceller.end("a.b", "8_4", task(4, "SUSPENDED"), 10.0)
    assert calls(canceller, 10.0) == [
        ["scancel", "--name=a.b", "--state=RUNNING", "--full", "--signal=TERM", "8_[3]"],
        ["scancel", "--name=a.b", "--state=SUSPENDED", "8_[4]"],
    ]


def test_an_order_that_was_not_heard_is_given_again_after_a_while() -> None:
    canceller = Canceller()
    canceller.end("a.b", "9", None, 10.0)
    words = canceller.next_words(10.0)
    canceller.answered(SILENT, 19.0)
    assert canceller.next_words(20.0) is None
    assert canceller.due_at() == 22.0 and canceller.next_words(22.0) == words
