"""What reaches the thread of the cluster too late changes nothing; no cluster is needed here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.core import events as ev
from stoker.core.commands import HandOver
from stoker.core.model import Exit, Launch, Need, Terms
from stoker.executors.attempt_dir import attempt_dir_text, make_attempt_dir
from stoker.executors.slurm.cases import Adopted
from stoker.executors.slurm.files import Files
from stoker.executors.slurm.worker import Worker
from waiting import PATIENCE_S, eventually

KEY = (7, 1)
ORDER = HandOver(*KEY, "slurm", Need(0), Terms(executor="slurm"), 0, None, ())


class Ended:
    """An attempt that ended while no daemon was there, and the thread that finds it so."""

    def __init__(self, root: Path) -> None:
        self.told: list[ev.Fact] = []
        self.files = Files(root / "attempts", None)
        directory = Path(attempt_dir_text(str(root / "attempts"), *KEY))
        make_attempt_dir(str(directory))
        (directory / "batch").write_text("b 0 stoker.b\n")
        (directory / "start").write_text("n1 1 812 0 -\n")
        (directory / "exit").write_text("exited 3\n")
        lock = str(root / "slurm.lock")
        # None of Slurm's commands is on this PATH.
        self.worker = Worker(self.files, "x", lock, lambda: 0, self.told.extend, {"PATH": ""})

    def ends(self) -> list[ev.Fact]:
        """What was told of its end."""
        return [fact for fact in self.told if not isinstance(fact, ev.AttemptStarted)]

    def until_heard(self) -> None:
        """Wait until all that was posted has been dealt with."""
        heard: list[bool] = []
        self.worker.post(lambda worker: heard.append(True))
        eventually(lambda: heard, "the thread has come so far")
        self.worker.post(lambda worker: heard.append(True))
        eventually(lambda: len(heard) == 2, "and has finished that round")


@pytest.fixture
def ended(tmp_path: Path) -> Iterator[Ended]:
    """The thread, once it has told of the end."""
    ended = Ended(tmp_path)
    ended.worker.start()
    ended.worker.post(lambda worker: worker.adopt([Adopted(KEY, "", False, False)]))
    eventually(ended.ends, "its end is told")
    try:
        yield ended
    finally:
        ended.worker.end()


def test_an_order_that_crosses_the_news_of_the_end_is_not_carried_out_again(ended: Ended) -> None:
    """A new daemon repeats the orders of all active attempts before it has heard of their ends."""
    ended.worker.post(lambda worker: worker.order(ORDER, Launch(("true",))))
    ended.until_heard()
    assert KEY not in ended.worker.standings
    (end,) = ended.ends()
    assert isinstance(end, ev.AttemptExited) and end.exit == Exit(code=3)


def test_a_stop_that_crosses_the_news_of_the_end_does_not_tell_another(ended: Ended) -> None:
    ended.worker.post(lambda worker: worker.stop(KEY, False))
    ended.until_heard()
    assert [type(fact) for fact in ended.ends()] == [ev.AttemptExited]


def test_that_an_attempt_was_withdrawn_is_known_from_its_files_whoever_did_it(
    tmp_path: Path,
) -> None:
    files = Files(tmp_path / "attempts", None)
    files.make_batch("b", ())
    for index, start in enumerate(("withdrawn 0 - 0 -\n", "n1 1 8_1 0 -\n")):
        directory = attempt_dir_text(str(tmp_path / "attempts"), 7 + index, 1)
        make_attempt_dir(directory)
        Path(directory, "start").write_text(start)
        Path(files.batch_path("b"), str(index)).symlink_to(directory)
    assert files.was_withdrawn("b", 0)
    assert not files.was_withdrawn("b", 1), "that one runs"
    assert not files.was_withdrawn("b", 2), "nothing is known of that one"


def test_that_an_attempt_is_over_is_known_from_its_files_although_slurm_says_that_it_runs(
    tmp_path: Path,
) -> None:
    files = Files(tmp_path / "attempts", None)
    files.make_batch("b", ())
    for index, (name, text) in enumerate((("exit", "exited 0"), ("refused", "x"), ("told", "8"))):
        directory = attempt_dir_text(str(tmp_path / "attempts"), 7 + index, 1)
        make_attempt_dir(directory)
        Path(directory, name).write_text(f"{text}\n")
        Path(files.batch_path("b"), str(index)).symlink_to(directory)
    assert [files.has_ended("b", index) for index in range(4)] == [True, True, False, False]


def test_a_thread_that_has_ended_before_it_could_be_woken_is_not_woken(
    ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    really_write = os.write

    def write_when_it_is_gone(fd: int, data: bytes) -> int:
        really_write(fd, data)  # Something else has woken it, just when it was told to end.
        ended.worker.join(PATIENCE_S)
        return really_write(fd, data)

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", write_when_it_is_gone)
        ended.worker.end()
    assert not ended.worker.is_alive()
    ended.worker.end()
