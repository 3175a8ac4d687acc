"""Checkpoint directories: what counts as progress, and how they are thrown away."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest

from stoker.core.model import Attempt, Job, Launch, Need, Terms
from stoker.daemon.checkpoints import Checkpoints, has_progressed
from stoker.executors.checkpoint_dir import (
    checkpoint_text,
    empty_trash,
    last_written_ms,
    link_checkpoint_dir,
    make_checkpoint_dir,
    throw_away,
    written_since,
)
from waiting import eventually


@pytest.fixture
def attempts(tmp_path: Path) -> str:
    (tmp_path / "attempts" / "0000").mkdir(parents=True)
    return str(tmp_path / "attempts")


def test_a_job_has_one_and_jobs_at_the_same_point_share_it(attempts: str) -> None:
    assert checkpoint_text(attempts, 7123, None).endswith("/checkpoints/0007/7123")
    assert checkpoint_text(attempts, 1, "sweep:a") == checkpoint_text(attempts, 2, "sweep:a")
    assert checkpoint_text(attempts, 1, "sweep:a") != checkpoint_text(attempts, 1, "sweep:b")


def _write(path: Path) -> None:
    (path / "old").write_text("more")


def _add(path: Path) -> None:
    (path / "deep" / "new").write_text("x")


def _remove(path: Path) -> None:
    (path / "old").unlink()


def _try_in_vain(path: Path) -> None:
    (path / "deep" / "cut off").write_text("x")  # The disk is full, and so it goes again.
    (path / "deep" / "cut off").unlink()


def _make_room(path: Path) -> None:
    (path / "for later").mkdir()


@pytest.mark.parametrize(
    ("change", "further"),
    [(_write, True), (_add, True), (_remove, False), (_try_in_vain, False), (_make_room, False)],
)
def test_a_file_that_was_written_in_it_and_stays_is_progress_and_nothing_else_is(
    attempts: str, change: Callable[[Path], None], further: bool
) -> None:
    path = Path(checkpoint_text(attempts, 1, None))
    make_checkpoint_dir(str(path))
    (path / "deep").mkdir()
    (path / "old").write_text("x")
    for one in (path / "old", path / "deep", path):
        os.utime(one, (1_000, 1_000))
    began_ms = time.time_ns() // 1_000_000 - 1_000
    assert not written_since(str(path), began_ms)
    change(path)
    assert written_since(str(path), began_ms) is further


def test_that_it_was_made_is_no_progress_nor_is_that_it_is_not_there(attempts: str) -> None:
    path = checkpoint_text(attempts, 1, None)
    long_ago_ms = 1_000
    assert not written_since(path, long_ago_ms)
    make_checkpoint_dir(path)
    assert not written_since(path, long_ago_ms)
    (Path(path) / "x").write_text("x")
    make_checkpoint_dir(path)  # It stays as it is.
    assert written_since(path, long_ago_ms)


def test_what_can_not_be_looked_at_is_taken_for_progress(attempts: str) -> None:
    path = checkpoint_text(attempts, 1, None)
    os.makedirs(os.path.dirname(path))
    os.symlink(path, path)
    assert written_since(path, 0)


def test_only_a_further_step_than_any_before_is_progress(attempts: str) -> None:
    def reported(attempt: int, *lines: object) -> bool:
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        Path(f"{attempts}/0000/1.{attempt}.metrics").write_text(text)
        return has_progressed(attempts, (1, attempt), f"{attempts}/none", 0)

    assert reported(1, {"step": 5, "metrics": {}}, {"step": 4, "metrics": {}})
    assert not reported(2, {"step": 5, "metrics": {}})
    assert not reported(3, {"metrics": {"loss": 1}}, ["no", "object"])
    assert reported(4, {"epoch": 6, "metrics": {}})
    assert not has_progressed(attempts, (1, 9), f"{attempts}/none", 0)


def test_what_a_job_has_linked_to_is_not_deleted_with_its_checkpoints(
    attempts: str, tmp_path: Path
) -> None:
    mine = tmp_path / "checkpoints of mine"
    mine.mkdir()
    (mine / "best").write_text("x")
    path = Path(checkpoint_text(attempts, 1, None))
    path.parent.mkdir(parents=True)
    path.symlink_to(mine)
    assert throw_away(str(path))
    empty_trash(attempts)
    assert not os.path.lexists(path) and not os.listdir(path.parents[1] / ".deleted")
    assert (mine / "best").exists()


def test_it_is_gone_at_once_and_deleted_later_also_where_a_cluster_sees_it(
    attempts: str, tmp_path: Path
) -> None:
    here = Path(checkpoint_text(attempts, 1, None))
    there = Path(checkpoint_text(f"{tmp_path}/shared/attempts", 1, None))
    make_checkpoint_dir(str(there))
    (there / "x").write_text("x")
    link_checkpoint_dir(str(here), str(there))
    assert (here / "x").exists()
    assert throw_away(str(here)) and not throw_away(str(here))
    assert not here.exists() and there.exists()
    empty_trash(attempts)
    assert not there.exists()
    assert os.listdir(tmp_path / "checkpoints" / ".deleted") == []


def test_a_look_is_waited_for_but_not_for_ever(
    attempts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, now_ms, woken = Event(), [0], Event()

    def hangs(*_: object) -> bool:
        return not answers.wait(60)

    monkeypatch.setattr("stoker.daemon.checkpoints.has_progressed", hangs)
    looks = Checkpoints(attempts, lambda job_id: Launch(), lambda: now_ms[0], woken.set)
    job = Job(1, Need(), Terms(requeue_on=(75,)), active=Attempt(1, (), 0))
    try:
        assert looks.progressed(job) is None and looks.progressed(job) is None
        now_ms[0] = 10_000
        assert looks.progressed(job) is True  # It hangs, and is not the job's fault.
        answers.set()
        eventually(woken.is_set)
        eventually(lambda: looks.progressed(job) is False)
    finally:
        answers.set()
        looks.close()


def test_a_directory_without_files_tells_of_no_work_that_was_saved(tmp_path: Path) -> None:
    assert last_written_ms(str(tmp_path)) is None
    (tmp_path / "weights").touch()
    written_ms = (tmp_path / "weights").stat().st_mtime_ns // 1_000_000
    assert last_written_ms(str(tmp_path)) == written_ms
    assert last_written_ms(str(tmp_path / "gone")) is None
